"""sync and barrier(ranks) against mpi4py's Barrier, and the processor time of waiting."""

import os
import time
from collections.abc import Callable
from itertools import repeat

from harness import US, Body, Effort, Goal, Row, interleave, progress
from mpi4py import MPI

import acp_mpi as acp
from rows.cores import ProcessorTime
from rows.mpi_side import IS_MPICH

LATE_SECONDS = 0.5
NOTHING = 2  # ms of processor time in a second of waiting; a start of the wait costs some


def _loop(call: Callable[[], object]) -> Body:
    def loop(count: int) -> None:
        for _ in repeat(None, count):
            call()

    return loop


def _waiting(comm: MPI.Intracomm, call: Callable[[], object]) -> float:
    """Return the processor time of the ranks that wait for the last one, in ms per second each.

    Meaningful on rank 0.
    """
    comm.Barrier()
    used = ProcessorTime()
    if comm.rank == comm.size - 1:
        time.sleep(LATE_SECONDS)
    call()
    waiting = 0.0 if comm.rank == comm.size - 1 else used.seconds()
    return 1e3 * float(comm.allreduce(waiting)) / (comm.size - 1) / LATE_SECONDS


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    cores = len(os.sched_getaffinity(0))
    rows = []
    with acp.init(comm):
        everybody = list(range(comm.size))
        crowded = Goal(speed=1.5) if IS_MPICH else Goal()
        goal = crowded if comm.size > cores else Goal(times=1.5)
        ours = {"sync": acp.sync, "barrier(ranks)": lambda: acp.barrier(everybody)}
        what = f"{comm.size} ranks on {cores} cores"
        for name, call in ours.items():
            a, b = interleave(effort, _loop(call), _loop(comm.Barrier), comm=comm)
            rows.append(Row(f"{name}, {what}", "µs", a.median / US, "Barrier", b.median / US, goal))
        if comm.rank == 0:
            progress("barrier: one late rank")
        for name, call in ours.items():
            mine, theirs = (
                sorted(_waiting(comm, each) for _ in range(3))[1] for each in (call, comm.Barrier)
            )
            rows.append(
                Row(
                    f"{name}, waiting for a late rank, {what}",
                    "ms/s",
                    mine,
                    "Barrier",
                    theirs,
                    Goal(at_most=NOTHING),
                )
            )
    return rows
