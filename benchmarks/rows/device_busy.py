"""Copies from mapped device memory of another rank, while that rank rests and computes."""

import numpy as np
from harness import US, Effort, Goal, Row, progress, singles
from message_sizes import size_name

import acp_mpi as acp
from rows.device_kinds import kinds

SIZES = (8, 64 << 10)


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    effort, rows = Effort.of(quick), []
    with acp.init():
        stop = acp.zeros(1, np.uint64)
        places = acp.allgather(acp.query_ga(stop))
        for kind in kinds():
            for size in SIZES:
                array = acp.zeros(size, np.uint8, device=kind.device)
                mine = acp.zeros(size, np.uint8, device=kind.device)
                there = acp.allgather(array.ga)[1]

                def copy(count: int, there: int = there, mine: acp.DeviceArray = mine) -> None:
                    for _ in range(count):
                        acp.get(there, mine)

                samples = []
                for computes in ("", "Python", "a kernel"):
                    acp.sync()
                    if acp.rank() == 0:
                        progress(f"{kind.name}, {size_name(size)}, {computes or 'at rest'}")
                        samples += singles(effort, copy)
                        acp.put(places[1], np.ones(1, np.uint64))
                    elif computes:
                        while not stop[0]:
                            kind.compute() if computes == "a kernel" else sum(range(1000))
                    else:
                        acp.wait_until(acp.query_ga(stop), "==", 1)
                    acp.sync()
                    stop[0] = 0
                if acp.rank() == 0:
                    idle, *busy = (sample.median / US for sample in samples)
                    for time, where in zip(busy, ("Python", "a kernel"), strict=True):
                        what = (
                            f"{kind.name}: {size_name(size)} from a rank that computes in {where}"
                        )
                        rows.append(Row(what, "µs", time, "that sleeps", idle, Goal(times=1.3)))
                acp.sync()
                mine.close()
                array.close()
    return rows
