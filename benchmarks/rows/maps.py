"""A map of another rank of the node, from Python."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from harness import US, Body, Effort, Goal, Row, interleave
from mpi4py import MPI

import acp_mpi as acp
from rows.sequences import calls

BULK = 1_000_000


def _growing(put: Callable[[int, float], Any], clear: Callable[[], None]) -> Body:
    """Return a loop that puts new keys in, after what was there has gone, which does not count."""

    def loop(count: int) -> float:
        clear()
        start = perf_counter()
        for key in range(count):
            put(key, 1.0)
        return perf_counter() - start

    return loop


def _emptying(fill: Callable[[int], None], take: Callable[[int], Any]) -> Body:
    """Return a loop that takes out the keys that another function has put in."""

    def loop(count: int) -> float:
        fill(count)
        start = perf_counter()
        for key in range(count):
            take(key)
        return perf_counter() - start

    return loop


def _single(effort: Effort) -> list[Row]:
    m, plain = acp.Map([1], key="q", value="d"), dict[int, float]()
    rows = []
    for what, goal, against, ours, theirs in [
        ("Map.insert", 0.2, "dict.setdefault", _growing(m.insert, m.clear),
         _growing(plain.setdefault, plain.clear)),
        ("Map.remove", 0.2, "dict.pop",
         _emptying(lambda n: m.update(np.arange(n), np.ones(n)), m.remove),
         _emptying(lambda n: plain.update(dict.fromkeys(range(n), 1.0)), plain.pop)),
    ]:  # fmt: skip
        a, b = interleave(effort, ours, theirs)
        rows.append(Row(what, "µs", a.median / US, against, b.median / US, Goal(at_most=goal)))
    m.update(np.arange(1000), np.ones(1000))
    plain.update(dict.fromkeys(range(1000), 1.0))
    for what, goal, against, ours, theirs in [
        ("Map.get", 0.1, "dict.get", calls(m.get, 500), calls(plain.get, 500)),
        ("Map[k]", 0.1, "dict[k]", calls(m.__getitem__, 500), calls(plain.__getitem__, 500)),
        ("Map[k] = v", 0.2, "dict[k] = v", calls(m.__setitem__, 500, 2.0),
         calls(plain.__setitem__, 500, 2.0)),
    ]:  # fmt: skip
        a, b = interleave(effort, ours, theirs)
        rows.append(Row(what, "µs", a.median / US, against, b.median / US, Goal(at_most=goal)))
    m.destroy()
    return rows


def _bulk(effort: Effort) -> list[Row]:
    rng = np.random.default_rng(1)
    keys, wanted = rng.permutation(BULK), rng.integers(0, BULK, BULK)
    values = keys / 2
    m = acp.Map([1], key="q", value="d")

    def fresh(count: int) -> float:
        passed = 0.0
        for _ in range(count):
            m.clear()
            start = perf_counter()
            m.update(keys, values)
            passed += perf_counter() - start
        return passed

    rows = []
    for what, goal, ours in [
        ("Map.update of a million new keys", 5, fresh),
        ("Map.get_many of a million", 15, calls(m.get_many, wanted)),
        ("Map.accumulate of a million", 5, calls(m.accumulate, keys, values)),
    ]:
        a, b = interleave(effort, ours, calls(np.take, values, wanted))
        rows.append(
            Row(what, "M/s", 1 / a.median, "np.take", 1 / b.median, Goal(at_least=goal), rate=True)
        )
    m.destroy()
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    effort, rows = Effort.of(quick), []
    with acp.init(MPI.COMM_WORLD):
        if acp.rank() == 0:
            rows = _single(effort) + _bulk(effort)
        acp.sync()
    return rows
