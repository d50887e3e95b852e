"""All ranks at one container: their calls a second together, against those of one rank alone."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

from harness import Goal, Row
from mpi4py import MPI

import acp_mpi as acp

M = 1e6
ROUNDS = 7


def _rate(call: Callable[[], Any], seconds: float) -> float:
    done, start = 0, perf_counter()
    while (passed := perf_counter() - start) < seconds:
        for _ in range(100):
            call()
        done += 100
    return done / passed


def _both(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Return the medians of the rate of all ranks and of that of rank 0 alone."""
    together, alone = [], []
    for _ in range(ROUNDS):
        acp.sync()
        together.append(sum(acp.allgather(_rate(call, seconds))))
        alone.append(_rate(call, seconds) if acp.rank() == 0 else 0.0)
    return sorted(together)[ROUNDS // 2], sorted(alone)[ROUNDS // 2]


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    seconds, rows = 0.02 if quick else 0.2, []
    with acp.init(MPI.COMM_WORLD):
        made = (acp.Counter(), acp.Deque("q")) if acp.rank() == 0 else None
        counter, line = acp.bcast(made)

        def in_and_out() -> None:
            line.push_back(1)
            line.pop_front()

        for what, call, least in [
            ("Counter.next", counter.next, 0.9),
            ("Deque.push_back + pop_front", in_and_out, 0.8),
        ]:
            all_of_them, one = _both(call, seconds)
            rows.append(
                Row(f"{what}, {acp.procs()} ranks", "M/s", all_of_them / M, "one rank", one / M,
                    Goal(speed=least), rate=True)
            )  # fmt: skip
        acp.sync()
    return rows
