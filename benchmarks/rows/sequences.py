"""Vector, deque and counter of another rank of the node, from Python."""

from collections import deque
from collections.abc import Callable
from itertools import count as counting
from itertools import repeat
from typing import Any

import numpy as np
from harness import Effort, Goal, Row

import acp_mpi as acp
from rows.calling import by_rank_0, calls, filled, many_at_once, one_by_one, reads

BULK = 1_000_000


def _single(effort: Effort) -> list[Row]:
    plain, thousand = list(range(1000)), list(range(1000))
    ends: deque[int] = deque()
    vector, line = acp.Vector("q", rank=1), acp.Deque("q", rank=1)
    row = acp.Vector("q", size=1000, rank=1)
    counter, numbers, goal = acp.Counter(rank=1), counting(), Goal(at_most=0.1)

    def fresh(sequence: Any) -> Callable[[int], None]:
        return lambda count: sequence.fill(count, 1)

    rows = one_by_one(effort, [
        ("Vector.push_back", calls(vector.push_back, 1), "list.append",
         calls(plain.append, 1), goal),
        ("Vector.pop_back", filled(fresh(vector), vector.pop_back), "list.pop",
         filled(lambda count: plain.extend(repeat(1, count)), plain.pop), goal),
        ("Deque.push_front", calls(line.push_front, 1), "deque.appendleft",
         calls(ends.appendleft, 1), goal),
        ("Deque.pop_front", filled(fresh(line), line.pop_front), "deque.popleft",
         filled(lambda count: ends.extend(repeat(1, count)), ends.popleft), goal),
        ("Counter.next", calls(counter.next), "next(itertools.count)", calls(next, numbers), goal),
        ("Vector[i]", reads(row, 7), "list[i]", reads(thousand, 7), goal),
    ])  # fmt: skip
    for container in (vector, line, row, counter):
        container.destroy()
    return rows


def _bulk(effort: Effort) -> list[Row]:
    values, target = np.arange(BULK), np.empty(BULK, np.int64)
    vector, goal = acp.Vector("q", rank=1), Goal(at_least=50)
    copy = calls(np.copyto, target, values)
    rows = many_at_once(effort, BULK, [
        ("Vector.assign", calls(vector.assign, values), "np.copyto", copy, goal),
        ("Vector[:]", calls(vector.__getitem__, slice(None)), "np.copyto", copy, goal),
    ])  # fmt: skip
    vector.destroy()
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    return by_rank_0(quick, _single, _bulk)
