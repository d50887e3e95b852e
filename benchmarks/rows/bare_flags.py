"""The other side among more ranks than cores: words that C sets and looks at, and nothing else."""

import ctypes

import numpy as np
from harness import Body

import acp_mpi as acp
from rows import native

LINE = 128  # bytes: words of two ranks share no line of a cache, nor a pair of lines


class Flags:
    """A word of each rank. Made by all ranks together."""

    def __init__(self) -> None:
        place = ctypes.c_void_p
        self._call = native.library("bare_flags.c").flags_step
        self._call.argtypes = [ctypes.c_int, place, place, ctypes.c_uint64, ctypes.c_long]
        self._call.restype = ctypes.c_uint64
        self._at = 0
        self._own = acp.zeros(LINE, np.uint8)
        self._gas: list[int] = acp.allgather(acp.query_ga(self._own))

    def body(self, other: int, first: bool) -> Body:
        """Return a loop in which this rank sets the word of the other and awaits its own."""
        theirs = acp.view(self._gas[other], LINE, np.uint8)

        def loop(count: int) -> None:
            own, its = self._own.ctypes.data, theirs.ctypes.data
            self._at = self._call(first, own, its, self._at, count)

        return loop
