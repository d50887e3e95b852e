"""Collective calls of MPI that sleep while they wait for other processes."""

from __future__ import annotations

import time

from acp_mpi.util import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SHORTEST, _LONGEST = 2e-5, 1e-3  # seconds between two looks
_LATE = 60.0  # seconds after which a wait is spoken of


class Patience:
    """The calls of a communicator, with pauses between looks.

    MPI's own look all the time. Where a node has more processes than processors, those that wait so
    take the time of those that they wait for: 32 processes of MPICH on 2 processors knew each other
    after 310 ms with them and after 180 with these.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm

    def duplicate(self) -> Any:
        """Return a duplicate of the communicator."""
        comm, request = self._comm.Idup()
        self._finish(request, comm)
        return comm

    def assemble(self) -> None:
        """Wait until all processes have called this."""
        self._finish(self._comm.Ibarrier())

    def broadcast(self, data: bytearray) -> None:
        """Fill `data` with what the first process has in it."""
        self._finish(self._comm.Ibcast(data, root=0))

    def reduce(self, data: memoryview, op: Any) -> None:
        """Replace the numbers `data` of each process by what `op` makes of all."""
        from mpi4py import MPI

        self._finish(self._comm.Iallreduce(MPI.IN_PLACE, data, op))

    def _finish(self, request: Any, made: Any = None) -> None:
        pause, late = _SHORTEST, time.monotonic() + _LATE
        try:
            while not request.Test():
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST)
                if time.monotonic() > late:
                    late = float("inf")
                    self._say_that_some_are_missing()
        except BaseException:
            _unfinished.append((request, made))
            raise

    def _say_that_some_are_missing(self) -> None:
        """Log it; who they are, MPI does not say."""
        rank, size = self._comm.Get_rank(), self._comm.Get_size()
        log.warning(
            "runtime",
            "MPI process %d of %d has waited for %g s for the others of its communicator; "
            "acp.init() returns when all of them call it",
            *(rank, size, _LATE),
        )


_unfinished: list[Any] = []  # after Ctrl-C: MPI may still write into what they hold
