"""List of another rank of the node, from Python."""

import pickle
from collections import deque
from itertools import repeat

import numpy as np
from harness import Effort, Goal, Row

import acp_mpi as acp
from rows.calling import by_rank_0, calls, filled, many_at_once, one_by_one

BULK = 100_000


def _single(effort: Effort) -> list[Row]:
    plain: deque[int] = deque()
    numbers, others = acp.List("q", rank=1), acp.List("q", rank=1)
    objects = acp.List(rank=1)
    thing = ("word", 3.5, [1, 2])

    def ones(count: int) -> None:
        others.extend(np.ones(count, np.int64))

    rows = one_by_one(effort, [
        ("List.push_back", calls(numbers.push_back, 1), "deque.append", calls(plain.append, 1),
         Goal(at_most=0.1)),
        ("List.pop_front", filled(ones, others.pop_front), "deque.popleft",
         filled(lambda count: plain.extend(repeat(1, count)), plain.popleft), Goal(at_most=0.1)),
        ("List.push_back of an object", calls(objects.push_back, thing), "pickle.dumps",
         calls(pickle.dumps, thing), Goal()),
    ])  # fmt: skip
    for container in (numbers, others, objects):
        container.destroy()
    return rows


def _bulk(effort: Effort) -> list[Row]:
    values = np.random.default_rng(1).integers(0, BULK, BULK)
    line, plain = acp.List("q", rank=1), values.tolist()
    rows = many_at_once(effort, BULK, [
        ("List.assign", calls(line.assign, values), "list(list)", calls(list, plain), Goal()),
        ("list(List)", calls(list, line), "list(list)", calls(list, plain), Goal()),
        ("List.sort", calls(line.sort), "sorted", calls(sorted, plain), Goal()),
    ])  # fmt: skip
    line.destroy()
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    return by_rank_0(quick, _single, _bulk)
