"""A number that all ranks count on."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex

from acp_mpi.datastructs.container import Container
from acp_mpi.engine import _engine

_MOST = 2**63 - 1


@dataclass(frozen=True)
class CounterStatistics:
    """The result of `Counter.statistics`."""

    rank: int
    value: int


class Counter(_engine.CounterHandle, Container):
    """A signed 8-byte number on `rank` (None: the calling one), `start` at first and by `reset`.

    Local to the caller. Steps of all ranks are atomic, and none is lost or done twice.
    """

    _KIND = 1

    def __init__(self, start: SupportsIndex = 0, *, rank: SupportsIndex | None = None) -> None:
        try:
            first = index(start)
        except TypeError:
            raise TypeError(
                f"Counter: the start {start!r:.60} is not a whole number; convert it first"
            ) from None
        if not -_MOST - 1 <= first <= _MOST:
            raise OverflowError(
                f"Counter: the start {first} has no room in 8 bytes; use -2**63 to 2**63 - 1"
            )
        note = first.to_bytes(8, "little", signed=True) if first else b""
        self._create(rank, (first % 2**64,), note)

    def take(self, n: SupportsIndex, step: SupportsIndex = 1) -> Iterator[int]:
        """Yield the numbers below `n` that no other rank takes: all of them, shared out.

        One atomic step for every `step` numbers, which are yielded one after the other. A rank
        that is killed keeps those that it has taken.
        """
        try:
            n, step = index(n), index(step)
        except TypeError:
            raise TypeError(
                f"Counter.take: {n!r} and {step!r} must be whole numbers; convert them first"
            ) from None
        if step < 1:
            raise ValueError(f"Counter.take: the step {step} is not positive; use 1 or more")
        if max(n, step) > _MOST:  # to which no count of 8 bytes comes
            raise OverflowError(
                f"Counter.take: {max(n, step)} is more than a counter reaches; use {_MOST} or less"
            )
        return self._shares(n, step)

    def _shares(self, n: int, step: int) -> Iterator[int]:
        while (first := self.next(step)) < n:
            yield from range(first, min(first + step, n))

    def _described(self) -> str:
        return f"<acp_mpi.Counter on rank {_engine.query_rank(self.ga)}: {self.read()}>"

    def statistics(self) -> CounterStatistics:
        """Return where it is and its value."""
        return CounterStatistics(_engine.query_rank(self.ga), self.read())
