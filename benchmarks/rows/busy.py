"""Calls of containers whose rank is busy or asleep: they are to cost what they cost otherwise.

By link each rank has cores of its own, as on a node of its own.
"""

import os
from collections.abc import Callable
from typing import Any

from harness import Body, Effort, Row
from mpi4py import MPI

import acp_mpi as acp
from rows.activity import Target, against_idle
from rows.calling import calls
from rows.cores import keep_apart

IN_A_ROW = 20


def _in_and_out(put: Callable[[Any], Any], take: Callable[[], Any]) -> Body:
    def loop(count: int) -> None:
        for _ in range(count):
            put(1)
            take()

    return loop


def _bodies() -> dict[str, Body]:
    vector, line, m, counter = (
        acp.Vector("q", rank=1),
        acp.List(dtype="q", rank=1),
        acp.Map(ranks=[1], key="q", value="d", rank=1),
        acp.Counter(rank=1),
    )
    m[7] = 1.0
    return {
        "Vector.push_back + pop_back": _in_and_out(vector.push_back, vector.pop_back),
        "List.push_back + pop_front": _in_and_out(line.push_back, line.pop_front),
        "Map.get": calls(m.get, 7),
        "Map[k] = v": calls(m.__setitem__, 7, 2.0),
        "Counter.next": calls(counter.next),
    }


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    rows: list[Row] = []
    by_link = os.environ.get("ACP_PATH") == "link"
    if by_link:
        keep_apart(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size)
    with acp.init(MPI.COMM_WORLD):
        target = Target()
        if acp.rank() == 0:
            rows = against_idle(Effort.of(quick), target, _bodies(), IN_A_ROW * by_link)
            target.release()
        else:
            target.serve()
        acp.sync()
    return rows
