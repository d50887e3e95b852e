"""The other side: mpi4py windows as a careful program uses them, specifications built once."""

import time
from itertools import repeat
from types import TracebackType
from typing import Any, Self

import numpy as np
from harness import Body
from mpi4py import MPI

IS_MPICH = MPI.get_vendor()[0] == "MPICH"


def by_mpi(open_mpi: float, mpich: float) -> float:
    """Return the figure for the MPI that runs."""
    return mpich if IS_MPICH else open_mpi


class Window:
    """A window locked for its whole life, and loops over its calls on 8-byte words.

    `size` bytes on each rank, from `Win.Allocate`, or `Win.Create` over a NumPy array if `create`.
    Collective.
    """

    def __init__(self, comm: MPI.Intracomm, size: int, *, create: bool = False) -> None:
        self._comm = comm
        if create:
            self.memory = np.zeros(size, np.uint8)
            self.win = MPI.Win.Create(self.memory, 1, comm=comm)
        else:
            self.win = MPI.Win.Allocate(size, 1, comm=comm)
            self.memory = np.asarray(self.win.tomemory(), np.uint8)
            self.memory[:] = 0
        self.win.Lock_all()
        self._one = np.ones(1, np.int64)
        self._old = np.empty(1, np.int64)
        # the first use of a lock may need the target
        self.put(comm.size - 1)(1)
        comm.Barrier()

    def put(self, target: int, buffer: Any = None) -> Body:
        """Return a loop of `Put` and `Flush`, of one word unless a buffer is given."""
        put, flush = self.win.Put, self.win.Flush
        buffer = self._one if buffer is None else buffer
        origin: Any = [buffer, buffer.nbytes, MPI.BYTE]
        place: Any = [0, buffer.nbytes, MPI.BYTE]

        def loop(count: int) -> None:
            for _ in repeat(None, count):
                put(origin, target, place)
                flush(target)

        return loop

    def mean_put(self, target: int, buffer: np.ndarray, seconds: float) -> float:
        """Return the mean seconds of one put over that time, or of a single longer one."""
        put, count, start = self.put(target, buffer), 0, time.perf_counter()
        while not count or time.perf_counter() < start + seconds:
            put(1)
            count += 1
        return (time.perf_counter() - start) / count

    def get(self, target: int, buffer: Any) -> Body:
        """Return a loop of `Get` and `Flush` into a buffer."""
        get, flush = self.win.Get, self.win.Flush
        origin: Any = [buffer, buffer.nbytes, MPI.BYTE]
        place: Any = [0, buffer.nbytes, MPI.BYTE]

        def loop(count: int) -> None:
            for _ in repeat(None, count):
                get(origin, target, place)
                flush(target)

        return loop

    def fetch_add(self, target: int) -> Body:
        """Return a loop of `Fetch_and_op` and `Flush`."""
        call, flush, op = self.win.Fetch_and_op, self.win.Flush, MPI.SUM
        one: Any = [self._one, 1, MPI.INT64_T]
        old: Any = [self._old, 1, MPI.INT64_T]

        def loop(count: int) -> None:
            for _ in repeat(None, count):
                call(one, old, target, 8, op)
                flush(target)

        return loop

    def compare_and_swap(self, target: int) -> Body:
        """Return a loop of `Compare_and_swap` and `Flush`."""
        call, flush = self.win.Compare_and_swap, self.win.Flush
        one: Any = [self._one, 1, MPI.INT64_T]
        old: Any = [self._old, 1, MPI.INT64_T]

        def loop(count: int) -> None:
            for _ in repeat(None, count):
                call(one, one, old, target, 16)
                flush(target)

        return loop

    def close(self) -> None:
        """Free the window. Collective."""
        del self.memory
        self.win.Unlock_all()
        self.win.Free()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
