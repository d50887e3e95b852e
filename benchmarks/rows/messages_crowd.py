"""Messages among more ranks than cores: a ring and pairs, by the rate of the whole job."""

import os
import time
from collections.abc import Callable
from itertools import repeat

import numpy as np
from harness import Body, Effort, Goal, Row, interleave, progress
from mpi4py import MPI

import acp_mpi as acp
from rows.bare_flags import Flags
from rows.cores import ProcessorTime
from rows.messages import check

LATE_SECONDS = 0.5
BYTES = 8


def _ring(rank: int, size: int, send: Callable[..., object], receive: Callable[..., object],
          out: object, back: object) -> Body:  # fmt: skip
    """Return a loop in which all send to the right and receive from the left."""
    right, left = (rank + 1) % size, (rank - 1) % size

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            send(out, right)
            receive(back, left)

    return loop


def _pairs(rank: int, size: int, send: Callable[..., object], receive: Callable[..., object],
           out: object, back: object) -> Body:  # fmt: skip
    """Return a loop of round trips in each pair; the partner is half the ranks away."""
    partner = (rank + size // 2) % size

    def first(count: int) -> None:
        for _ in repeat(None, count):
            send(out, partner)
            receive(back, partner)

    def second(count: int) -> None:
        for _ in repeat(None, count):
            receive(back, partner)
            send(out, partner)

    return first if rank < partner else second


def _waiting(comm: MPI.Intracomm, send: Callable[..., object], receive: Callable[..., object],
             data: object) -> float:  # fmt: skip
    """Return the processor time of ranks that wait for a message, in ms per second each."""
    comm.Barrier()
    used = ProcessorTime()
    if comm.rank == 0:
        time.sleep(LATE_SECONDS)
        for rank in range(1, comm.size):
            send(data, rank)
        mine = 0.0
    else:
        receive(data, 0)
        mine = used.seconds()
    return 1e3 * float(comm.allreduce(mine)) / (comm.size - 1) / LATE_SECONDS


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    cores, vendor = len(os.sched_getaffinity(0)), MPI.get_vendor()[0]
    out, back = np.full(BYTES, comm.rank, np.uint8), np.empty(BYTES, np.uint8)
    left, partner = ((comm.rank + far) % comm.size for far in (-1, comm.size // 2))
    specified = [out, MPI.BYTE], [back, MPI.BYTE]
    with acp.init(comm):
        ring, pairs = Flags(), Flags()
        flags = (
            ring.body((comm.rank + 1) % comm.size, first=True),
            pairs.body(partner, first=comm.rank < partner),
        )
        for name, pattern, source, bare in (
            ("ring", _ring, left, flags[0]),
            ("pairs", _pairs, partner, flags[1]),
        ):
            ours = pattern(comm.rank, comm.size, acp.send, acp.recv, out, back)
            theirs = pattern(comm.rank, comm.size, comm.Send, comm.Recv, *specified)
            a, b, c = interleave(effort, ours, theirs, bare, comm=comm)
            for side, body in (("acp_mpi", ours), (vendor, theirs)):
                check(side, body, back, source, comm)
            # in a turn of either each rank sends one message
            own, mpi, words = (comm.size / side.median / 1e3 for side in (a, b, c))
            goal = Goal(speed=1.5) if comm.size > cores else Goal()
            what = f"{name} of {comm.size} ranks on {cores} cores, {BYTES} B"
            rows.append(Row(what, "k/s", own, vendor, mpi, goal, rate=True))
            what = f"{name} of {comm.size} ranks, against words that C sets"
            rows.append(Row(what, "k/s", own, "C", words, Goal(), rate=True))
        if comm.rank == 0:
            progress("messages: who waits")
        ways = ((acp.send, acp.recv, out), (comm.Send, comm.Recv, specified[0]))
        mine, theirs_ms = (sorted(_waiting(comm, *way) for _ in range(3))[1] for way in ways)
        rows.append(
            Row(
                f"processor time of waiting for a message, {comm.size} ranks",
                "ms/s",
                mine,
                vendor,
                theirs_ms,
                Goal(at_most=2.0),
            )
        )
        acp.sync()
    return rows
