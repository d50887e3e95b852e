"""The processor time of one call of a channel, of either end, where it need not wait.

A ring as deep as a slice is filled by the sender, then emptied by the receiver. That is the cost of
the calls themselves, without the way between two processors, and other programs hardly change it.
"""

import time
from collections.abc import Callable
from itertools import repeat

import numpy as np
from harness import NS, Effort, Row, Sample
from mpi4py import MPI

import acp_mpi as acp
from rows.apart import groups_of_one

COUNT = 1000
Call = Callable[[], object]


def _in_turn(effort: Effort, rank: int, calls: tuple[Call, Call]) -> float:
    """Return the median of the nanoseconds of this rank's call. Collective."""
    mine, seconds = calls[rank], []
    for _ in range(effort.rounds):
        if rank:
            acp.sync()
        start = time.thread_time_ns()
        for _ in repeat(None, COUNT):
            mine()
        seconds.append((time.thread_time_ns() - start) * NS / COUNT)
        if not rank:
            acp.sync()
        acp.sync()
    return Sample.of(seconds).median / NS


def _reserved(channel: acp.Channel) -> Call:
    def call() -> None:
        with channel.reserve(1):
            pass

    return call


def _ways(number: np.ndarray, back: np.ndarray) -> dict[str, tuple[Call, Call]]:
    """Return what the sender calls, and the receiver, by what stands in the table."""
    data, shape = bytes(8), {"size": 8, "slots": COUNT}
    raw, typed, objects = (acp.Channel(0, 1, **shape, dtype=t) for t in (None, "f8", object))
    return {
        "acp.send and acp.recv of an array": (
            lambda: acp.send(number, 1),
            lambda: acp.recv(back, 0),
        ),
        "send and recv of an array": (lambda: raw.send(number), lambda: raw.recv(back)),
        "the same with a dtype": (lambda: typed.send(number), lambda: typed.recv(back)),
        "send of bytes, recv without a buffer": (lambda: raw.send(data), raw.recv),
        "send with a dtype, recv without a buffer": (lambda: typed.send(number), typed.recv),
        "send and recv of an object": (lambda: objects.send(1), objects.recv),
        "reserve and next": (_reserved(raw), raw.__next__),
        "reserve and next with a dtype": (_reserved(typed), typed.__next__),
    }


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    with groups_of_one(comm):
        ways = _ways(np.zeros(1), np.zeros(1))
        measured = {
            what: comm.allgather(_in_turn(effort, comm.rank, calls)) for what, calls in ways.items()
        }
        theirs = next(iter(measured.values()))
        for what, mine in list(measured.items())[1:]:
            for end in (0, 1):
                name = ("sender", "receiver")[end]
                against = ("acp.send", "acp.recv")[end]
                rows.append(
                    Row(f"processor time of {what}: {name}", "ns", mine[end], against, theirs[end])
                )
        acp.sync()
    return rows
