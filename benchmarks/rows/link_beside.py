"""An atomic on a host to which a long copy is under way."""

import statistics
import time

import numpy as np
from harness import US, Effort, Goal, Row, Sample

import acp_mpi as acp

LONG = 1 << 30
BESIDE = 40  # additions beside one copy


def _seconds(ga: int) -> float:
    begin = time.perf_counter()
    acp.fetch_add8(ga, 1)
    return time.perf_counter() - begin


def _beside(dst: int, src: int, ga: int) -> tuple[list[float], float]:
    """Return the seconds of additions while the copy was under way, and those of the copy."""
    start = time.perf_counter()
    handle = acp.copy(dst, src, LONG)
    seconds: list[float] = []
    while acp.inquire(handle) and len(seconds) < BESIDE:
        seconds.append(_seconds(ga))
    acp.complete(handle)
    return seconds, time.perf_counter() - start


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    effort = Effort.of(quick)
    rows: list[Row] = []
    with acp.init():
        mine, word = acp.zeros(LONG, np.uint8), acp.zeros(1, np.int64)
        gas, words = acp.allgather(acp.query_ga(mine)), acp.allgather(acp.query_ga(word))
        if acp.rank() == 0:
            mine[:] = 1
            for what, dst, src in [("to", 1, 0), ("from", 0, 1)]:
                alone, beside, copies = [], [], []
                for _ in range(effort.rounds):
                    alone += [_seconds(words[1]) for _ in range(BESIDE)]
                    seconds, copy = _beside(gas[dst], gas[src], words[1])
                    beside += seconds
                    copies.append(copy)
                sample, usual = Sample.of(beside), Sample.of(alone)
                rows.append(
                    Row(
                        f"fetch_add8 beside a copy of {LONG >> 30} GiB {what} the same rank",
                        "µs",
                        sample.median / US,
                        "alone",
                        usual.median / US,
                        Goal(times=5),
                        note=f"nine of ten within {sample.most / US:.0f} and "
                        f"{usual.most / US:.0f} µs; the copy took "
                        f"{statistics.median(copies):.2f} s",
                    )
                )
        acp.sync()
    return rows
