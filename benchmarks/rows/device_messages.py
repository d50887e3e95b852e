"""Long messages from device to device: by send and recv, and through host arrays by MPI."""

from typing import Any

import numpy as np
from harness import MS, Body, Effort, Goal, Row, interleave, progress
from message_sizes import size_name
from mpi4py import MPI

import acp_mpi as acp
from rows.device_kinds import Kind, kinds

SIZES = (4 << 20, 16 << 20, 64 << 20)


def _ours(array: acp.DeviceArray) -> Body:
    def body(count: int) -> None:
        for _ in range(count):
            if acp.rank() == 0:
                acp.send(array, 1)
                acp.recv(array, 1)
            else:
                acp.recv(array, 0)
                acp.send(array, 0)

    return body


def _by_hand(kind: Kind, comm: Any, size: int) -> Body:
    array, host = kind.own(size), np.zeros(size, np.uint8)

    def send() -> None:
        kind.read(array, host)
        comm.Send(host, 1 - comm.rank)

    def receive() -> None:
        comm.Recv(host, 1 - comm.rank)
        kind.write(array, host)

    def body(count: int) -> None:
        for _ in range(count):
            for step in (send, receive) if comm.rank == 0 else (receive, send):
                step()

    return body


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    with acp.init():
        for kind in kinds():
            for size in SIZES:
                if comm.rank == 0:
                    progress(f"{kind.name}, {size_name(size)}")
                with acp.zeros(size, np.uint8, device=kind.device) as array:
                    sides = _ours(array), _by_hand(kind, comm, size)
                    ours, hand = interleave(effort, *sides, comm=comm)
                    acp.sync()
                what = f"{kind.name}: message of {size_name(size)} there and back"
                side = f"read, {MPI.get_vendor()[0]}, write"
                rows.append(
                    Row(what, "ms", ours.median / MS, side, hand.median / MS, Goal(times=1.3))
                )
    return rows
