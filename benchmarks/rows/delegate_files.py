"""Saves of 32 MiB by a delegate, beside a copy of the memory and a write with its flush."""

import os
import tempfile
from itertools import repeat
from pathlib import Path

import numpy as np
from harness import MS, Effort, Goal, Row, interleave
from mpi4py import MPI

import acp_mpi as acp

NBYTES = 32 << 20


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm = MPI.COMM_WORLD
    effort = Effort(3 if quick else 7, 0.01)
    many = comm.size > 1
    with acp.init(), tempfile.TemporaryDirectory() as folder:
        d = acp.delegate()
        x = acp.zeros(NBYTES // 8)
        x[:] = np.arange(NBYTES // 8)
        copy = np.empty_like(x)
        ours, theirs = Path(folder, "ours.raw"), Path(folder, "theirs.raw")

        def copied(count: int) -> float:
            seconds = 0.0
            for _ in repeat(None, count):
                start = MPI.Wtime()
                request = d.save(ours, x)
                request.copied()
                seconds += MPI.Wtime() - start
                request.wait()
            return seconds

        def memcpy(count: int) -> None:
            for _ in repeat(None, count):
                copy[:] = x

        def saved(count: int) -> None:
            for _ in repeat(None, count):
                d.save(ours, x).wait()
                comm.Barrier()

        def written(count: int) -> None:
            for _ in repeat(None, count):
                with open(theirs, "wb") as file:
                    os.pwrite(file.fileno(), x.data, 0)
                    os.fsync(file.fileno())
                comm.Barrier()

        taken, bare, disk, bare_disk = (
            sample.median / MS
            for sample in interleave(effort, copied, memcpy, saved, written, comm=comm)
        )
        acp.sync()
    who = f"save of 32 MiB by each of {comm.size} ranks" if many else "save of 32 MiB"
    return [
        Row(f"{who}, copied", "ms", taken, "memcpy", bare, Goal(times=1 / 0.8)),
        Row(f"{who}, on disk", "ms", disk, "pwrite and fsync", bare_disk,
            Goal(times=1 / (0.9 if many else 0.95))),
    ]  # fmt: skip
