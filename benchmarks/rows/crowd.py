"""All ranks at one container: their calls a second together, against those of one rank alone."""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from harness import Goal, Row
from mpi4py import MPI

import acp_mpi as acp

M = 1e6
ROUNDS = 7
IN_A_ROW = 100

Calls = tuple[str, Callable[[], Any], int, Goal]
"""What, a call, how many elements it moves, the goal."""


def _rate(call: Callable[[], Any], elements: int, seconds: float) -> float:
    done, start = 0, perf_counter()
    while (passed := perf_counter() - start) < seconds:
        for _ in range(IN_A_ROW if elements == 1 else 1):
            call()
            done += elements
    return done / passed


def _both(call: Callable[[], Any], elements: int, seconds: float) -> tuple[float, float]:
    """Return the medians of the rate of all ranks and of that of rank 0 alone."""
    together, alone = [], []
    for _ in range(ROUNDS):
        acp.sync()
        together.append(sum(acp.allgather(_rate(call, elements, seconds))))
        alone.append(_rate(call, elements, seconds) if acp.rank() == 0 else 0.0)
    return sorted(together)[ROUNDS // 2], sorted(alone)[ROUNDS // 2]


def by_all(quick: bool, make: Callable[[], Iterable[Calls]]) -> list[Row]:
    """Let all ranks of the job call what `make` returns on each; rank 0 returns the rows."""
    seconds, rows = 0.02 if quick else 0.2, []
    with acp.init(MPI.COMM_WORLD):
        for what, call, elements, goal in make():
            together, alone = _both(call, elements, seconds)
            title = f"{what}, {acp.procs()} ranks"
            rows.append(Row(title, "M/s", together / M, "one rank", alone / M, goal, rate=True))
        acp.sync()
    return rows
