"""Two ranks give each other device memory: direct, and staged through the host by MPI."""

import itertools
from typing import Any

import numpy as np
from harness import US, Body, Effort, Goal, Row, interleave, progress
from message_sizes import size_name
from mpi4py import MPI

import acp_mpi as acp
from rows.device_kinds import Kind, kinds

# Of OpenCL on a processor: how many times as fast as staged.
SIZES = {8: 8.0, 4 << 10: 8.0, 64 << 10: 8.0, 1 << 20: 4.0, 16 << 20: 2.0}


def _direct(mine: acp.DeviceArray, flag: np.ndarray, there: tuple[int, int]) -> Body:
    where, numbers = acp.query_ga(flag), itertools.count(1)

    def body(count: int) -> None:
        for value in itertools.islice(numbers, count):
            acp.put(there[0], mine, flag=(there[1], value))
            acp.wait_until(where, ">=", value)

    return body


def _staged(kind: Kind, comm: Any, size: int) -> Body:
    mine, landing = kind.own(size), kind.own(size)
    out, back = np.zeros(size, np.uint8), np.zeros(size, np.uint8)

    def body(count: int) -> None:
        for _ in range(count):
            kind.read(mine, out)
            comm.Sendrecv(out, 1 - comm.rank, recvbuf=back, source=1 - comm.rank)
            kind.write(landing, back)

    return body


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    with acp.init():
        vendor = MPI.get_vendor()[0]
        for kind in kinds():
            for size, speed in SIZES.items():
                if comm.rank == 0:
                    progress(f"{kind.name}, {size_name(size)}")
                mine = acp.zeros(size, np.uint8, device=kind.device)
                landing = acp.zeros(size, np.uint8, device=kind.device)
                flag = acp.zeros(1, np.uint64)
                there = acp.allgather((landing.ga, acp.query_ga(flag)))[1 - comm.rank]
                mine.set(comm.rank + 1)
                direct = _direct(mine, flag, there)
                ours, staged = interleave(effort, direct, _staged(kind, comm, size), comm=comm)
                acp.sync()
                assert (landing.get() == 2 - comm.rank).all()
                goal = Goal(speed=speed) if kind.name == "OpenCL" else Goal(speed=2.0)
                what = f"{kind.name}: {size_name(size)} to each other"
                rows.append(
                    Row(
                        what,
                        "µs",
                        ours.median / US,
                        f"staged by {vendor}",
                        staged.median / US,
                        goal,
                    )
                )
                acp.sync()
                mine.close()
                landing.close()
    return rows
