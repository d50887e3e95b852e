"""Collectives of all ranks of one node, against mpi4py's on the same buffers."""

import os
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
from harness import US, Body, Effort, Goal, Row, interleave
from mpi4py import MPI

import acp_mpi as acp

SIZES = {"8 B": 8, "64 KiB": 1 << 16, "4 MiB": 1 << 22}
Calls = dict[str, tuple[Callable[[], object], Callable[[], object], Callable[[], bool]]]
"""Ours, mpi4py's, and whether the last of them has left the right result."""


def _loop(call: Callable[[], object]) -> Body:
    def loop(count: int) -> None:
        for _ in repeat(None, count):
            call()

    return loop


def _calls(comm: MPI.Intracomm, size: int) -> tuple[Calls, Callable[[], None]]:
    """Return the calls of each collective, and what wipes out the results of earlier ones.

    `size`: the bytes of an array, or of what one rank has for another. What mpi4py is given is
    built once, as a careful program has it.
    """
    n, r, count = comm.size, comm.rank, size // 8
    x, out = np.full(count, r + 1.0), np.empty(count)
    all_x, all_out = np.full(n * count, r + 1.0), np.empty(n * count)
    shared = x.copy()
    each = [count] * n
    everyone = np.repeat(np.arange(1.0, n + 1), count)
    total = n * (n + 1) / 2
    to: Any = out if r == 0 else ()
    mpi_x, mpi_out, mpi_shared = [x, MPI.DOUBLE], [out, MPI.DOUBLE], [shared, MPI.DOUBLE]
    parts = [all_x, each, MPI.DOUBLE], [all_out, each, MPI.DOUBLE]
    whole = [all_out, MPI.DOUBLE]

    def folded() -> bool:
        return bool((out == total).all())

    def collected() -> bool:
        return bool((all_out == everyone).all())

    def wipe() -> None:
        out.fill(0)
        all_out.fill(0)
        shared[:] = x

    calls: Calls = {
        "allreduce": (
            lambda: acp.allreduce(x, out=out),
            lambda: comm.Allreduce(mpi_x, mpi_out),
            folded,
        ),
        "bcast": (
            lambda: acp.bcast(shared, 0, out=shared),
            lambda: comm.Bcast(mpi_shared, 0),
            lambda: bool((shared == 1).all()),
        ),
        "alltoallv": (
            lambda: acp.alltoall(all_x, out=all_out, counts=each, out_counts=each),
            lambda: comm.Alltoallv(*parts),
            collected,
        ),
        "allgather": (
            lambda: acp.allgather(x, out=all_out),
            lambda: comm.Allgather(mpi_x, whole),
            collected,
        ),
        "reduce": (
            lambda: acp.reduce(x, root=0, out=to),
            lambda: comm.Reduce(mpi_x, mpi_out, root=0),
            lambda: r > 0 or folded(),
        ),
    }
    return calls, wipe


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    cores, vendor = len(os.sched_getaffinity(0)), MPI.get_vendor()[0]
    goal = Goal() if comm.size > cores else Goal(times=1.5)
    with acp.init(comm):
        for name, size in SIZES.items():
            calls, wipe = _calls(comm, size)
            for what, (ours, theirs, right) in calls.items():
                a, b = interleave(effort, _loop(ours), _loop(theirs), comm=comm)
                for side, call in (("acp_mpi", ours), (vendor, theirs)):
                    comm.Barrier()
                    wipe()
                    call()
                    if not right():
                        raise RuntimeError(f"{what} of {name} by {side}: the result is wrong")
                rows.append(
                    Row(
                        f"{what} of {name}, {comm.size} ranks on {cores} cores",
                        "µs",
                        a.median / US,
                        vendor,
                        b.median / US,
                        goal,
                    )
                )
        acp.sync()
    return rows
