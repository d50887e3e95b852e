"""Memory that its owner alone reaches: a copy to it, beside a bare read and a bare write."""

from typing import Any

import numpy as np
from harness import US, Body, Effort, Goal, Row, progress, singles
from message_sizes import size_name

import acp_mpi as acp
from rows.device_kinds import Kind, freed, kinds

SIZES = (8, 64 << 10, 1 << 20, 16 << 20)


def _sides(kind: Kind, mine: Any, theirs: Any, places: list[int], size: int) -> tuple[Body, Body]:
    host = np.zeros(size, np.uint8)

    def copy(count: int) -> None:
        for _ in range(count):
            acp.wait(acp.copy(places[1], places[0], size))

    def bare(count: int) -> None:
        for _ in range(count):
            kind.read(mine, host)
            kind.write(theirs, host)

    return copy, bare


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    effort, rows = Effort.of(quick), []
    with acp.init():
        for kind in kinds():
            if kind.name != "OpenCL":
                continue  # arrays of CuPy are shared
            for size in SIZES:
                mine, theirs = kind.own(size), kind.own(size)
                kind.write(mine, np.zeros(size, np.uint8))
                with acp.register_memory(mine) as key:
                    places = acp.allgather(acp.query_ga(key))
                    if acp.rank() == 0:
                        progress(f"{kind.name}, {size_name(size)}")
                        ours, bare = singles(effort, *_sides(kind, mine, theirs, places, size))
                        what = f"{kind.name}: {size_name(size)} into memory that its owner reaches"
                        times = ours.median / US, "read and write", bare.median / US
                        rows.append(Row(what, "µs", *times, Goal(times=1.3)))
                    acp.sync()
                for array in (mine, theirs):
                    freed(array)
    return rows
