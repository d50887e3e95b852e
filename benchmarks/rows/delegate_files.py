"""Saves of 32 MiB by a delegate, beside a copy of the memory and a write with its flush."""

import os
import tempfile
from itertools import repeat
from pathlib import Path
from typing import Any

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

        together = Path(comm.bcast(folder), "together.npy")

        def saved_together(count: int) -> None:
            part: dict[str, Any] = {"shape": (comm.size, x.size), "parts": comm.size}
            for _ in repeat(None, count):
                d.save(together, x, at=comm.rank * x.size, **part).wait()
                comm.Barrier()

        def written_together(count: int) -> None:
            raw = together.with_suffix(".raw")
            for _ in repeat(None, count):
                if comm.rank == 0:
                    raw.write_bytes(b"")
                comm.Barrier()
                with open(raw, "r+b") as file:
                    os.pwrite(file.fileno(), x.data, comm.rank * NBYTES)
                    os.fsync(file.fileno())
                comm.Barrier()

        bodies = [copied, memcpy, saved, written]
        bodies += [saved_together, written_together] if many else []
        times = [sample.median / MS for sample in interleave(effort, *bodies, comm=comm)]
        taken, bare, disk, bare_disk = times[:4]
        acp.sync()
    who = f"save of 32 MiB by each of {comm.size} ranks" if many else "save of 32 MiB"
    rows = [
        Row(f"{who}, copied", "ms", taken, "memcpy", bare, Goal(times=1 / 0.8)),
        Row(f"{who}, on disk", "ms", disk, "pwrite and fsync", bare_disk,
            Goal(times=1 / (0.9 if many else 0.95))),
    ]  # fmt: skip
    if many:
        rows.append(
            Row(f"{who} into one file, on disk", "ms", times[4], "pwrite and fsync", times[5],
                Goal(times=1 / 0.9))
        )  # fmt: skip
    return rows
