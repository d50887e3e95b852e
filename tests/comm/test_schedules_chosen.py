"""What is chosen for each number of members and size, played on paper; and between two groups."""

from typing import Any

import pytest
from paper import Member, elements, result, run, same, summed

from acp_mpi.comm.collectives import choice
from acp_mpi.comm.collectives.schedule import OUT, RECEIVE

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
