"""Put and flush to a rank that computes, with and without `acp.progress` there."""

import contextlib
import itertools
import time

import numpy as np
from harness import MS, US, Effort, Goal, Row, Sample, progress
from mpi4py import MPI

import acp_mpi as acp
from rows.activity import Activity, compute
from rows.mpi_side import Window

LARGE = 1 << 20
TAG = 7


def _puts(window: Window, seconds: float, buffer: np.ndarray, comm: MPI.Intracomm) -> float:
    """Return the mean seconds of one put to rank 1, which does what it is to do meanwhile."""
    comm.send(None, 1, TAG)
    time.sleep(0.002)  # it has begun
    mean = window.mean_put(1, buffer, seconds)
    comm.Barrier()
    return mean


def _target(helped: bool, busy: float, comm: MPI.Intracomm) -> None:
    """Compute so long, or only wait in MPI."""
    with acp.progress() if helped else contextlib.nullcontext():
        comm.recv(source=0, tag=TAG)
        compute(Activity.NUMPY, time.perf_counter() + busy)
        comm.Barrier()


def _round(window: Window, busy: float, means: dict[tuple[int, float, bool], list[float]]) -> None:
    """Measure everything once."""
    comm = MPI.COMM_WORLD
    for size, computing, helped in itertools.product((8, LARGE), (busy, 0.0), (False, True)):
        comm.Barrier()
        if comm.rank == 0:
            mean = _puts(window, busy / 2, np.ones(size, np.uint8), comm)
            means.setdefault((size, computing, helped), []).append(mean)
        else:
            _target(helped, computing, comm)


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    busy = 0.2 if quick else 0.5
    means: dict[tuple[int, float, bool], list[float]] = {}
    # what MPI allocates may need no target
    with Window(comm, LARGE, create=True) as window:
        for number in range(effort.rounds):
            if comm.rank == 0:
                progress(f"put: round {number + 1} of {effort.rounds}")
            _round(window, busy, means)
    if comm.rank:
        return []
    medians = {key: Sample.of(values).median for key, values in means.items()}
    rows = []
    for size, name, goal in ((8, "8 B", 2.0), (LARGE, "1 MiB", 10.0)):
        rows.append(
            Row(
                f"Put of {name} to a rank that computes for {busy:g} s",
                "ms",
                medians[size, busy, True] / MS,
                "without progress",
                medians[size, busy, False] / MS,
                Goal(at_most=goal),
            )
        )
    rows.append(
        Row(
            "Put of 8 B to a rank that waits in MPI",
            "µs",
            medians[8, 0.0, True] / US,
            "without progress",
            medians[8, 0.0, False] / US,
            Goal(times=1.3),
        )
    )
    return rows
