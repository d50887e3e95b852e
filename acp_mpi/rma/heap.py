"""The statistics of a rank's heap."""

from dataclasses import dataclass
from typing import SupportsIndex

from acp_mpi.engine import _engine


@dataclass(frozen=True, slots=True)
class HeapStatistics:
    """The heap of one rank at one moment, in bytes but for the two counts.

    Every block has a head of 16 bytes, which `used` includes.
    """

    size: int
    """Address space of the heap: what it could hold if nothing else were committed."""
    used: int
    free: int
    largest: int
    """The largest block that `malloc` could return, if `limit` allows."""
    blocks: int
    fragments: int
    """Pieces that the free space is in."""
    committed: int
    """Memory behind the heap, used or not."""
    limit: int
    """The most that may be committed on that rank, arrays and starter memory included."""


def heap_statistics(rank: SupportsIndex | None = None) -> HeapStatistics:
    """Return what is used and free in the heap of `rank`, the calling one if None."""
    return HeapStatistics(*_engine.heap_look(rank))
