"""Small operations from Python on global memory of the same node, one call at a time."""

import numpy as np
from harness import US, Effort, Goal, Row, interleave
from mpi4py import MPI

import acp_mpi as acp
from rows.loops import copy8, fetch_add8, fetch_cas8, put
from rows.mpi_side import Window, by_mpi


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    rows: list[Row] = []
    with acp.init(comm), Window(comm, 4096) as window:
        mine = acp.zeros(64, np.int64)
        gas = comm.allgather(acp.query_ga(mine))
        if comm.rank == 0:
            word, there = np.ones(1, np.int64), gas[1]
            sides = [
                ("copy 8 B + complete", copy8(there, gas[0]), window.put(1), "Put + Flush", 4, 14),
                ("put 8 B", put(there, word), window.put(1), "Put + Flush", 4, 14),
                (
                    "fetch_add8",
                    fetch_add8(there + 8),
                    window.fetch_add(1),
                    "Fetch_and_op + Flush",
                    6,
                    16,
                ),
                (
                    "fetch_cas8",
                    fetch_cas8(there + 16),
                    window.compare_and_swap(1),
                    "Compare_and_swap + Flush",
                    6,
                    16,
                ),
            ]
            for what, ours, theirs, against, open_mpi, mpich in sides:
                a, b = interleave(effort, ours, theirs)
                goal = Goal(at_most=0.08, speed=by_mpi(open_mpi, mpich))
                rows.append(Row(what, "µs", a.median / US, against, b.median / US, goal))
        acp.sync()
    return rows
