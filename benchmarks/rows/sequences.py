"""Vector, deque and counter of another rank of the node, from Python."""

from collections import deque
from collections.abc import Callable
from itertools import count as counting
from itertools import repeat
from typing import Any

import numpy as np
from harness import US, Body, Effort, Goal, Row, interleave
from mpi4py import MPI

import acp_mpi as acp

BULK = 1_000_000


def calls(function: Callable[..., Any], *arguments: Any) -> Body:
    """Return a loop that calls a function."""

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            function(*arguments)

    return loop


def filled(fill: Callable[[int], Any], empty: Callable[[], Any]) -> Body:
    """Return a loop that empties what another function has filled, which does not count."""
    from time import perf_counter

    def loop(count: int) -> float:
        fill(count)
        start = perf_counter()
        for _ in repeat(None, count):
            empty()
        return perf_counter() - start

    return loop


def _row(effort: Effort, what: str, ours: Body, against: str, theirs: Body) -> Row:
    a, b = interleave(effort, ours, theirs)
    return Row(what, "µs", a.median / US, against, b.median / US, Goal(at_most=0.1))


def _single(effort: Effort) -> list[Row]:
    plain = list(range(1000))
    ends: deque[int] = deque()
    vector, line = acp.Vector("q", rank=1), acp.Deque("q", rank=1)
    counter, numbers = acp.Counter(rank=1), counting()

    def fresh(sequence: Any) -> Callable[[int], None]:
        return lambda count: sequence.fill(count, 1)

    rows = [
        _row(effort, "Vector.push_back", calls(vector.push_back, 1), "list.append",
             calls(plain.append, 1)),
        _row(effort, "Vector.pop_back", filled(fresh(vector), vector.pop_back), "list.pop",
             filled(lambda count: plain.extend(repeat(1, count)), plain.pop)),
        _row(effort, "Deque.push_front", calls(line.push_front, 1), "deque.appendleft",
             calls(ends.appendleft, 1)),
        _row(effort, "Deque.pop_front", filled(fresh(line), line.pop_front), "deque.popleft",
             filled(lambda count: ends.extend(repeat(1, count)), ends.popleft)),
        _row(effort, "Counter.next", calls(counter.next), "next(itertools.count)",
             calls(next, numbers)),
    ]  # fmt: skip
    vector.fill(1000, 1)
    rows.append(
        _row(effort, "Vector[i]", calls(vector.__getitem__, 7), "list[i]",
             calls(plain.__getitem__, 7))
    )  # fmt: skip
    for container in (vector, line, counter):
        container.destroy()
    return rows


def _bulk(effort: Effort) -> list[Row]:
    values, target = np.arange(BULK), np.empty(BULK, np.int64)
    vector = acp.Vector("q", rank=1)
    rows = []
    for what, ours in [
        ("Vector.assign", calls(vector.assign, values)),
        ("Vector[:]", calls(vector.get_slice, slice(None))),
    ]:
        a, b = interleave(effort, ours, calls(np.copyto, target, values))
        rows.append(
            Row(f"{what} of a million", "M/s", 1 / a.median, "np.copyto", 1 / b.median,
                Goal(at_least=50), rate=True)
        )  # fmt: skip
    vector.destroy()
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    effort, rows = Effort.of(quick), []
    with acp.init(MPI.COMM_WORLD):
        if acp.rank() == 0:
            rows = _single(effort) + _bulk(effort)
        acp.sync()
    return rows
