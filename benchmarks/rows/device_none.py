"""A program without device memory, rank 0, beside rank 1, before that has some and after."""

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import NS, Body, Effort, Goal, Row, interleave
from mpi4py import MPI

import acp_mpi as acp
from rows.device_kinds import kinds
from rows.loops import copy8, put
from rows.memory import KIB, Growth

DRIVERS = ("libcuda", "libOpenCL", "libpocl")


def _loaded() -> int:
    """Return how many drivers, and modules of ours for devices, this process has loaded."""
    maps = Path("/proc/self/maps").read_text()
    modules = [name for name in sys.modules if name.startswith("acp_mpi") and "device" in name]
    return sum(name in maps for name in DRIVERS) + len(modules)


def _ratio(body: Body, comm: Any, slices: int) -> tuple[float, float]:
    """Return rank 1's time of a call in units of rank 0's, which is returned, too, in seconds.

    The ranks take turns of a millisecond; the ratio is the median of those of two turns that follow
    each other, so that what disturbs both, and what differs between the ranks, drops out of the
    quotient of two such ratios.
    """
    once = interleave(Effort(1, 0.001), body)[0].median
    calls = comm.bcast(max(1, round(0.001 / once)))
    mine = []
    for _ in range(slices):
        for rank in range(2):
            comm.Barrier()
            if comm.rank == rank:
                start = time.perf_counter()
                body(calls)
                mine.append((time.perf_counter() - start) / calls)
    both = comm.allgather(mine)
    ratios = [one / none for none, one in zip(*both, strict=True)]
    return statistics.median(ratios), statistics.median(both[0])


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, rows = MPI.COMM_WORLD, []
    slices = 300 if quick else 1500
    with acp.init():
        mine = acp.zeros(64, np.int64)
        places = acp.allgather(acp.query_ga(mine))
        there = places[1 - comm.rank]
        bodies = {
            "copy 8 B": copy8(there, places[comm.rank]),
            "put 8 B": put(there, np.ones(1, np.int64)),
        }
        before = {what: _ratio(body, comm, slices) for what, body in bodies.items()}
        growth, array = Growth(), None
        if comm.rank == 1:
            array = acp.zeros(8, device=next(kinds()).device)
        taken = comm.gather((growth.private() / KIB, _loaded()))
        if taken is not None:
            (none, loaded), (some, others) = taken
            what = "drivers and modules for devices"
            rows.append(Row(what, "", loaded, "after the first array", others, Goal(at_most=0)))
            rows.append(Row("memory of our own for devices", "KiB", none, "then", some))
        for what, body in bodies.items():
            (was, once), (now, _) = before[what], _ratio(body, comm, slices)
            text = f"{what} of host memory, with device memory in use"
            times = now / was * once / NS, "before that", once / NS
            rows.append(Row(text, "ns", *times, Goal(times=1.02)))
        acp.sync()
        del array
    return rows
