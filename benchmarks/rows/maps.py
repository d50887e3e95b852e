"""A map of another rank of the node, from Python."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from harness import Body, Effort, Goal, Row

import acp_mpi as acp
from rows.calling import by_rank_0, calls, many_at_once, one_by_one, reads, writes

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
    m, plain = acp.Map(ranks=[1], key="q", value="d"), dict[int, float]()
    at_most = Goal(at_most=0.2)
    rows = one_by_one(effort, [
        ("Map.insert", _growing(m.insert, m.clear), "dict.setdefault",
         _growing(plain.setdefault, plain.clear), at_most),
        ("Map.remove", _emptying(lambda n: m.update(np.arange(n), np.ones(n)), m.remove),
         "dict.pop", _emptying(lambda n: plain.update(dict.fromkeys(range(n), 1.0)), plain.pop),
         at_most),
    ])  # fmt: skip
    m.update(np.arange(1000), np.ones(1000))
    plain.update(dict.fromkeys(range(1000), 1.0))
    rows += one_by_one(effort, [
        ("Map.get", calls(m.get, 500), "dict.get", calls(plain.get, 500), Goal(at_most=0.1)),
        ("Map[k]", reads(m, 500), "dict[k]", reads(plain, 500), Goal(at_most=0.1)),
        ("Map[k] = v", writes(m, 500, 2.0), "dict[k] = v", writes(plain, 500, 2.0), at_most),
    ])  # fmt: skip
    m.destroy()
    return rows


def _bulk(effort: Effort) -> list[Row]:
    rng = np.random.default_rng(1)
    keys, wanted = rng.permutation(BULK), rng.integers(0, BULK, BULK)
    values = keys / 2
    m = acp.Map(ranks=[1], key="q", value="d")

    def fresh(count: int) -> float:
        passed = 0.0
        for _ in range(count):
            m.clear()
            start = perf_counter()
            m.update(keys, values)
            passed += perf_counter() - start
        return passed

    numpy = calls(np.take, values, wanted)
    rows = many_at_once(effort, BULK, [
        ("Map.update, all new,", fresh, "np.take", numpy, Goal(at_least=5)),
        ("Map.get_many", calls(m.get_many, wanted), "np.take", numpy, Goal(at_least=15)),
        ("Map.accumulate", calls(m.accumulate, keys, values), "np.take", numpy, Goal(at_least=5)),
    ])  # fmt: skip
    m.destroy()
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    return by_rank_0(quick, _single, _bulk)
