"""Arrays that one rank fills, moves to the other, and that sums: in slots, segments, by copies."""

from contextlib import ExitStack
from itertools import repeat
from typing import Any

import numpy as np
from harness import US, Body, Effort, Goal, Row, interleave, progress
from message_sizes import size_name
from mpi4py import MPI

import acp_mpi as acp
from rows.apart import groups_of_one
from rows.channel_ways import both
from rows.messages import Calls

KIB, MIB = 1 << 10, 1 << 20
SLOTS = 2
# The time against acp.send's, and against mpi4py's.
GOALS = {64 * KIB: (0.6, 0.4), 256 * KIB: (0.75, None), MIB: (1.0, None), 4 * MIB: (1.0, None)}


class _Sums:
    """Check what the receiver has summed: each array was full of ones."""

    def __init__(self, size: int) -> None:
        self._expected = size / 8

    def add(self, total: float) -> None:
        if total != self._expected:
            raise RuntimeError(f"the sum is {total}, and should be {self._expected}")


def _in_slots(there: acp.Channel, here: acp.Channel, rank: int, sums: _Sums) -> Body:
    """Return a loop in which rank 0 fills slots and rank 1 sums them; it answers the last one."""

    def first(count: int) -> None:
        for _ in repeat(None, count):
            with there.reserve() as view:
                view.fill(1.0)
        next(here)

    def second(count: int) -> None:
        for _ in repeat(None, count):
            sums.add(next(here).sum())
        with there.reserve():
            pass

    return second if rank else first


def _in_segments(
    there: acp.SegmentedBuffer[Any], here: acp.Channel, rank: int, sums: _Sums
) -> Body:
    """Return the same loop with the segments of an array that both ranks have."""
    segments = iter(there)

    def first(count: int) -> None:
        for _ in repeat(None, count):
            with there.fill() as segment:
                segment.fill(1.0)
        next(here)

    def second(count: int) -> None:
        for _ in repeat(None, count):
            sums.add(next(segments).sum())
        with here.reserve():
            pass

    return second if rank else first


def _copied(calls: Calls, array: np.ndarray, spec: object, rank: int, sums: _Sums) -> Body:
    """Return the same loop by calls that send and receive."""
    send, receive = calls

    def first(count: int) -> None:
        for _ in repeat(None, count):
            array.fill(1.0)
            send(spec, 1)
        receive(spec, 1)

    def second(count: int) -> None:
        for _ in repeat(None, count):
            receive(spec, 0)
            sums.add(array.sum())
        send(spec, 0)

    return second if rank else first


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    vendor = MPI.get_vendor()[0]
    with groups_of_one(comm):
        for size, goals in GOALS.items():
            if comm.rank == 0:
                progress(f"filled: {size_name(size)}")
            array, sums = np.ones(size // 8), _Sums(size)
            mirrored = acp.zeros((SLOTS, size // 8))
            with ExitStack() as stack:
                ends = both(stack, comm.rank, size=size, slots=SLOTS, dtype="f8")
                buffer = stack.enter_context(
                    acp.SegmentedBuffer(mirrored, SLOTS, source=0)
                    if comm.rank
                    else acp.SegmentedBuffer(mirrored, SLOTS, to=1)
                )
                answer = stack.enter_context(acp.Channel(1, 0, size=8))
                slots, segments, by_acp, by_mpi = interleave(
                    effort,
                    _in_slots(*ends, comm.rank, sums),
                    _in_segments(buffer, answer, comm.rank, sums),
                    _copied((acp.send, acp.recv), array, array, comm.rank, sums),
                    _copied((comm.Send, comm.Recv), array, [array, MPI.DOUBLE], comm.rank, sums),
                    comm=comm,
                )
                comm.Barrier()
            for against, other, times in (
                ("acp.send", by_acp, goals[0]),
                (vendor, by_mpi, goals[1]),
            ):
                what = f"filled, moved, summed: {size_name(size)}, {SLOTS} slots"
                mine, theirs = slots.median / US, other.median / US
                rows.append(Row(what, "µs", mine, against, theirs, Goal(times=times)))
            what = f"the same in a segmented buffer: {size_name(size)}, {SLOTS} segments"
            rows.append(Row(what, "µs", segments.median / US, "acp.send", by_acp.median / US))
        acp.sync()
    return rows
