"""Messages by channels between two ranks of different groups on one node, by every way there is."""

import numpy as np
from harness import US, Effort, Goal, Row, interleave, progress
from message_sizes import PATTERNS, row_name
from mpi4py import MPI

import acp_mpi as acp
from rows.apart import groups_of_one
from rows.bare_flags import Flags
from rows.channel_ways import opened
from rows.messages import check, round_trips, stream

SIZES = (8, 256, 1 << 10, 4 << 10, 64 << 10, 1 << 20)
HALF, STREAM = PATTERNS
# Against acp.send, and against MPI; the first also has what 8 bytes may take.
GOALS = {
    (HALF, 8): (Goal(at_most=0.35), Goal()),
    (STREAM, 8): (Goal(times=1.0), Goal(speed=3.0)),
    (HALF, 1 << 10): (Goal(times=1.0), Goal(times=0.5)),
    (STREAM, 64 << 10): (Goal(speed=1.0), Goal()),
    (HALF, 1 << 20): (Goal(speed=0.9), Goal()),
    (STREAM, 1 << 20): (Goal(speed=0.9), Goal()),
}


def _rows(what: str, times: dict[str, float], goals: tuple[Goal, Goal], vendor: str) -> list[Row]:
    """Return the rows of one size: by send and recv, twice, and in the slots."""
    mine, slots, acp_send, mpi, *_ = times.values()
    beside = ", ".join(f"{name} {time:.3g}" for name, time in list(times.items())[4:])
    return [
        Row(f"{what}, send/recv", "µs", mine, "acp.send", acp_send, goals[0]),
        Row(f"{what}, send/recv", "µs", mine, vendor, mpi, goals[1]),
        Row(f"{what}, reserve/iterate", "µs", slots, "acp.send", acp_send, note=f"µs: {beside}"),
    ]


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort, rows = MPI.COMM_WORLD, Effort.of(quick), []
    vendor = MPI.get_vendor()[0]
    with groups_of_one(comm):
        flags = Flags().body(1 - comm.rank, first=comm.rank == 0)
        (bare,) = interleave(effort, flags, comm=comm)
        for pattern, loop, messages in ((HALF, round_trips, 2), (STREAM, stream, 1)):
            for size in SIZES:
                if comm.rank == 0:
                    progress(row_name(pattern, size))
                with opened(comm, size) as ways:
                    bodies = {
                        name: loop(comm.rank, way.calls, way.out, way.back, way.peer)
                        for name, way in ways.items()
                    }
                    samples = interleave(effort, *bodies.values(), comm=comm)
                    for name, way in ways.items():
                        if way.fills:
                            back = way.back if isinstance(way.back, np.ndarray) else way.back[0]
                            check(name, bodies[name], back, 1 - comm.rank, comm)
                each = (sample.median / messages / US for sample in samples)
                times = dict(zip(ways, each, strict=True))
                goals = GOALS.get((pattern, size), (Goal(), Goal()))
                rows += _rows(row_name(pattern, size), times, goals, vendor)
        words = bare.median / 2 / US
        rows.insert(2, Row(rows[0].what, "µs", rows[0].ours, "words that C sets", words))
        acp.sync()
    return rows
