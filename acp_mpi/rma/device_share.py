"""Blocks of device memory that short arrays share: the least that a driver gives is 2 MiB."""

from __future__ import annotations

import os
from _thread import RLock
from bisect import insort
from weakref import WeakSet

from acp_mpi.engine import _engine
from acp_mpi.errors import HeapFullError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BYTES = 2 << 20
_SHORT = 1 << 18
_APART = 512
_shares: WeakSet[Share] = WeakSet()
_changing = RLock()
os.register_at_fork(after_in_child=_changing._at_fork_reinit)  # type: ignore[attr-defined]


def _rounded(size: int) -> int:
    return -(-size // _APART) * _APART


class Share:
    """A block; it goes with the last of its arrays.

    A part is used again once its array has gone, and nobody has a view in the block: a view of
    another rank holds the block, not the array.
    """

    __slots__ = ("__weakref__", "_free", "_given", "block", "place")

    def __init__(self, block: Any, place: tuple[int, int]) -> None:
        self.block, self.place = block, place
        self._free = [(0, _BYTES)]  # (first byte, bytes), in order
        self._given: list[tuple[int, int]] = []  # likewise, and perhaps viewed

    def take(self, size: int, viewed: Callable[[Any], bool]) -> int:
        """Return where a free part of that many bytes begins; -1: there is none."""
        if self._given and not viewed(self.block):
            self._join()
        for i, (begin, length) in enumerate(self._free):
            if length >= size:
                self._free[i : i + 1] = [(begin + size, length - size)] if length > size else []
                return begin
        return -1

    def give(self, begin: int, size: int) -> None:
        """Take a part back, whose address has ended."""
        with _changing:
            self._given.append((begin, _rounded(size)))

    def _join(self) -> None:
        while self._given:
            insort(self._free, self._given.pop())
        joined = self._free[:1]
        for begin, length in self._free[1:]:
            if sum(joined[-1]) == begin:
                joined[-1] = joined[-1][0], joined[-1][1] + length
            else:
                joined.append((begin, length))
        self._free = joined


def part(
    type: int, number: int, size: int, viewed: Callable[[Any], bool]
) -> tuple[Share, int] | None:
    """Return a block with room for an array, and where; None: it gets a block of its own."""
    if size > _SHORT:
        return None
    size = _rounded(size)
    with _changing:
        for share in list(_shares):
            if share.place == (type, number) and (begin := share.take(size, viewed)) >= 0:
                return share, begin
        try:
            share = Share(_engine.device_allocate(type, number, _BYTES), (type, number))
        except HeapFullError:
            return None
        _shares.add(share)
        return share, share.take(size, viewed)
