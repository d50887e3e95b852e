"""List of another rank of the node, from Python."""

import pickle
from collections import deque
from itertools import repeat

import numpy as np
from harness import US, Effort, Goal, Row, interleave
from mpi4py import MPI

import acp_mpi as acp
from rows.sequences import calls, filled

BULK = 100_000


def _single(effort: Effort) -> list[Row]:
    plain: deque[int] = deque()
    numbers, objects = acp.List("q", rank=1), acp.List(rank=1)
    thing = ("word", 3.5, [1, 2])

    def ones(count: int) -> None:
        numbers.extend(np.ones(count, np.int64))

    rows = []
    for what, ours, against, theirs, goal in [
        ("List.push_back", calls(numbers.push_back, 1), "deque.append", calls(plain.append, 1),
         Goal(at_most=0.1)),
        ("List.pop_front", filled(ones, numbers.pop_front), "deque.popleft",
         filled(lambda count: plain.extend(repeat(1, count)), plain.popleft), Goal(at_most=0.1)),
        ("List.push_back of an object", calls(objects.push_back, thing), "pickle.dumps",
         calls(pickle.dumps, thing), Goal()),
    ]:  # fmt: skip
        a, b = interleave(effort, ours, theirs)
        rows.append(Row(what, "µs", a.median / US, against, b.median / US, goal))
        numbers.clear()
        objects.clear()
    numbers.destroy()
    objects.destroy()
    return rows


def _bulk(effort: Effort) -> list[Row]:
    values = np.random.default_rng(1).integers(0, BULK, BULK)
    line, plain = acp.List("q", rank=1), values.tolist()
    rows = []
    for what, ours, against, theirs in [
        ("List.assign", lambda: line.assign(values), "list(list)", lambda: list(plain)),
        ("list(List)", lambda: list(line), "list(list)", lambda: list(plain)),
        ("List.sort", line.sort, "sorted", lambda: sorted(plain)),
    ]:
        a, b = interleave(effort, calls(ours), calls(theirs))
        rows.append(
            Row(f"{what} of {BULK:,}", "M/s", BULK / a.median / 1e6, against,
                BULK / b.median / 1e6, rate=True)
        )  # fmt: skip
    line.destroy()
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    effort, rows = Effort.of(quick), []
    with acp.init(MPI.COMM_WORLD):
        if acp.rank() == 0:
            rows = _single(effort) + _bulk(effort)
        acp.sync()
    return rows
