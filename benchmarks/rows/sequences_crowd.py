"""All ranks at one counter, deque or vector, call by call and in bulk."""

import numpy as np
from harness import Goal, Row

import acp_mpi as acp
from rows.crowd import Calls, by_all

BULK = 10_000


def _calls() -> list[Calls]:
    made = (acp.Counter(), acp.Deque("q"), acp.Vector("q", size=BULK)) if acp.rank() == 0 else None
    counter, line, vector = acp.bcast(made)
    values = np.arange(BULK)

    def in_and_out() -> None:
        line.push_back(1)
        line.pop_front()

    return [
        ("Counter.next", counter.next, 1, Goal(speed=0.9)),
        ("Deque.push_back + pop_front", in_and_out, 1, Goal(speed=0.8)),
        ("Vector[:] = values", lambda: vector.assign(values), BULK, Goal(speed=0.5)),
        ("Vector[:]", lambda: vector[:], BULK, Goal(speed=0.5)),
    ]


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    return by_all(quick, _calls)
