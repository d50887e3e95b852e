"""Objects in containers of another rank of the node, against pickling them and nothing else."""

import pickle
from dataclasses import replace
from itertools import cycle, islice, repeat
from time import perf_counter
from typing import Any

import numpy as np
from harness import Body, Effort, Goal, Row

import acp_mpi as acp
from rows.calling import Contest, by_rank_0, calls, one_by_one

LONG_SLICE = 0.02
PROTOCOL = 5  # as ours has it; it copies long buffers once less than the default
THINGS: dict[str, tuple[Any, int]] = {  # and how long the list gets
    "a tuple": (("word", 3.5, [1, 2]), 1000),
    "1,000 floats": ({i: i / 7 for i in range(1000)}, 100),
    "an array of 1 MB": (np.arange(125_000.0), 8),
}


def _queue(line: acp.List[Any], thing: Any, length: int, pushes: bool) -> Body:
    """Return a loop that fills and empties the list again and again, and times one of the two.

    A list that takes all of a slice measures how the system gives memory, and takes it back.
    """

    def loop(count: int) -> float:
        push, pop, seconds = line.push_back, line.pop_front, 0.0
        while count > 0:
            start = perf_counter()
            for _ in repeat(None, min(count, length)):
                push(thing)
            full = perf_counter()
            for _ in repeat(None, min(count, length)):
                pop()
            seconds += full - start if pushes else perf_counter() - full
            count -= length
        return seconds

    return loop


def _each_of(data: bytes, length: int) -> Body:
    """Return a loop that loads copies in turn: as in a queue, each lies in memory of its own."""
    copies = [bytes(bytearray(data)) for _ in range(length)]

    def loop(count: int) -> None:
        for copy in islice(cycle(copies), count):
            pickle.loads(copy)

    return loop


def _contests(
    name: str,
    thing: Any,
    length: int,
    line: acp.List[Any],
    one: acp.List[Any],
    m: acp.Map[Any, Any],
) -> list[Contest]:
    data, goal = pickle.dumps(thing, PROTOCOL), Goal(times=1.5, plus=1.0)
    dumps, loads = calls(pickle.dumps, thing, PROTOCOL), calls(pickle.loads, data)
    pushed, popped = (_queue(line, thing, length, pushes) for pushes in (True, False))
    m[7] = thing
    one.push_back(thing)
    return [
        (f"List.push_back of {name}", pushed, "pickle.dumps", dumps, goal),
        (f"List.pop_front of {name}", popped, "pickle.loads", _each_of(data, length), goal),
        (f"List.front, {name}", calls(one.front), "pickle.loads", loads, goal),
        (f"Map[k] = {name}", calls(m.__setitem__, 7, thing), "pickle.dumps", dumps, goal),
        (f"Map[k], {name}", calls(m.__getitem__, 7), "pickle.loads", loads, goal),
    ]


def _rows(effort: Effort) -> list[Row]:
    # Several calls in a slice: the first takes memory that the other side has given back.
    effort = replace(effort, slice=LONG_SLICE)
    rows = []
    for name, (thing, length) in THINGS.items():
        with acp.List(rank=1) as line, acp.List(rank=1) as one, acp.Map(ranks=[1]) as m:
            rows += one_by_one(effort, _contests(name, thing, length, line, one, m))
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    return by_rank_0(quick, _rows)
