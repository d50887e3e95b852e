"""What a channel costs beside its messages: creation, memory, and the time of an end that waits."""

import time
from collections.abc import Callable
from itertools import repeat

import numpy as np
from harness import US, Effort, Goal, Row, interleave, progress
from mpi4py import MPI

import acp_mpi as acp
from rows.apart import groups_of_one
from rows.cores import ProcessorTime
from rows.memory import private

KIB = 1 << 10
SHAPE = {"size": 64, "slots": 2}
RING = 176 + 2 * 128  # bytes, as docs/channels.md says
MANY = 10_000
LIVES, LIVES_SECONDS = 1_000_000, 60.0  # as many, or as long
LATE_SECONDS = 1.0


def _lives(count: int) -> None:
    """Create a channel, send a message through it, and close it; many times. Collective."""
    for _ in repeat(None, count):
        with acp.Channel(0, 1, **SHAPE) as channel:
            if channel.sends:
                channel.send(b"")
            else:
                channel.recv()


def _used() -> tuple[int, int]:
    """Return the bytes in the own heap that are used, and those of private memory."""
    return acp.heap_statistics().used, private()


def _grown(comm: MPI.Intracomm, work: Callable[[], object]) -> tuple[float, float]:
    """Return by how many KiB heap and private memory of both ranks are larger after that work."""
    comm.Barrier()
    before = _used()
    kept = work()
    comm.Barrier()
    more = [(after - was) / KIB for after, was in zip(_used(), before, strict=True)]
    comm.Barrier()
    del kept
    return comm.allreduce(more[0]), comm.allreduce(more[1])


def _many() -> list[acp.Channel]:
    """Return many channels that are connected."""
    channels = [acp.Channel(0, 1, **SHAPE) for _ in repeat(None, MANY)]
    for channel in channels:
        if channel.sends:
            channel.send(b"")
        else:
            channel.recv()
    return channels


def _memory(comm: MPI.Intracomm, lives: int) -> list[Row]:
    _lives(1000)
    heap, own = _grown(comm, lambda: _lives(lives))
    at_most = Goal(at_most=64.0)
    what = f"after {lives:,} channels, one by one, both ranks:"
    rows = [
        Row(f"{what} heap", "KiB", max(heap, 0.0), goal=at_most),
        Row(f"{what} private", "KiB", max(own, 0.0), goal=at_most),
    ]
    heap, own = _grown(comm, _many)
    with acp.Channel(0, 1, **SHAPE) as one:
        stated = MANY * int(comm.allreduce(one.memory)) / KIB
    ring, what = MANY * RING / KIB, f"{MANY:,} open channels of 2 × 64 B:"
    return [
        *rows,
        Row(f"{what} heap", "KiB", heap, "stated", ring, Goal(at_most=1.1 * ring)),
        Row(f"{what} with private memory of both ends", "KiB", heap + own, "`memory`", stated,
            Goal(at_most=1.1 * stated)),
    ]  # fmt: skip


def _waiting(comm: MPI.Intracomm, waits: int, first: Callable[[], object],
             second: Callable[[], object]) -> float:  # fmt: skip
    """Return ms of processor time a second of the rank that waits for what the other does late."""
    used = []
    for _ in range(3):
        comm.Barrier()
        start = ProcessorTime()
        if comm.rank != waits:
            time.sleep(LATE_SECONDS)
        (second if comm.rank else first)()
        used.append(start.seconds())
    return 1e3 * float(comm.bcast(sorted(used)[1], root=waits)) / LATE_SECONDS


def _twice(call: Callable[[np.ndarray], object], data: np.ndarray) -> Callable[[], None]:
    """Return a call that makes that one twice: of a sender with one slot the second one waits."""

    def both() -> None:
        call(data)
        call(data)

    return both


def _waits(comm: MPI.Intracomm) -> list[Row]:
    vendor, goal, data = MPI.get_vendor()[0], Goal(at_most=1.0), np.zeros(8, np.uint8)
    with acp.Channel(0, 1, size=8, slots=1) as channel:
        received = _waiting(comm, 1, lambda: channel.send(data), lambda: channel.recv(data))
        sent = _waiting(comm, 0, _twice(channel.send, data), _twice(channel.recv, data))
        comm.Barrier()
    by_mpi = _waiting(comm, 1, lambda: comm.Send(data, 1), lambda: comm.Recv(data, 0))
    slept = _waiting(comm, 1, lambda: None, lambda: time.sleep(LATE_SECONDS))
    return [
        Row("processor time of waiting for a message", "ms/s", received, "sleep", slept, goal),
        Row("processor time of waiting for a message", "ms/s", received, vendor, by_mpi),
        Row("processor time of waiting for a slot", "ms/s", sent, "sleep", slept, goal),
    ]


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    with groups_of_one(comm):
        (life,) = interleave(effort, _lives, comm=comm)
        rows = [
            Row("create, connect, one message, close", "µs", life.median / US,
                goal=Goal(at_most=15.0))
        ]  # fmt: skip
        if comm.rank == 0:
            progress("life: memory")
        lives = min(LIVES, int(LIVES_SECONDS * (0.1 if quick else 1.0) / life.median))
        rows += _memory(comm, comm.bcast(lives))
        if comm.rank == 0:
            progress("life: waiting")
        rows += _waits(comm)
        acp.sync()
    return rows
