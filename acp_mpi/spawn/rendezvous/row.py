"""What the row of a process tells about it, as `struct row` of `engine/layout.h` has it."""

import struct
from dataclasses import dataclass
from typing import Self

from acp_mpi.errors import Error
from acp_mpi.spawn.rendezvous.membership import ROW_SIZE

_ROW = struct.Struct("<QQQIiIHBB20sI")
assert _ROW.size == ROW_SIZE
_LAYOUT_AT = struct.calcsize("<QQQIiIH")


def layout(row: bytes) -> int:
    """Return by which version of the layout of shared memory its process works."""
    return row[_LAYOUT_AT]


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a job; equal `node`: they share memory, equal `host`: they share a network."""

    pid: int
    start_time: int  # clock ticks after the boot, as in /proc/PID/stat
    node: int
    host: int
    address: str  # by which other hosts reach its links; "": this host only

    @classmethod
    def of(cls, row: bytes) -> Self:
        """Return the process of a row of `Membership.row`."""
        if len(row) != ROW_SIZE:
            raise Error(f"a row has {len(row)} bytes: expected {ROW_SIZE}")
        _, node, start_time, pid, *_, addresses, host = _ROW.unpack(row)
        address = ".".join(map(str, addresses[:4])) if any(addresses[:4]) else ""
        return cls(pid, start_time, node, host, address)
