"""The announcement of a member of a job to the rendezvous, and the build that it runs."""

from __future__ import annotations

import struct

from acp_mpi import __version__
from acp_mpi.engine import _engine
from acp_mpi.engine._sources import SOURCES
from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.membership import ROW_SIZE, check_group, check_row
from acp_mpi.job.rendezvous.packing import Reader, pack_text
from acp_mpi.util.record import Record

_LAYOUT = struct.Struct("<B")


class Build(Record):
    """A version, the layout of what processes share or say to each other, a hash of the sources.

    The hash tells two states of the sources between the same two releases apart. `links`: what
    the process was given as `ACP_LINKS`.
    """

    __slots__ = ("version", "layout", "sources", "links")  # noqa: RUF023

    def __init__(self, version: str, layout: int, sources: str, links: str = "") -> None:
        self.version, self.layout, self.sources, self.links = version, layout, sources, links

    def __str__(self) -> str:
        return f"{self.version} (layout {self.layout}, sources {self.sources})"

    def refusal(self, one: str, other: Build, another: str) -> str | None:
        """Say why `one`, which runs this, cannot be in a job with `another`, or return None."""
        same_sources = self.version != other.version or self.sources == other.sources
        if self.layout != other.layout or not same_sources:
            return (
                f"{one} runs acp_mpi {self}, and {another} {other}: install the same in the "
                "environments of both"
            )
        if self.links != other.links:
            mine, theirs = (build.links or "(unset)" for build in (self, other))
            return (
                f"{one} has ACP_LINKS={mine}, and {another} {theirs}: set it alike for all "
                "processes of the job"
            )
        return None

    def pack(self) -> bytes:
        """Return it as bytes."""
        texts = map(pack_text, (self.version, self.sources, self.links))
        return _LAYOUT.pack(self.layout) + b"".join(texts)

    @classmethod
    def read(cls, reader: Reader) -> Build:
        """Return what `pack` made into the next bytes."""
        (layout,) = _LAYOUT.unpack(reader.take(_LAYOUT.size))
        version, sources, links = reader.text(), reader.text(), reader.text()
        return cls(version, layout, sources, links)


def own(links: str = "") -> Build:
    """Return that of this process."""
    return Build(__version__, _engine.LAYOUT, SOURCES, links)


class Announcement(Record):
    """The announcement of a member: its group and the rows that it answers for.

    A group with MPI, and one that is a single process, comes as a whole; the processes of any
    other group may come one by one. `patience` is how many seconds the member waits for the
    others, `origin` says host and process for messages, `build` which acp_mpi it runs.
    """

    __slots__ = ("name", "size", "has_mpi", "rows", "patience", "origin", "build")  # noqa: RUF023

    def __init__(
        self,
        name: str,
        size: int,
        has_mpi: bool,
        rows: tuple[tuple[int, bytes], ...],
        patience: float,
        origin: str,
        build: Build | None = None,
    ) -> None:
        self.name, self.size, self.has_mpi = name, size, has_mpi
        self.rows, self.patience, self.origin = rows, patience, origin
        self.build = build or own()
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
        if not 0 <= self.patience <= 1e9:
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
                self.build.pack(),
                pack_text(self.name),
                pack_text(self.origin),
                struct.pack("<I?dI", self.size, self.has_mpi, self.patience, len(self.rows)),
                *rows,
            )
        )

    @classmethod
    def unpack(cls, data: bytes) -> Announcement:
        """Return the announcement that `pack` made into these bytes."""
        reader = Reader(data)
        build, name, origin = Build.read(reader), reader.text(), reader.text()
        size, has_mpi, patience, count = reader.numbers("<I?dI")
        rows = tuple((reader.numbers("<I")[0], bytes(reader.take(ROW_SIZE))) for _ in range(count))
        reader.end()
        return cls(name, size, has_mpi, rows, patience, origin, build)
