"""Memory that exists already: puts, gets and atomics on a registered NumPy array of another rank.

The other side of put and get is the bare system call, timed in C. Atomics on such memory are
run by its owner's progress thread; an mpi4py window over a NumPy array needs the owner, too, and
waits until it calls MPI.
"""

import os
import statistics
import time

import numpy as np
from harness import US, Effort, Goal, Row, interleave, progress, singles
from mpi4py import MPI

import acp_mpi as acp
from rows import native
from rows.activity import COMPUTE_SECONDS, Activity, Target, compute
from rows.cores import ASLEEP, busy_cores
from rows.loops import fetch_add8, get, put
from rows.mpi_side import Window

LARGE = 1 << 20
COMPUTING = (Activity.PYTHON, Activity.NUMPY)
ATOMIC = "fetch_add8 on a NumPy array"


def _transfers(effort: Effort, ga: int, address: int, pid: int) -> list[Row]:
    rows = []
    for size, name in [(8, "8 B"), (LARGE, "1 MiB")]:
        mine = np.ones(size, np.uint8)  # pages of its own: zeros that were never written share one
        sides = [
            (f"put {name} to a NumPy array", put(ga, mine), "process_vm_writev"),
            (f"get {name} from a NumPy array", get(ga, mine), "process_vm_readv"),
        ]
        for what, ours, call in sides:
            write = call.endswith("writev")
            bare = native.bare(pid, mine, address, write=write)
            tight = native.bare(pid, mine, address, write=write, tight=True)
            a, b, c = interleave(effort, ours, bare, tight)
            goal = Goal(speed=0.8)
            note = f"{call} in a tight loop in C: {c.median / US:.2f} µs"
            row = Row(what, "µs", a.median / US, f"bare {call}", b.median / US, goal, note=note)
            rows.append(row)
    return rows


def _atomics(effort: Effort, target: Target, ga: int) -> list[Row]:
    body = fetch_add8(ga)
    with target.doing(Activity.IDLE):
        (idle,) = singles(effort, body, pause=ASLEEP)
        with busy_cores():
            (busy,) = singles(effort, body)
    return [
        Row(
            f"{ATOMIC}, {where} cores",
            "µs",
            sample.median / US,
            goal=Goal(at_most=most),
            note=f"nine of ten within {sample.most / US:.0f} µs",
        )
        for where, sample, most in [("idle", idle, 40), ("busy", busy, 15)]
    ]


def _while_computing(effort: Effort, target: Target, ga: int) -> dict[str, float]:
    """Return the seconds of each call while the owner computes."""
    seconds = {}
    word = np.ones(1, np.int64)
    for activity in COMPUTING:
        with target.doing(activity):
            (a,) = singles(effort, fetch_add8(ga))
            (b,) = interleave(effort, put(ga, word))
        seconds[f"{ATOMIC}, owner in a {activity.value}"] = a.median
        seconds[f"put 8 B to a NumPy array, owner in a {activity.value}"] = b.median
    return seconds


def _waiting_for_owner(comm: MPI.Intracomm) -> list[float]:
    """Return the seconds of the same calls, in the same order, on a `Win.Create` window.

    Each is made once while the owner computes for `COMPUTE_SECONDS`; the median of three.
    """
    seconds = []
    with Window(comm, 4096, create=True) as window:
        for activity in COMPUTING:
            for body in (window.fetch_add(1), window.put(1)):
                times = []
                for _ in range(3):
                    comm.Barrier()
                    start = time.perf_counter()
                    if comm.rank == 0:
                        time.sleep(0.03)
                        start = time.perf_counter()
                        body(1)
                    else:
                        compute(activity, start + COMPUTE_SECONDS)
                    times.append(time.perf_counter() - start)
                seconds.append(statistics.median(times))
        comm.Barrier()
    return seconds


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    rows: list[Row] = []
    computing: dict[str, float] = {}
    array = np.ones(LARGE, np.uint8)
    native.allow_access()
    with acp.init(comm), acp.register_memory(array) as key:
        ga, address, pid = comm.bcast((acp.query_ga(key), array.ctypes.data, os.getpid()), root=1)
        target = Target()
        if comm.rank == 0:
            rows = _transfers(effort, ga, address, pid)
            progress("registered: atomics")
            rows += _atomics(effort, target, ga)
            computing = _while_computing(effort, target, ga)
            target.release()
        else:
            target.serve()
        acp.sync()
        waiting = _waiting_for_owner(comm)
    against = f"Win.Create, owner computes {COMPUTE_SECONDS:g} s"
    for (what, ours), theirs in zip(computing.items(), waiting, strict=False):
        goal = Goal(at_most=30) if what.startswith(ATOMIC) else Goal()
        rows.append(Row(what, "µs", ours / US, against, theirs / US, goal))
    return rows
