"""Calls that need nobody at the other end, while their target is busy or asleep."""

import numpy as np
from harness import Body, Effort, Row
from mpi4py import MPI

import acp_mpi as acp
from rows.activity import Target, against_idle
from rows.loops import copy8, fetch_add8, fetch_cas8, get, put
from rows.mpi_side import Window

LARGE = 1 << 20


def _bodies(gas: list[int], registered: int, window: Window) -> dict[str, Body]:
    word, block = np.ones(1, np.int64), np.ones(LARGE, np.uint8)
    return {
        "copy 8 B": copy8(gas[1], gas[0]),
        "put 8 B": put(gas[1], word),
        "fetch_add8": fetch_add8(gas[1] + 8),
        "fetch_cas8": fetch_cas8(gas[1] + 16),
        "put 1 MiB": put(gas[1], block),
        "put 8 B to a NumPy array": put(registered, word),
        "get 8 B from a NumPy array": get(registered, word),
        "put 1 MiB to a NumPy array": put(registered, block),
        "get 1 MiB from a NumPy array": get(registered, block),
        # what the neighbour's load alone does to the caller
        "mpi4py Win.Allocate Put 8 B": window.put(1),
        "mpi4py Win.Allocate Put 1 MiB": window.put(1, block),
    }


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    rows: list[Row] = []
    array = np.ones(LARGE, np.uint8)
    with acp.init(comm), acp.register_memory(array) as key, Window(comm, LARGE) as window:
        mine = acp.zeros(LARGE, np.uint8)
        gas = comm.allgather(acp.query_ga(mine))
        registered = comm.bcast(acp.query_ga(key), root=1)
        target = Target()
        if comm.rank == 0:
            rows = against_idle(effort, target, _bodies(gas, registered, window))
            target.release()
        else:
            target.serve()
        acp.sync()
    return rows
