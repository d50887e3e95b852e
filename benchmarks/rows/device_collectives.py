"""Collectives of device memory, beside a read, those of MPI on host arrays, and a write."""

from typing import Any

import numpy as np
from harness import MS, Body, Effort, Goal, Row, interleave, progress
from message_sizes import size_name
from mpi4py import MPI

import acp_mpi as acp
from rows.device_kinds import Kind, kinds

SIZES = (1 << 20, 8 << 20, 64 << 20)
NAMES = ("bcast", "allreduce", "alltoall")


def _ours(name: str, x: acp.DeviceArray, out: acp.DeviceArray) -> Body:
    def body(count: int) -> None:
        for _ in range(count):
            if name == "bcast":
                acp.bcast(x, 0, out=x)
            elif name == "allreduce":
                acp.allreduce(x, out=out)
            else:
                acp.alltoall(x, out=out)

    return body


def _by_hand(kind: Kind, comm: Any, name: str, size: int) -> Body:
    array, result = kind.own(size), kind.own(size)
    x, out = np.ones(size // 8), np.ones(size // 8)
    kind.write(array, x)

    def body(count: int) -> None:
        for _ in range(count):
            if name != "bcast" or comm.rank == 0:
                kind.read(array, x)
            if name == "bcast":
                comm.Bcast(x)
            elif name == "allreduce":
                comm.Allreduce(x, out)
            else:
                comm.Alltoall(x, out)
            if name != "bcast":
                kind.write(result, out)
            elif comm.rank:
                kind.write(array, x)

    return body


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    with acp.init():
        for kind in kinds():
            for name in NAMES:
                for size in SIZES:
                    if comm.rank == 0:
                        progress(f"{kind.name}, {name} of {size_name(size)}")
                    with (
                        acp.zeros(size // 8, device=kind.device) as x,
                        acp.zeros(size // 8, device=kind.device) as out,
                    ):
                        sides = _ours(name, x, out), _by_hand(kind, comm, name, size)
                        ours, hand = interleave(effort, *sides, comm=comm)
                        acp.sync()
                    what = f"{kind.name}: {name} of {size_name(size)}"
                    side = f"read, {MPI.get_vendor()[0]}, write"
                    times = ours.median / MS, side, hand.median / MS
                    rows.append(Row(what, "ms", *times, Goal(times=1.3)))
    return rows
