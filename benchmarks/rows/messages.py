"""Messages between two ranks of different groups on one node, against mpi4py inside one MPI."""

import os
from collections.abc import Callable
from itertools import repeat

import numpy as np
from harness import US, Body, Effort, Goal, Row, interleave
from message_sizes import PATTERNS, SIZES, WITHOUT_CMA, row_name
from mpi4py import MPI

import acp_mpi as acp
from rows.apart import groups_of_one

Calls = tuple[Callable[..., object], Callable[..., object]]


def round_trips(rank: int, calls: Calls, out: object, back: object, peer: int | None) -> Body:
    """Return a loop of messages there and back between two ranks; `peer` as the calls say it."""
    send, receive = calls

    def first(count: int) -> None:
        for _ in repeat(None, count):
            send(out, peer)
            receive(back, peer)

    def second(count: int) -> None:
        for _ in repeat(None, count):
            receive(back, peer)
            send(out, peer)

    return second if rank else first


def stream(rank: int, calls: Calls, out: object, back: object, peer: int | None) -> Body:
    """Return a loop of messages from rank 0 to rank 1, which answers the last one."""
    send, receive = calls

    def first(count: int) -> None:
        for _ in repeat(None, count):
            send(out, peer)
        receive(back, peer)

    def second(count: int) -> None:
        for _ in repeat(None, count):
            receive(back, peer)
        send(out, peer)

    return second if rank else first


def check(side: str, body: Body, back: np.ndarray, expected: int, comm: MPI.Intracomm) -> None:
    """Run a loop once more on all ranks; RuntimeError if it does not bring what was sent."""
    comm.Barrier()
    back.fill(255)
    body(1)
    if (back != expected).any():
        raise RuntimeError(f"a message of {back.size} B by {side} came damaged")


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    vendor = MPI.get_vendor()[0]
    against = vendor + " without CMA" * (WITHOUT_CMA.items() <= os.environ.items())
    loops = dict(zip(PATTERNS, ((round_trips, 2), (stream, 1)), strict=True))
    peer = 1 - comm.rank
    with groups_of_one(comm):
        for pattern, (loop, messages) in loops.items():
            for size in SIZES:
                out, back = np.full(size, comm.rank, np.uint8), np.empty(size, np.uint8)
                ours = loop(comm.rank, (acp.send, acp.recv), out, back, peer)
                mpi = (comm.Send, comm.Recv)
                # specifications built once, as a careful program has them
                theirs = loop(comm.rank, mpi, [out, MPI.BYTE], [back, MPI.BYTE], peer)
                a, b = interleave(effort, ours, theirs, comm=comm)
                for side, body in (("acp_mpi", ours), (vendor, theirs)):
                    check(side, body, back, peer, comm)
                each, other = (side.median / messages / US for side in (a, b))
                what = row_name(pattern, size)
                rows.append(Row(what, "µs", each, against, other, Goal(speed=1.1)))
        acp.sync()
    return rows
