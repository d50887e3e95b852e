"""Collectives of some ranks only, in an order of their own, and between two groups."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from filled import data, everyone

import acp_mpi as acp
from acp_mpi.comm.collectives import team
from acp_mpi.engine import _engine

pytestmark = pytest.mark.mpi


def test_lists_of_ranks_in_their_order() -> None:
    n, r = acp.procs(), acp.rank()
    backwards = list(range(n))[::-1]
    assert acp.allgather(r, ranks=backwards) == backwards
    assert acp.allreduce(str(r), ranks=backwards) == "".join(map(str, backwards))
    assert acp.bcast(r, ranks=backwards) == n - 1, "the root is the first"
    out = np.zeros(n, "i8")
    acp.allgather(np.array([r]), out=out, ranks=backwards)
    assert out.tolist() == backwards
    mine = [i for i in range(n) if i % 2 == r % 2]
    assert acp.allreduce(r, ranks=mine) == sum(mine)
    assert acp.allreduce(np.full(40_000, r), ranks=mine)[0] == sum(mine)
    assert acp.allreduce(r, group=acp.group()) == sum(acp.group().ranks)
    assert acp.allreduce(r, ranks=[r]) == r
    acp.ibarrier(ranks=mine).wait()


def test_between_two_groups() -> None:
    n, r = acp.procs(), acp.rank()
    if n < 2:
        return
    sides = ([0], [*range(1, n)])
    mine, others = sides if r == 0 else sides[::-1]
    assert acp.allreduce(r + 1, between=sides) == sum(i + 1 for i in others)
    assert acp.allgather("x" * 300 * r, between=sides) == ["x" * 300 * i for i in others]
    x = np.full(20_000, r + 1.0)
    assert acp.allreduce(x, between=sides[::-1])[0] == sum(i + 1 for i in others)
    assert acp.alltoall([(r, i) for i in others], between=sides) == [(i, r) for i in others]
    for root in range(n):
        got = acp.bcast(f"from {r}", root, between=sides)
        assert got == (f"from {root}" if root in others or r == root else None)
        got = acp.gather(r, root, between=sides)
        assert got == (others if r == root else None)
        whole = [(root, i) for i in others] if r == root else None
        got = acp.scatter(whole, root, between=sides)
        assert got == ((root, r) if root in others else None)
        total = acp.reduce(x, root=root, between=sides)
        assert (total is not None) == (r == root)
        assert total is None or total[0] == sum(i + 1 for i in others)
    acp.ibarrier(between=sides).wait()
    given = np.arange(float(len(mine) * len(others))) + r
    part = acp.reduce_scatter(given, between=sides, counts=[len(others)] * len(mine))
    first = mine.index(r) * len(others)
    expected = sum(np.arange(float(len(given))) + i for i in others)
    assert np.array_equal(part, expected[first : first + len(others)])


def test_threads_with_lists_of_their_own() -> None:
    n = acp.procs()
    orders: list[Sequence[int]] = [[*range(n)], [*range(n)][::-1]]
    failures: list[BaseException] = []

    def work(ranks: Sequence[int], seed: int) -> None:
        try:
            for i in range(20):
                x = data(1 + i * 700, seed=seed + i)
                assert np.array_equal(
                    acp.allreduce(x, ranks=ranks), sum(everyone(len(x), seed=seed + i))
                )
        except BaseException as error:
            failures.append(error)

    if n == 1 or orders[0] == orders[1]:
        return
    threads = [threading.Thread(target=work, args=(o, k)) for k, o in enumerate(orders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_whom_the_job_has_lost_elsewhere_has_no_place_among_the_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a group that is not of everybody, or of everybody where those begin above rank 0."""
    n, r = acp.procs(), acp.rank()
    monkeypatch.setattr(_engine, "lost_ranks", lambda accepted=False: [n, n + 1])
    monkeypatch.setattr(_engine, "membership", lambda: "a group has ended")
    assert acp.iallgather(r).wait() == [*range(n)]
    assert acp.iallreduce([r]).wait() == [*range(n)]


def test_threads_that_name_the_same_ranks_first_count_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks = (acp.rank(),)
    found: list[team.Team] = []

    def another_asks(function: str, key: Any, special: bool) -> team.Team:
        monkeypatch.undo()
        found.append(team.team_of(function, ranks, None, None))
        return made(function, key, special)

    team._teams.pop(ranks, None)
    made = team._made
    monkeypatch.setattr(team, "_made", another_asks)
    found.append(team.team_of("barrier", ranks, None, None))
    assert found[0] is found[1]
