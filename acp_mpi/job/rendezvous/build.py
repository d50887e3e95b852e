"""Which acp_mpi a process runs: groups of a job compare it before they share anything."""

from __future__ import annotations

import struct

from acp_mpi import __version__
from acp_mpi.engine import _engine
from acp_mpi.engine._sources import SOURCES
from acp_mpi.job.rendezvous.packing import Reader, pack_text
from acp_mpi.util.record import Record

_LAYOUT = struct.Struct("<B")


class Build(Record):
    """A version, the layout of what processes share or say to each other, a hash of the sources.

    That tells two states of the sources between the same two releases from each other.
    """

    __slots__ = ("version", "layout", "sources")  # noqa: RUF023

    def __init__(self, version: str, layout: int, sources: str) -> None:
        self.version, self.layout, self.sources = version, layout, sources

    def __str__(self) -> str:
        return f"{self.version} (layout {self.layout}, sources {self.sources})"

    def fits(self, other: Build) -> bool:
        """Return whether processes of both may be one job."""
        same_sources = self.version != other.version or self.sources == other.sources
        return self.layout == other.layout and same_sources

    def pack(self) -> bytes:
        """Return it as bytes."""
        return pack_text(self.version) + _LAYOUT.pack(self.layout) + pack_text(self.sources)

    @classmethod
    def read(cls, reader: Reader) -> Build:
        """Return what `pack` made into the next bytes."""
        version = reader.text()
        (layout,) = _LAYOUT.unpack(reader.take(_LAYOUT.size))
        return cls(version, layout, reader.text())


def own() -> Build:
    """Return that of this process."""
    return Build(__version__, _engine.LAYOUT, SOURCES)
