"""Allreduce by a delegate: waited for, and what it takes of the caller's time."""

from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from harness import US, Effort, Goal, Row, interleave, progress
from mpi4py import MPI

import acp_mpi as acp
from rows.delegate_commands import handing_over

SIZES = {8: "8 B", 1 << 20: "1 MiB"}


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    vendor = MPI.get_vendor()[0]
    with acp.init():
        d = acp.delegate()
        for size, name in SIZES.items():
            if comm.rank == 0:
                progress(f"allreduce of {name}")
            x, out = (acp.empty(size // 8) for _ in range(2))
            x[:] = comm.rank
            if size == 8:
                x, out = np.array(x), np.array(out)

            def delegated(count: int, x: Any = x, out: Any = out) -> None:
                for _ in repeat(None, count):
                    d.allreduce(x, out=out).wait()

            def by_acp(count: int, x: Any = x, out: Any = out) -> None:
                for _ in repeat(None, count):
                    acp.allreduce(x, out=out)

            def by_mpi(count: int, x: Any = x, out: Any = out) -> None:
                for _ in repeat(None, count):
                    comm.Allreduce(x, out)

            own = handing_over(partial(d.allreduce, x, out=out))
            waited, handed, acps, mpis = (
                sample.median / US
                for sample in interleave(effort, delegated, own, by_acp, by_mpi, comm=comm)
            )
            short = size == 8
            goal = Goal(at_most=40.0) if short else Goal(times=1.5)
            what = f"allreduce of {name}"
            rows += [
                Row(f"{what}, waited for", "µs", waited, "acp.allreduce", acps, goal),
                Row(f"{what}, waited for", "µs", waited, vendor, mpis),
                Row(f"{what}, handing it over", "µs", handed, "acp.allreduce", acps,
                    Goal(at_most=3.0) if short else Goal()),
            ]  # fmt: skip
        acp.sync()
    return rows
