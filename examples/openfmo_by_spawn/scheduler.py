"""How the master has jobs done: it gives each group one after the other."""

import array
import collections
import time
from collections.abc import Sequence
from typing import Any

from mpi4py import MPI
from openfmo_like.fmo import Save
from openfmo_like.jobs import NAMES, ROW_BYTES, Failed, Phase, Row, unpack_rows

from .messages import wait_any

JOB, ROW = 3, 4  # tags
END = -1  # in place of a job's number: this phase has none left


class Scheduler:
    """The master's side of the jobs: a `fmo.Scheduler`. `groups` are the spawned ones."""

    def __init__(self, groups: Sequence[MPI.Intercomm], nap: float) -> None:
        self._groups = groups
        self._nap = nap
        self.phases: list[Phase] = []

    def tell(self, x: Any) -> None:
        """Tell all groups an object: where data is, what a phase is about, None at the end."""
        for group in self._groups:
            group.send(x, 0)

    def run(
        self,
        kind: int,
        sweep: int,
        jobs: int,
        sequence: Sequence[int],
        *,
        pairs: Sequence[tuple[int, int]] = (),
        save: Save | None = None,
    ) -> list[Row]:
        """Have the jobs of `sequence` done, in that order, and return the rows of all `jobs`."""
        begin, rows, left = time.time(), [Row()] * jobs, collections.deque(sequence)
        self.tell((kind, sweep, list(pairs)))
        results = [bytearray(ROW_BYTES) for _ in self._groups]
        requests = [MPI.REQUEST_NULL for _ in self._groups]
        doing: dict[int, int] = {}

        def give(number: int) -> None:
            group = self._groups[number]
            job = left.popleft() if left else END
            if job != END:
                requests[number] = group.Irecv(results[number], 0, ROW)
                doing[number] = job
            group.Send(array.array("q", [job]), 0, JOB)

        for number in range(len(self._groups)):
            give(number)
        while doing:
            number = wait_any(requests, self._nap)
            job = doing.pop(number)
            (rows[job],) = unpack_rows(results[number])
            give(number)
            if save is not None:
                save(lambda: rows)
        for job in sequence:
            if rows[job].stamp < 0:
                raise Failed(kind, job)
        finished = tuple(rows[job] for job in sequence)
        self.phases.append(Phase(NAMES[kind], begin, time.time(), finished))
        return rows
