"""The members of a job: the table, one row a slot."""

from __future__ import annotations

import struct

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.packing import Reader, pack_text
from acp_mpi.util.record import Record

ROW_SIZE = 64
RANKS_MAX = 2**21 - 1  # what a global address can name
NAME_MAX = 255  # bytes of a group's name
_SHAPE = struct.Struct("<I?")  # of a group: size, has_mpi


class Group(Record):
    """The processes of one communicator, or processes without MPI; they fill adjoining slots."""

    __slots__ = ("name", "offset", "size", "has_mpi")  # noqa: RUF023

    def __init__(self, name: str, offset: int, size: int, has_mpi: bool) -> None:
        self.name, self.offset, self.size, self.has_mpi = name, offset, size, has_mpi

    @property
    def slots(self) -> range:
        """The slots of this group, in the order of its ranks."""
        return range(self.offset, self.offset + self.size)


class Membership:
    """The table of all processes of a job, one row a slot; it only ever grows."""

    def __init__(self) -> None:
        self._founders: int | None = None
        self._groups: dict[str, Group] = {}
        self._rows = bytearray()

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self._rows) // ROW_SIZE

    def __repr__(self) -> str:
        """Show the groups and their sizes."""
        groups = ", ".join(f"{group.name}: {group.size}" for group in self.groups)
        return f"<Membership {len(self)} slots ({groups})>"

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups in the order of their slots."""
        return tuple(self._groups.values())

    @property
    def founders(self) -> int:
        """How many slots the job began with: all, unless it has grown since `found`."""
        return len(self) if self._founders is None else self._founders

    def found(self) -> None:
        """Let the groups that are here be those which the job begins with."""
        self._founders = len(self)

    @property
    def rows(self) -> memoryview:
        """All rows in the order of their slots; none is appended while this is kept."""
        return memoryview(self._rows)

    def group(self, name: str) -> Group:
        """Return the group of that name."""
        try:
            return self._groups[name]
        except KeyError:
            raise Error(
                f"no group {name!r} in this job; there is "
                f"{', '.join(map(repr, self._groups)) or 'none'}"
            ) from None

    def row(self, slot: int) -> bytes:
        """Return the 64 bytes of a slot."""
        if not 0 <= slot < len(self):
            raise Error(f"no slot {slot} in a job of {len(self)}")
        return bytes(self._rows[slot * ROW_SIZE : (slot + 1) * ROW_SIZE])

    def append(self, name: str, has_mpi: bool, rows: bytes) -> Group:
        """Give a new group the slots after the last, one for each 64 bytes of its rows."""
        size, rest = divmod(len(rows), ROW_SIZE)
        if rest:
            raise Error(f"the rows of group {name!r} end after {rest} bytes of {ROW_SIZE}")
        self._check_next(name, len(self), size)
        group = Group(name, len(self), size, has_mpi)
        self._groups[name] = group
        self._rows += rows
        return group

    def pack(self) -> bytes:
        """Return the table as bytes: the groups, then all rows."""
        parts = [struct.pack("<II", len(self._groups), self.founders)]
        for group in self.groups:
            parts += pack_text(group.name), _SHAPE.pack(group.size, group.has_mpi)
        return b"".join((*parts, self._rows))

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> Membership:
        """Return the table that `pack` made into these bytes."""
        reader, table = Reader(data), cls()
        groups, founders = reader.numbers("<II")
        count = 0
        for _ in range(groups):
            name = reader.text()
            size, has_mpi = _SHAPE.unpack(reader.take(_SHAPE.size))
            table._check_next(name, count, size)
            table._groups[name] = Group(name, count, size, has_mpi)
            count += size
        table._rows += reader.take(count * ROW_SIZE)
        reader.end()
        if founders > count:
            raise Error(f"a job of {count} ranks cannot have begun with {founders}")
        table._founders = founders
        return table

    def _check_next(self, name: str, count: int, size: int) -> None:
        check_group(name, size)
        if name in self._groups:
            raise Error(f"a group {name!r} is in this job already")
        if count + size > RANKS_MAX:
            raise Error(
                f"no room for the {size} ranks of group {name!r}: a job has at most "
                f"{RANKS_MAX}, and {count} are taken"
            )


def first_without(rows: bytes) -> int | None:
    """Return the index of the first row of zeros, which stands for none; None: no such row."""
    nonces = struct.iter_unpack(f"<Q{ROW_SIZE - 8}x", rows)
    return next((index for index, (nonce,) in enumerate(nonces) if not nonce), None)


def check_group(name: str, size: int) -> None:
    """Raise Error unless a group may have this name and size."""
    if not name.isprintable() or not 0 < len(name.encode()) <= NAME_MAX:
        raise Error(f"group name {name!r}: expected 1 to {NAME_MAX} bytes of printable characters")
    if not 0 < size <= RANKS_MAX:
        raise Error(f"group {name!r} has size {size}: expected 1 to {RANKS_MAX}")


def check_row(rank: int, row: bytes) -> None:
    """Raise Error unless a row has the size of one."""
    if len(row) != ROW_SIZE:
        raise Error(f"the row of rank {rank} has {len(row)} bytes: expected {ROW_SIZE}")
