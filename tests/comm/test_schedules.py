"""Collectives on paper: all members' schedules, without memory that is shared and without MPI.

A message waits until it is received, as if nothing were ever kept for a receiver that is late: what
ends here cannot deadlock. Elements are tuples of whose they are; a fold joins them.
"""

import collections
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from acp_mpi.comm.collectives import (
    bruck,
    choice,
    doubling,
    halving,
    pairwise,
    ring,
    tree,
)
from acp_mpi.comm.collectives.schedule import (
    COPY,
    FOLD,
    IN,
    OUT,
    RECEIVE,
    SEND,
    SUM,
    TMP,
)

MEMBERS = [*range(1, 18)]
Memory = dict[int, list[list[Any]]]  # buffer -> pieces -> elements


class Member:
    """One member: its schedule, its memory, and how far it is."""

    rounds: Any

    def __init__(self, paper: Any, given: list[Any] | None, in_place: bool = False) -> None:
        self.rounds, sizes = paper
        self.at = 0
        self.memory: Memory = {b: [[None] * s for s in sizes[b]] for b in sizes}
        if given is not None:
            self.fill(IN, given)
        if in_place:
            assert [*map(len, self.memory[IN])] == [*map(len, self.memory[OUT])]
            self.memory[OUT] = self.memory[IN]

    def fill(self, buffer: int, elements: list[Any]) -> None:
        rest = iter(elements)
        self.memory[buffer] = [[next(rest) for _ in piece] for piece in self.memory.get(buffer, [])]

    def load(self, where: Any) -> list[Any]:
        buffer, first, count = where
        pieces = self.memory[buffer]
        assert first + count <= len(pieces), "beyond the buffer"
        return list(itertools.chain.from_iterable(pieces[first : first + count]))

    def store(self, where: Any, elements: list[Any]) -> None:
        buffer, first, count = where
        pieces = self.memory[buffer]
        assert len(elements) == sum(map(len, pieces[first : first + count])), "another length"
        rest = iter(elements)
        for i in range(first, first + count):
            pieces[i][:] = [next(rest) for _ in pieces[i]]

    def compute(self) -> None:
        for kind, _, where, left, right in self.rounds[self.at]:
            if kind == COPY:
                self.store(where, self.load(left))
            elif kind == FOLD:
                pairs = zip(self.load(left), self.load(right), strict=True)
                self.store(where, [a + b for a, b in pairs])


def touched(where: Any) -> set[tuple[int, int]]:
    buffer, first, count = where
    return {(buffer, i) for i in range(first, first + count)}


def check_round(steps: list[Any], n: int, r: int) -> None:
    """What is under way together neither overlaps nor comes after what is computed."""
    into: set[tuple[int, int]] = set()
    out: set[tuple[int, int]] = set()
    local = False
    for kind, peer, where, what, _ in steps:
        assert kind in (SEND, RECEIVE, COPY, FOLD)
        if kind in (SEND, RECEIVE):
            assert peer in set(range(n)) - {r}, "with whom"
        if kind == RECEIVE:
            assert not local, "a message after a computation"
            assert not touched(where) & into, "two messages into one place"
            assert where[0] != IN, "what the caller gives is changed"
            into |= touched(where)
        elif kind == SEND:
            assert not local, "a message after a computation"
            out |= touched(what)
        else:
            local = True
            assert where[0] != IN, "what the caller gives is changed"
    assert not into & out, "sent while it is received"


def run(members: Sequence[Member]) -> None:
    """Carry out all schedules, every message when both of its ends are there."""
    n = len(members)
    for r, m in enumerate(members):
        for steps in m.rounds:
            check_round(steps, n, r)
    open_sends: dict[tuple[int, int], collections.deque[list[Any]]]
    open_sends = collections.defaultdict(collections.deque)
    open_receives: dict[tuple[int, int], collections.deque[Any]]
    open_receives = collections.defaultdict(collections.deque)
    pending = [0] * n

    def begin(r: int) -> None:
        m = members[r]
        while m.at < len(m.rounds):
            for kind, peer, where, what, _ in m.rounds[m.at]:
                if kind == SEND:
                    open_sends[r, peer].append(m.load(what))
                elif kind == RECEIVE:
                    open_receives[peer, r].append(where)
                else:
                    continue
                pending[r] += 1
            if pending[r]:
                return
            m.compute()
            m.at += 1

    for r in range(n):
        begin(r)
    moved = True
    while moved:
        moved = False
        for pair in [p for p in open_receives if open_receives[p] and open_sends[p]]:
            source, target = pair
            members[target].store(open_receives[pair].popleft(), open_sends[pair].popleft())
            moved = True
            for r in (source, target):
                pending[r] -= 1
                if not pending[r]:
                    members[r].compute()
                    members[r].at += 1
                    begin(r)
    assert all(m.at == len(m.rounds) for m in members), "deadlock"
    assert not any(open_sends.values()), "a message that nobody receives"


def elements(r: int, count: int) -> list[Any]:
    return [((r, i),) for i in range(count)]


def summed(n: int, i: int) -> tuple[Any, ...]:
    return tuple((r, i) for r in range(n))


def result(member: Member) -> list[Any]:
    pieces = member.memory[OUT]
    return list(itertools.chain.from_iterable(pieces))


def ragged(n: int, seed: int = 0) -> list[int]:
    return [(i * 7 + seed * 3) % 4 for i in range(n)]


def same(found: list[Any], expected: list[Any], ordered: bool) -> None:
    if not ordered:
        found = [tuple(sorted(each)) for each in found]
    assert found == expected


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
        for count in (1, 40000):  # a tree, and in pieces
            if count > 1 and (root not in (0, n - 1) or n > 9):
                continue
            members = [
                Member(choice.reduce(n, r, root, count, 8, commutes), elements(r, count))
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


PAIRS = [(1, 1), (1, 4), (4, 1), (2, 3), (3, 3), (5, 2), (9, 12)]


def both(
    own: int, other: int, kind: str, root: int, given: Any, taken: Any, data: Any
) -> list[Member]:
    """Return the members of both groups; those of the second see themselves first, too."""
    members = []
    for side, sides in ((0, (own, other)), (1, (other, own))):
        n = sum(sides)
        turned = (root - own * side) % n
        for r in range(sides[0]):
            rounds, sizes = choice.between_groups(
                kind, sides, r, turned, given(side, r), taken(side, r)
            )
            rounds = [
                [
                    (k, (p + own * side) % n if k <= RECEIVE else p, a, b, c)
                    for k, p, a, b, c in steps
                ]
                for steps in rounds
            ]
            members.append(Member((rounds, sizes), data(side, r)))
    return members


@pytest.mark.parametrize(("own", "other"), PAIRS)
def test_between_groups(own: int, other: int) -> None:
    sides = (own, other)

    def one(side: int, r: int) -> list[int]:
        return [2]

    def none(side: int, r: int) -> None:
        return None

    def mine(side: int, r: int) -> list[Any]:
        return elements(side * own + r, 2)

    def of(side: int) -> list[int]:
        return [own + r for r in range(other)] if side else [*range(own)]

    def folded(side: int) -> list[Any]:
        return [tuple((r, i) for r in of(side)) for i in range(2)]

    for root in range(own + other):
        at = int(root >= own)  # the root's group
        members = both(own, other, "bcast", root, one, one, none)
        members[root].fill(OUT, elements(root, 2))
        run(members)
        assert all(result(members[r]) == elements(root, 2) for r in of(1 - at))

        members = both(own, other, "reduce", root, one, one, mine)
        run(members)
        assert result(members[root]) == folded(1 - at)

        def row(side: int, r: int) -> list[int]:
            return [2] * sides[1 - side]

        members = both(own, other, "gather", root, one, row, mine)
        run(members)
        assert result(members[root]) == [e for r in of(1 - at) for e in elements(r, 2)]

        def everything(side: int, r: int) -> list[Any]:
            return [e for x in of(1 - side) for e in elements(x, 2)]

        members = both(own, other, "scatter", root, row, one, everything)
        run(members)
        assert all(result(members[r]) == elements(r, 2) for r in of(1 - at))

    members = both(own, other, "allreduce", 0, one, one, mine)
    run(members)
    for side in (0, 1):
        assert all(result(members[r]) == folded(1 - side) for r in of(side))

    members = both(
        own,
        other,
        "allgather",
        0,
        lambda side, r: [2] * sides[side],
        lambda side, r: [2] * sides[1 - side],
        mine,
    )
    run(members)
    for side in (0, 1):
        expected = [e for r in of(1 - side) for e in elements(r, 2)]
        assert all(result(members[r]) == expected for r in of(side))

    def given(side: int, r: int) -> list[int]:
        return [(r + p + side) % 3 for p in range(sides[1 - side])]

    def taken(side: int, r: int) -> list[int]:
        return [given(1 - side, p)[r] for p in range(sides[1 - side])]

    def labelled(side: int, r: int) -> list[Any]:
        return [((side, r, p, i),) for p, c in enumerate(given(side, r)) for i in range(c)]

    members = both(own, other, "alltoall", 0, given, taken, labelled)
    run(members)
    for side in (0, 1):
        for r, m in enumerate(of(side)):
            assert result(members[m]) == [
                ((1 - side, p, r, i),) for p, c in enumerate(taken(side, r)) for i in range(c)
            ]

    # Both groups take as much: own pieces of `other` elements, or the other way.
    members = both(
        own,
        other,
        "reduce_scatter",
        0,
        lambda side, r: [own * other],
        lambda side, r: [sides[1 - side]] * sides[side],
        lambda side, r: elements(side * own + r, own * other),
    )
    run(members)
    for side in (0, 1):
        for r, m in enumerate(of(side)):
            first = r * sides[1 - side]
            assert result(members[m]) == [
                tuple((s, i) for s in of(1 - side)) for i in range(first, first + sides[1 - side])
            ]

    run(both(own, other, "barrier", 0, lambda s, r: [0], lambda s, r: [0], none))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 9, 16])
@pytest.mark.parametrize("size", [0, 1, 100, 5000, 300_000])
def test_what_is_chosen_works(n: int, size: int) -> None:
    """Each choice of a schedule, above and below every bound, in few elements that are wide."""
    count = min(size, 20)
    width = -(-size // count) if count else 8
    everything = [e for r in range(n) for e in elements(r, count)]
    counts = [count] * n
    for root in {0, n - 1}:
        members = [Member(choice.bcast(n, r, root, count, width), None) for r in range(n)]
        members[root].fill(OUT, elements(root, count))
        run(members)
        assert all(result(m) == elements(root, count) for m in members)
        members = [
            Member(choice.gather(n, r, root, counts, width, True), elements(r, count))
            for r in range(n)
        ]
        run(members)
        assert result(members[root]) == everything
        members = [
            Member(choice.scatter(n, r, root, counts, width, True), everything) for r in range(n)
        ]
        run(members)
        assert all(result(m) == elements(r, count) for r, m in enumerate(members))
    for commutes in (False, True):
        members = [
            Member(choice.allreduce(n, r, count, width, commutes), elements(r, count))
            for r in range(n)
        ]
        run(members)
        for m in members:
            same(result(m), [summed(n, i) for i in range(count)], not commutes)
        members = [
            Member(choice.reduce_scatter(n, r, counts, width, commutes), elements(r, count * n))
            for r in range(n)
        ]
        run(members)
        for r, m in enumerate(members):
            expected = [summed(n, i) for i in range(r * count, r * count + count)]
            same(result(m), expected, not commutes)
    for even in (False, True):
        members = [
            Member(choice.allgather(n, r, counts, width, even), elements(r, count))
            for r in range(n)
        ]
        run(members)
        assert all(result(m) == everything for m in members)
        members = [
            Member(choice.alltoall(n, r, counts, counts, width, even), everything) for r in range(n)
        ]
        run(members)
        for r, m in enumerate(members):
            assert result(m) == elements(r, count) * n


def test_a_deadlock_would_be_seen() -> None:
    """Two members that both receive before they send."""
    rounds = [[(RECEIVE, 1, (OUT, 0, 1), (0, 0, 0), (0, 0, 0))]]
    other = [[(RECEIVE, 0, (OUT, 0, 1), (0, 0, 0), (0, 0, 0))]]
    members = [Member((rounds, {OUT: [1]}), None), Member((other, {OUT: [1]}), None)]
    with pytest.raises(AssertionError, match="deadlock"):
        run(members)
