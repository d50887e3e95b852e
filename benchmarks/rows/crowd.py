"""All ranks at one container: their calls a second together, against those of one rank alone."""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from harness import Goal, Row
from mpi4py import MPI

import acp_mpi as acp

M = 1e6
ROUNDS = 7
AHEAD = 0.001
IN_A_ROW = 100

Calls = tuple[str, Callable[[], Any], int, Goal]
"""What, a call, how many elements it moves, the goal."""


def _rate(call: Callable[[], Any], elements: int, start: float, seconds: float) -> float:
    done = 0
    while perf_counter() < start:
        pass
    while perf_counter() < start + seconds:
        for _ in range(IN_A_ROW if elements == 1 else 1):
            call()
            done += elements
    return done / seconds


def _both(call: Callable[[], Any], elements: int, seconds: float) -> tuple[float, float]:
    """Return the medians of the rate of all ranks and of that of rank 0 alone.

    All count in one window of time: who gets no processor in it has done nothing.
    """
    together, alone = [], []
    for _ in range(ROUNDS):
        start = acp.bcast(perf_counter() + AHEAD)
        together.append(sum(acp.allgather(_rate(call, elements, start, seconds))))
        here = _rate(call, elements, perf_counter(), seconds) if acp.rank() == 0 else 0.0
        alone.append(here)
        acp.sync()
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
