"""Who belongs to a job: the table, what a member announces, and the roll of who has come.

All numbers are little-endian, everything variable is preceded by its length, and nothing is
unpickled. A row is 64 bytes that only the engine understands.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from acp_mpi.errors import Error

ROW_SIZE = 64
RANKS_MAX = 2**21 - 1  # what a global address can name
NAME_MAX = 255  # bytes of a group's name


@dataclass(frozen=True, slots=True)
class Group:
    """The processes of one communicator, or processes without MPI; they fill adjoining slots."""

    name: str
    offset: int
    size: int
    has_mpi: bool

    @property
    def slots(self) -> range:
        """The slots of this group, in the order of its ranks."""
        return range(self.offset, self.offset + self.size)


class Membership:
    """The table of all processes of a job, one row a slot; it only ever grows."""

    def __init__(self) -> None:
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
    def rows(self) -> bytes:
        """All rows in the order of their slots."""
        return bytes(self._rows)

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
        check_group(name, size)
        if name in self._groups:
            raise Error(f"a group {name!r} is in this job already")
        if len(self) + size > RANKS_MAX:
            raise Error(
                f"no room for the {size} ranks of group {name!r}: a job has at most "
                f"{RANKS_MAX}, and {len(self)} are taken"
            )
        group = Group(name, len(self), size, has_mpi)
        self._groups[name] = group
        self._rows += rows
        return group

    def pack(self) -> bytes:
        """Return the table as bytes."""
        parts = [struct.pack("<I", len(self._groups))]
        for group in self.groups:
            parts += _pack_text(group.name), struct.pack("<I?", group.size, group.has_mpi)
            parts.append(bytes(self._rows[group.offset * ROW_SIZE : group.slots.stop * ROW_SIZE]))
        return b"".join(parts)

    @classmethod
    def unpack(cls, data: bytes) -> "Membership":
        """Return the table that `pack` made into these bytes."""
        reader, table = _Reader(data), cls()
        (groups,) = reader.numbers("<I")
        for _ in range(groups):
            name = reader.text()
            size, has_mpi = reader.numbers("<I?")
            table.append(name, has_mpi, reader.take(size * ROW_SIZE))
        reader.end()
        return table


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a member tells the rendezvous: its group and the rows it answers for.

    A group with MPI, and one that is a single process, comes as a whole; the processes of any
    other group may come one by one. `patience` is how many seconds the member waits for the
    others, `origin` says host and process for messages.
    """

    name: str
    size: int
    has_mpi: bool
    rows: tuple[tuple[int, bytes], ...]
    patience: float
    origin: str

    def __post_init__(self) -> None:
        check_group(self.name, self.size)
        ranks = {rank for rank, _ in self.rows}
        if (
            not ranks
            or len(ranks) < len(self.rows)
            or not all(0 <= rank < self.size for rank in ranks)
        ):
            raise Error(
                f"group {self.name!r} announces {len(self.rows)} rows with ranks from "
                f"{min(ranks, default=None)} to {max(ranks, default=None)}: expected "
                f"one or more different ones from 0 to {self.size - 1}"
            )
        if not 0 <= self.patience < 1e9:
            raise Error(f"a timeout of {self.patience} s: expected 0 to 1e9")
        if self.has_mpi and len(ranks) < self.size:
            raise Error(
                f"group {self.name!r} has MPI and announces {len(ranks)} of its "
                f"{self.size} rows: gather all on one rank, and let it announce them"
            )
        for rank, row in self.rows:
            check_row(rank, row)

    def pack(self) -> bytes:
        """Return the announcement as bytes."""
        rows = (struct.pack("<I", rank) + row for rank, row in self.rows)
        return b"".join(
            (
                _pack_text(self.name),
                _pack_text(self.origin),
                struct.pack("<I?dI", self.size, self.has_mpi, self.patience, len(self.rows)),
                *rows,
            )
        )

    @classmethod
    def unpack(cls, data: bytes) -> "Announcement":
        """Return the announcement that `pack` made into these bytes."""
        reader = _Reader(data)
        name, origin = reader.text(), reader.text()
        size, has_mpi, patience, count = reader.numbers("<I?dI")
        rows = tuple((reader.numbers("<I")[0], reader.take(ROW_SIZE)) for _ in range(count))
        reader.end()
        return cls(name, size, has_mpi, rows, patience, origin)


@dataclass
class _Arrival:
    """What has come of one group."""

    size: int
    has_mpi: bool
    rows: dict[int, bytes] = field(default_factory=dict)
    origins: dict[int, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.rows) == self.size


class Roll:
    """Who is expected, who has come, who is missing: the rules, without the network."""

    def __init__(self, expected: int | Mapping[str, int]) -> None:
        self._sizes = None if isinstance(expected, int) else dict(expected)
        self._count = expected if isinstance(expected, int) else len(expected)
        if self._count < 1:
            raise Error(f"a job of {self._count} groups: expected at least one")
        for name, size in (self._sizes or {}).items():
            check_group(name, size)
        self._arrivals: dict[str, _Arrival] = {}

    @property
    def complete(self) -> bool:
        """Whether all groups of the job have come with all their ranks."""
        return len(self._arrivals) == self._count and all(
            arrival.complete for arrival in self._arrivals.values()
        )

    def enter(self, new: Announcement, origin: str) -> None:
        """Note what a member announces, or raise Error with what it should be told."""
        arrival = self._arrivals.get(new.name)
        if arrival is None:
            self._check_expected(new)
            arrival = self._arrivals[new.name] = _Arrival(new.size, new.has_mpi)
        elif arrival.has_mpi or new.has_mpi:
            raise Error(
                f"a group {new.name!r} has come already, from "
                f"{_origins(arrival.origins)}: give each group a name of its own"
            )
        elif arrival.size != new.size:
            raise Error(
                f"group {new.name!r} has {arrival.size} ranks as announced by "
                f"{_origins(arrival.origins)}, and not {new.size}"
            )
        for rank, _ in new.rows:
            if rank in arrival.rows:
                raise Error(
                    f"rank {rank} of group {new.name!r} has come already, from "
                    f"{arrival.origins[rank]}: give each process an ACP_GROUP_RANK of "
                    "its own, and each group a name of its own"
                )
        arrival.rows.update(new.rows)
        arrival.origins.update((rank, origin) for rank, _ in new.rows)

    def withdraw(self, old: Announcement) -> None:
        """Forget a member that left before the job was complete, so that another may come."""
        arrival = self._arrivals[old.name]
        for rank, _ in old.rows:
            del arrival.rows[rank], arrival.origins[rank]
        if not arrival.rows:
            del self._arrivals[old.name]

    def membership(self) -> Membership:
        """Return the table: groups as expected by name, or else in the order of their names.

        Not in the order of arrival, so that the ranks of a job are the same in every run.
        """
        table = Membership()
        for name in self._sizes or sorted(self._arrivals):
            arrival = self._arrivals[name]
            rows = b"".join(arrival.rows[rank] for rank in range(arrival.size))
            table.append(name, arrival.has_mpi, rows)
        return table

    def report(self) -> str:
        """Say which groups and ranks came, from where, and which are missing."""
        came, missing = [], []
        for name, arrival in self._arrivals.items():
            ranks = "complete" if arrival.complete else f"ranks {_ranks(arrival.rows)}"
            came.append(
                f"group {name!r} of {arrival.size} ({ranks}) from {_origins(arrival.origins)}"
            )
            if not arrival.complete:
                absent = (rank for rank in range(arrival.size) if rank not in arrival.rows)
                missing.append(f"ranks {_ranks(absent)} of group {name!r}")
        if self._sizes is not None:
            missing += (
                f"all {size} ranks of group {name!r}"
                for name, size in self._sizes.items()
                if name not in self._arrivals
            )
        elif unnamed := self._count - len(self._arrivals):
            missing.append(f"{unnamed} more group{'s' * (unnamed > 1)}, not announced yet")
        return f"came: {'; '.join(came) or 'nobody'}; missing: {', '.join(missing) or 'nobody'}"

    def _check_expected(self, new: Announcement) -> None:
        if self._sizes is not None and new.name not in self._sizes:
            raise Error(
                f"no group {new.name!r} belongs to this job: expected "
                f"{', '.join(map(repr, self._sizes))}"
            )
        if self._sizes is not None and new.size != self._sizes[new.name]:
            raise Error(
                f"group {new.name!r} comes with {new.size} ranks: expected {self._sizes[new.name]}"
            )
        if len(self._arrivals) == self._count:
            raise Error(
                f"no more than {self._count} groups belong to this job, and these have "
                f"come: {', '.join(map(repr, self._arrivals))}"
            )


def check_group(name: str, size: int) -> None:
    """Raise Error unless a group may have this name and size."""
    if not 0 < len(name.encode()) <= NAME_MAX or not name.isprintable():
        raise Error(f"group name {name!r}: expected 1 to {NAME_MAX} bytes of printable characters")
    if not 0 < size <= RANKS_MAX:
        raise Error(f"group {name!r} has size {size}: expected 1 to {RANKS_MAX}")


def check_row(rank: int, row: bytes) -> None:
    """Raise Error unless a row has the size of one."""
    if len(row) != ROW_SIZE:
        raise Error(f"the row of rank {rank} has {len(row)} bytes: expected {ROW_SIZE}")


def _ranks(ranks: Iterable[int]) -> str:
    """Say ranks as ranges: 0-3, 7."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def _origins(origins: Mapping[int, str], most: int = 4) -> str:
    """Say where ranks came from, a few of many."""
    different = list(dict.fromkeys(origins[rank] for rank in sorted(origins)))
    more = len(different) - most
    return ", ".join(different[:most]) + (f" and {more} more" if more > 0 else "")


def _pack_text(text: str) -> bytes:
    data = text.encode()[:0xFFFF]
    return struct.pack("<H", len(data)) + data


class _Reader:
    """Takes apart bytes that may be damaged or hostile: an error, never a wrong value."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise Error(f"a message ends {size - len(self._data) + self._at} bytes too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def text(self) -> str:
        (size,) = self.numbers("<H")
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise Error("a message holds text that is no UTF-8") from None

    def end(self) -> None:
        if self._at != len(self._data):
            raise Error(f"a message is {len(self._data) - self._at} bytes too long")
