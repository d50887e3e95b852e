"""The processor time of a job that sleeps, before acp_mpi is there and then with it.

Under mpiexec MPI runs in both.
"""

import resource
import time

import numpy as np
from harness import MS, Goal, Row, progress

import acp_mpi as acp
from rows.cores import ProcessorTime

MEASURABLE = 1.0  # ms of processor time of all ranks together
SETTLING = 1.0  # s: what a meeting leaves behind is done, and the job is idle


def _sleep(seconds: float) -> tuple[float, int]:
    """Return the processor time of this rank while it sleeps, and how often its threads did."""
    time.sleep(SETTLING)
    used, slept = ProcessorTime(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    time.sleep(seconds)
    return used.seconds(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - slept


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    seconds = 3.0 if quick else 10.0
    before = _sleep(seconds)
    with acp.init():
        mine = acp.zeros(1024, np.int64)
        for ga in acp.allgather(acp.query_ga(mine)):  # every pair has talked
            acp.fetch_add8(ga, 1)
        acp.sync()
        if acp.rank() == 0:
            progress("idle: with acp_mpi")
        ranks = acp.allgather((*before, *_sleep(seconds)))
        acp.sync()
    alone, alone_switches, both, both_switches = map(sum, zip(*ranks, strict=True))
    return [
        Row(
            f"idle job, {len(ranks)} ranks, {seconds:g} s: beyond the application's own",
            "ms",
            max(both - alone, 0.0) / MS,
            "without acp_mpi",
            alone / MS,
            Goal(at_most=MEASURABLE),
            note=f"threads went to sleep {both_switches} times, {alone_switches} without acp_mpi",
        )
    ]
