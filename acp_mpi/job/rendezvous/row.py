"""The row of a process, as `struct row` of `engine/core/layout.h` has it."""

from __future__ import annotations

import _socket
import struct

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.membership import ROW_SIZE
from acp_mpi.util.record import Record

_ROW = struct.Struct("<QQQIiIHBB20sI")
assert _ROW.size == ROW_SIZE
_SIX = 1  # ROW_SIX


def nonce(row: bytes) -> int:
    """Return the number that tells its process from all others."""
    (number,) = struct.unpack_from("<Q", row)
    return int(number)


def endpoints(row: bytes, host: int) -> list[tuple[str, int]]:
    """Return the addresses and ports of a process's links, as processes of `host` reach them."""
    *_, port, _, flags, addresses, its_host = _ROW.unpack(row)
    port = _socket.ntohs(port)
    if its_host == host:
        return [("127.0.0.1", port)]
    fours, sixes = (addresses[:4], addresses[4:]) if flags & _SIX else (addresses, b"")
    parts = (fours[at : at + 4] for at in range(0, len(fours), 4))
    found = [_socket.inet_ntop(_socket.AF_INET, part) for part in parts if any(part)]
    if sixes:
        found.append(_socket.inet_ntop(_socket.AF_INET6, sixes))
    return [(address, port) for address in found]


class Process(Record):
    """A process of a job; equal `node`: they share memory, equal `host`: they share a network.

    `start_time`: clock ticks after the boot, as in /proc/PID/stat. `address`: by which other hosts
    reach its links; "": this host only.
    """

    __slots__ = ("pid", "start_time", "node", "host", "address")  # noqa: RUF023

    def __init__(self, pid: int, start_time: int, node: int, host: int, address: str) -> None:
        self.pid, self.start_time = pid, start_time
        self.node, self.host, self.address = node, host, address

    @classmethod
    def of(cls, row: bytes) -> Process:
        """Return the process of a row of `Membership.row`."""
        if len(row) != ROW_SIZE:
            raise Error(f"a row has {len(row)} bytes: expected {ROW_SIZE}")
        _, node, start_time, pid, *_, addresses, host = _ROW.unpack(row)
        address = ".".join(map(str, addresses[:4])) if any(addresses[:4]) else ""
        return cls(pid, start_time, node, host, address)
