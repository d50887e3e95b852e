"""Objects in containers of another rank of the node, against pickling them and nothing else."""

import pickle
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from harness import Effort, Goal, Row

import acp_mpi as acp
from rows.calling import Contest, by_rank_0, calls, filled, one_by_one

LONG_SLICE = 0.02
THINGS: dict[str, Any] = {
    "a tuple": ("word", 3.5, [1, 2]),
    "1,000 floats": {i: i / 7 for i in range(1000)},
    "an array of 1 MB": np.arange(125_000.0),
}


def _contests(name: str, thing: Any, line: acp.List, m: acp.Map) -> list[Contest]:
    data, goal = pickle.dumps(thing), Goal(times=1.5, plus=1.0)
    dumps, loads = calls(pickle.dumps, thing), calls(pickle.loads, data)

    def fill(count: int) -> None:
        line.clear()
        for _ in range(count):
            line.push_back(thing)

    pushed = filled(lambda _: line.clear(), partial(line.push_back, thing))
    m[7] = thing
    return [
        (f"List.push_back of {name}", pushed, "pickle.dumps", dumps, goal),
        (f"List.pop_front of {name}", filled(fill, line.pop_front), "pickle.loads", loads, goal),
        (f"Map[k] = {name}", calls(m.__setitem__, 7, thing), "pickle.dumps", dumps, goal),
        (f"Map[k], {name}", calls(m.__getitem__, 7), "pickle.loads", loads, goal),
    ]


def _rows(effort: Effort) -> list[Row]:
    # Several calls in a slice: the first takes memory that the other side has given back.
    effort = replace(effort, slice=LONG_SLICE)
    rows = []
    for name, thing in THINGS.items():
        with acp.List(rank=1) as line, acp.Map([1]) as m:
            rows += one_by_one(effort, _contests(name, thing, line, m))
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    return by_rank_0(quick, _rows)
