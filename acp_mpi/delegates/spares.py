"""Memory for copies of what is to be written."""

from __future__ import annotations

import contextlib
import mmap


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
