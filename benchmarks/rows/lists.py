"""List of another rank of the node, from Python."""

from collections import deque
from itertools import repeat
from time import perf_counter

import numpy as np
from harness import Effort, Goal, Row

import acp_mpi as acp
from rows.calling import by_rank_0, calls, filled, many_at_once, one_by_one

BULK = 100_000


def _single(effort: Effort) -> list[Row]:
    plain: deque[int] = deque()
    numbers, others = acp.List(dtype="q", rank=1), acp.List(dtype="q", rank=1)
    middle = acp.List(dtype="q", rank=1)
    appended = calls(plain.append, 1)
    taken = filled(lambda count: plain.extend(repeat(1, count)), plain.popleft)

    def ones(count: int) -> None:
        others.extend(np.ones(count, np.int64))

    def erasing(count: int) -> float:
        middle.extend(np.ones(count, np.int64))
        cursor, start = middle.begin(), perf_counter()
        for _ in repeat(None, count):
            cursor = middle.erase(cursor)
        return perf_counter() - start

    middle.extend(range(1000))
    at = middle.begin().advance(500)
    rows = one_by_one(effort, [
        ("List.push_back", calls(numbers.push_back, 1), "deque.append", appended,
         Goal(at_most=0.1)),
        ("List.pop_front", filled(ones, others.pop_front), "deque.popleft", taken,
         Goal(at_most=0.1)),
        ("List.insert", calls(middle.insert, at, 1), "deque.append", appended, Goal(at_most=0.2)),
        ("List.erase", erasing, "deque.popleft", taken, Goal(at_most=0.2)),
    ])  # fmt: skip
    for container in (numbers, others, middle):
        container.destroy()
    return rows


def _bulk(effort: Effort) -> list[Row]:
    values = np.random.default_rng(1).integers(0, BULK, BULK)
    line, plain = acp.List(dtype="q", rank=1), values.tolist()
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
