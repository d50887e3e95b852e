"""A program without device memory beside one that has some: rank 0 beside rank 1."""

import sys
from pathlib import Path

import numpy as np
from harness import NS, Effort, Goal, Row, interleave
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


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    with acp.init():
        mine = acp.zeros(64, np.int64)
        places = acp.allgather(acp.query_ga(mine))
        growth, array = Growth(), None
        if comm.rank == 1:
            array = acp.zeros(8, device=next(kinds()).device)
        taken = comm.gather((growth.private() / KIB, _loaded()))
        if taken is not None:
            (none, loaded), (some, others) = taken
            what = "drivers and modules for devices"
            rows.append(Row(what, "", loaded, "after the first array", others, Goal(at_most=0)))
            rows.append(Row("memory of our own for devices", "KiB", none, "then", some))
        there = places[1 - comm.rank]
        for what, body in (
            ("copy 8 B, no device in use", copy8(there, places[comm.rank])),
            ("put 8 B, no device in use", put(there, np.ones(1, np.int64))),
        ):  # on both at a time
            times = comm.gather(interleave(effort, body, comm=comm)[0].median / NS)
            if times is not None:
                rows.append(Row(what, "ns", times[0], "with one", times[1], Goal(times=1.02)))
        acp.sync()
        del array
    return rows
