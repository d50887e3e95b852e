"""The processor time of a job that sleeps, with mpi4py alone and then with acp_mpi as well."""

import resource
import time

import numpy as np
from harness import MS, Goal, Row, progress
from mpi4py import MPI

import acp_mpi as acp
from rows.cores import ProcessorTime

MEASURABLE = 1.0  # ms of processor time of all ranks together


def _sleep(comm: MPI.Intracomm, seconds: float) -> tuple[float, int]:
    """Return the processor time of all ranks while they sleep, and how often their threads did."""
    comm.Barrier()
    used, slept = ProcessorTime(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    time.sleep(seconds)
    times = used.seconds(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - slept
    return comm.allreduce(times[0]), comm.allreduce(times[1])


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, seconds = MPI.COMM_WORLD, 3.0 if quick else 10.0
    alone, alone_switches = _sleep(comm, seconds)
    with acp.init(comm):
        mine = acp.zeros(1024, np.int64)
        gas = comm.allgather(acp.query_ga(mine))
        for ga in gas:  # every pair has talked
            acp.fetch_add8(ga, 1)
        acp.sync()
        if comm.rank == 0:
            progress("idle: with acp_mpi")
        both, both_switches = _sleep(comm, seconds)
        acp.sync()
    return [
        Row(
            f"idle job, {comm.size} ranks, {seconds:g} s: beyond the application's own",
            "ms",
            max(both - alone, 0.0) / MS,
            "mpi4py alone",
            alone / MS,
            Goal(at_most=MEASURABLE),
            note=f"threads went to sleep {both_switches} times, {alone_switches} without acp_mpi",
        )
    ]
