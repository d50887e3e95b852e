"""Memory that exists already: puts, gets and atomics on a registered NumPy array of another rank.

The other side of put and get is the bare system call in a loop in C. Atomics on such memory are
run by its owner's progress thread; an mpi4py window over a NumPy array needs the owner, too, and
waits until it calls MPI.
"""

import os
import time

import numpy as np
from harness import MS, US, Effort, Goal, Row, interleave, progress
from mpi4py import MPI

import acp_mpi as acp
from rows import native
from rows.activity import COMPUTE_SECONDS, Activity, Target, compute
from rows.calls import fetch_add8, get, put
from rows.cores import busy_cores
from rows.mpi_side import Window

LARGE = 1 << 20


def _transfers(effort: Effort, ga: int, address: int, pid: int) -> list[Row]:
    rows = []
    for size, name in [(8, "8 B"), (LARGE, "1 MiB")]:
        mine = np.zeros(size, np.uint8)
        for what, ours, write in [("put", put(ga, mine), True), ("get", get(ga, mine), False)]:
            a, b = interleave(effort, ours, native.bare(pid, mine, address, write=write))
            call = "process_vm_writev" if write else "process_vm_readv"
            to = "to" if write else "from"
            rows.append(
                Row(
                    f"{what} {name} {to} a NumPy array",
                    "µs",
                    a.median / US,
                    f"bare {call}",
                    b.median / US,
                    Goal(speed=0.8),
                )
            )
    return rows


def _atomics(effort: Effort, target: Target, ga: int) -> list[Row]:
    rows, body = [], fetch_add8(ga)
    what = "fetch_add8 on a NumPy array"
    with target.doing(Activity.IDLE):
        (sample,) = interleave(effort, body)
        rows.append(Row(f"{what}, idle cores", "µs", sample.median / US, goal=Goal(at_most=40)))
        with busy_cores():
            (sample,) = interleave(effort, body)
        rows.append(Row(f"{what}, busy cores", "µs", sample.median / US, goal=Goal(at_most=15)))
    for activity in (Activity.PYTHON, Activity.NUMPY):
        with target.doing(activity):
            (sample,) = interleave(effort, body)
        rows.append(
            Row(
                f"{what}, owner in a {activity.value}",
                "µs",
                sample.median / US,
                goal=Goal(at_most=30),
            )
        )
    return rows


def _waiting_for_owner(comm: MPI.Intracomm, effort: Effort) -> list[tuple[str, float]]:
    """Return how long calls on a `Win.Create` window take whose owner computes, in seconds."""
    results = []
    with Window(comm, 4096, create=True) as window:
        for what, body in [
            ("Put + Flush", window.put(1)),
            ("Fetch_and_op + Flush", window.fetch_add(1)),
        ]:
            for activity in (Activity.PYTHON, Activity.NUMPY, Activity.SLEEP):
                times = []
                for _ in range(3):
                    comm.Barrier()
                    if comm.rank == 0:
                        time.sleep(0.03)
                        start = time.perf_counter()
                        body(1)
                        times.append(time.perf_counter() - start)
                    else:
                        compute(activity, time.perf_counter() + COMPUTE_SECONDS)
                results.append((f"{what}, {activity.value}", sorted(times or [0.0] * 3)[1]))
        comm.Barrier()
    return results


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    rows: list[Row] = []
    array = np.zeros(LARGE, np.uint8)
    native.allow_access()
    with acp.init(comm), acp.register_memory(array) as key:
        ga, address, pid = comm.bcast((acp.query_ga(key), array.ctypes.data, os.getpid()), root=1)
        target = Target(comm)
        if comm.rank == 0:
            rows = _transfers(effort, ga, address, pid)
            progress("registered: atomics")
            rows += _atomics(effort, target, ga)
            target.release()
        else:
            target.serve()
        acp.sync()
        ours = rows[-1].ours * US if rows else 1.0
        for what, seconds in _waiting_for_owner(comm, effort):
            if "Fetch" in what and "sleep" not in what and rows:
                rows.append(
                    Row(
                        f"fetch_add8 on a NumPy array: {what}",
                        "ms",
                        ours / MS,
                        "Win.Create",
                        seconds / MS,
                    )
                )
    return rows
