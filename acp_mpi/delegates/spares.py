"""Copies of what is to be written, and memory for them."""

from __future__ import annotations

import contextlib
import mmap
import threading

from acp_mpi.engine import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from acp_mpi.delegates.generations import Item
    from acp_mpi.delegates.memory import Part

_CHUNK = 4 << 20


class Copy:
    """A copy of parts; bytes that are there may be written while others are still to come."""

    def __init__(self, source: Sequence[Part | Item], memory: mmap.mmap | None) -> None:
        self._source = source
        self._free = memoryview(memory or b"")
        self._there = 0
        self._changed = threading.Condition()
        self._error: BaseException | None = None

    def fill(self) -> bool:
        """Copy all; return whether that was possible."""
        try:
            for part, begin in self._places():
                for at in range(0, part.nbytes, _CHUNK):
                    end = min(at + _CHUNK, part.nbytes)
                    _engine.get(part.ga + at, self._free[begin + at : begin + end])
                    with self._changed:
                        self._there = begin + end
                        self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()
        return self._error is None

    def _places(self) -> Iterator[tuple[Part | Item, int]]:
        begin = 0
        for part in self._source:
            yield part, begin
            begin += part.nbytes

    def pieces(self) -> list[Iterator[tuple[int, memoryview]]]:
        """Return offsets and bytes of each part, which wait until they are there."""
        return [self._pieces(begin, part.nbytes) for part, begin in self._places()]

    def _pieces(self, begin: int, nbytes: int) -> Iterator[tuple[int, memoryview]]:
        for at in range(0, nbytes, _CHUNK):
            end = min(at + _CHUNK, nbytes)
            with self._changed:
                while self._there < begin + end:
                    if self._error is not None:
                        raise self._error
                    self._changed.wait()
            yield at, self._free[begin + at : begin + end]


class Spares:
    """Memory for copies, used again: the pages of new memory cost more than the copying.

    The system may take back what lies here.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: list[mmap.mmap] = []

    def take(self, nbytes: int) -> mmap.mmap:
        """Return memory of at least as many bytes, and less than twice as many."""
        for spare in self._free:
            if nbytes <= len(spare) < 2 * nbytes:
                self._free.remove(spare)
                return spare
        spare = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # a system without
            spare.madvise(mmap.MADV_HUGEPAGE)  # else a freed page costs as much again as its copy
        return spare

    def give_back(self, spare: mmap.mmap) -> None:
        """Keep it for the next, and no more than there may be in use."""
        spare.madvise(mmap.MADV_FREE)
        self._free.append(spare)
        while sum(map(len, self._free)) > self._most:
            del self._free[0]
