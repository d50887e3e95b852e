"""All ranks at one map, call by call and in bulk."""

from itertools import count

import numpy as np
from harness import Goal, Row

import acp_mpi as acp
from rows.crowd import Calls, by_all

BULK = 100_000
KEYS = 1 << 16  # that are there from the beginning


def _filled() -> acp.Map[int, float]:
    m = acp.Map(ranks=[0], key="q", value="d", slots=1 << 22)
    m.update(np.arange(KEYS), np.ones(KEYS))
    return m


def _calls() -> list[Calls]:
    m = acp.bcast(_filled() if acp.rank() == 0 else None)
    new, old = count(acp.rank() + 1 << 40), count()
    keys = np.random.default_rng(acp.rank()).integers(0, 1_000_000, BULK)
    values = np.ones(BULK)

    def insert_and_remove() -> None:
        key = next(new)
        m.insert(key, 1.0)
        m.remove(key)

    return [
        ("Map.get", lambda: m.get(next(old) % KEYS), 1, Goal(speed=0.9)),
        ("Map.insert + remove", insert_and_remove, 1, Goal(speed=0.8)),
        ("Map.update", lambda: m.update(keys, values), BULK, Goal(speed=0.5)),
        ("Map.get_many", lambda: m.get_many(keys), BULK, Goal(speed=0.5)),
        ("Map.accumulate", lambda: m.accumulate(keys, values), BULK, Goal(speed=0.5)),
    ]


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    return by_all(quick, _calls)
