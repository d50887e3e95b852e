"""Every schedule of a collective, played on paper by 1 to 17 members."""

from collections.abc import Callable
from typing import Any

import pytest
from paper import Member, elements, ragged, result, run, same, summed

from acp_mpi.comm.collectives import (
    bruck,
    choice,
    doubling,
    halving,
    pairwise,
    ring,
    tree,
)
from acp_mpi.comm.collectives.schedule import IN, OUT, RECEIVE, SUM, TMP

MEMBERS = [*range(1, 18)]


@pytest.mark.parametrize("n", MEMBERS)
def test_bcast(n: int) -> None:
    for root in range(n):
        ways = [
            ([tree.bcast(n, r, root) for r in range(n)], [5]),
            ([ring.bcast(n, r, root) for r in range(n)], choice.even(7, n)),
            ([ring.chain(n, r, root, 3) for r in range(n)], choice.even(7, 3)),
        ]
        for schedules, sizes in ways:
            members = [Member((rounds, {OUT: sizes}), None) for rounds in schedules]
            data = elements(root, len(result(members[root])))
            members[root].fill(OUT, data)
            run(members)
            assert all(result(m) == data for m in members)


@pytest.mark.parametrize("n", MEMBERS)
@pytest.mark.parametrize("in_place", [False, True])
def test_allreduce(n: int, in_place: bool) -> None:
    def whole(r: int) -> Any:
        return doubling.allreduce(n, r)

    def in_halves(r: int) -> Any:
        return halving.allreduce(n, r)

    def around(r: int) -> Any:
        return ring.allreduce(n, r)

    ways: list[tuple[Callable[[int], Any], list[int], bool]] = [(whole, [3], True)]
    if n > 1:
        power = halving.pieces(n)
        ways += [
            (way, choice.even(count, pieces), False)
            for way, pieces in ((in_halves, power), (around, n))
            for count in (19, 1)
        ]
    for way, sizes, ordered in ways:
        count = sum(sizes)
        members = [
            Member((way(r), dict.fromkeys((IN, OUT, TMP), sizes)), elements(r, count), in_place)
            for r in range(n)
        ]
        run(members)
        for m in members:
            same(result(m), [summed(n, i) for i in range(count)], ordered)
            assert result(m) == result(members[0]), "members differ in the last bit"


@pytest.mark.parametrize("n", MEMBERS)
@pytest.mark.parametrize("commutes", [False, True])
def test_reduce(n: int, commutes: bool) -> None:
    for root in range(n):
        for count, width in ((1, 8), (40, 8000)):  # a tree, and in pieces
            members = [
                Member(choice.reduce(n, r, root, count, width, commutes), elements(r, count))
                for r in range(n)
            ]
            run(members)
            expected = [summed(n, i) for i in range(count)]
            same(result(members[root]), expected, ordered=not commutes)


@pytest.mark.parametrize("n", MEMBERS)
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_scan(n: int, in_place: bool, exclusive: bool) -> None:
    members = [Member(choice.scan(n, r, 2, exclusive), elements(r, 2), in_place) for r in range(n)]
    run(members)
    for r, m in enumerate(members):
        if r or not exclusive:
            assert result(m) == [summed(r + (not exclusive), i) for i in range(2)]


@pytest.mark.parametrize("n", MEMBERS)
def test_gather_and_scatter(n: int) -> None:
    for root in range(n):
        for way, counts in (
            (tree, [2] * n),
            (pairwise, [2] * n),
            (pairwise, ragged(n)),
        ):
            everything = [e for r in range(n) for e in elements(r, counts[r])]
            sizes = [{IN: [counts[r]], OUT: counts, TMP: counts} for r in range(n)]
            members = [
                Member((way.gather(n, r, root), sizes[r]), elements(r, counts[r])) for r in range(n)
            ]
            run(members)
            assert result(members[root]) == everything
            sizes = [{IN: counts, OUT: [counts[r]], TMP: counts} for r in range(n)]
            members = [
                Member(
                    (way.scatter(n, r, root), sizes[r]),
                    everything if r == root else None,
                )
                for r in range(n)
            ]
            run(members)
            for r, m in enumerate(members):
                assert result(m) == elements(r, counts[r])


@pytest.mark.parametrize("n", MEMBERS)
def test_allgather(n: int) -> None:
    for way, counts in (
        (bruck, [2] * n),
        (ring, [2] * n),
        (ring, ragged(n)),
        (pairwise, ragged(n)),
    ):
        members = [
            Member(
                (way.allgather(n, r), {IN: [counts[r]], OUT: counts, TMP: counts}),
                elements(r, counts[r]),
            )
            for r in range(n)
        ]
        run(members)
        everything = [e for r in range(n) for e in elements(r, counts[r])]
        assert all(result(m) == everything for m in members)


@pytest.mark.parametrize("n", MEMBERS)
def test_alltoall(n: int) -> None:
    tables = [
        (bruck, [[2] * n] * n),
        (pairwise, [[2] * n] * n),
        (pairwise, [ragged(n, r) for r in range(n)]),
    ]
    for way, table in tables:
        members = []
        for r in range(n):
            given, taken = table[r], [table[s][r] for s in range(n)]
            data = [((r, to, i),) for to in range(n) for i in range(given[to])]
            sizes = {IN: given, OUT: taken, TMP: taken, SUM: given}
            members.append(Member((way.alltoall(n, r), sizes), data))
        run(members)
        for r, m in enumerate(members):
            expected = [((s, r, i),) for s in range(n) for i in range(table[s][r])]
            assert result(m) == expected


@pytest.mark.parametrize("n", MEMBERS)
@pytest.mark.parametrize("ordered", [False, True])
def test_reduce_scatter(n: int, ordered: bool) -> None:
    counts = ragged(n, 1)
    total = sum(counts)
    way = pairwise.reduce_scatter if ordered else pairwise.reduce_scatter_frugal
    members = [
        Member(
            (way(n, r), {IN: counts, OUT: [counts[r]], TMP: [counts[r]] * n}), elements(r, total)
        )
        for r in range(n)
    ]
    run(members)
    at = 0
    for r, m in enumerate(members):
        same(result(m), [summed(n, i) for i in range(at, at + counts[r])], ordered)
        at += counts[r]


@pytest.mark.parametrize("n", MEMBERS)
def test_nobody_leaves_a_barrier_before_all_have_come(n: int) -> None:
    for last in range(n):
        members = [Member(choice.barrier(n, r), None) for r in range(n)]
        members[last].rounds = [*members[last].rounds, []] if n == 1 else members[last].rounds
        reach = {last}
        for step in range(max(len(m.rounds) for m in members)):
            # who has heard of the last one, directly or not, after each round
            reach |= {
                r
                for r, m in enumerate(members)
                for kind, peer, *_ in m.rounds[step]
                if kind == RECEIVE and peer in reach
            }
        assert reach == set(range(n))
        run([Member(choice.barrier(n, r), None) for r in range(n)])


def test_a_deadlock_would_be_seen() -> None:
    """Two members that both receive before they send."""
    rounds = [[(RECEIVE, 1, (OUT, 0, 1), (0, 0, 0), (0, 0, 0))]]
    other = [[(RECEIVE, 0, (OUT, 0, 1), (0, 0, 0), (0, 0, 0))]]
    members = [Member((rounds, {OUT: [1]}), None), Member((other, {OUT: [1]}), None)]
    with pytest.raises(AssertionError, match="deadlock"):
        run(members)
