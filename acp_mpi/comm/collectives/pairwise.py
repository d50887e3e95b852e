"""Each member with each other one, and one with all: every byte goes straight to its place."""

from __future__ import annotations

from acp_mpi.comm.collectives.schedule import (
    IN,
    OUT,
    TMP,
    copy,
    fold,
    place,
    receive,
    send,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from acp_mpi.comm.collectives.schedule import Place, Rounds

TOGETHER = 8  # messages each way under way at a time


def _exchanged(n: int, r: int, into: int, given: Sequence[Place]) -> Rounds:
    """Bring `given[i]` to each other member i, to the place of the sender there."""
    return [
        [
            *(receive((r - d) % n, place(into, (r - d) % n)) for d in distances),
            *(send((r + d) % n, given[(r + d) % n]) for d in distances),
        ]
        for begin in range(1, n, TOGETHER)
        for distances in [range(begin, min(begin + TOGETHER, n))]
    ]


def alltoall(n: int, r: int) -> Rounds:
    """Bring piece i of IN to member i's OUT, at the sender's place; of any lengths."""
    pieces = [place(IN, i) for i in range(n)]
    return [[copy(place(OUT, r), pieces[r])], *_exchanged(n, r, OUT, pieces)]


def allgather(n: int, r: int) -> Rounds:
    """Bring IN of each member to its piece of OUT of all; of any lengths."""
    return [[copy(place(OUT, r), place(IN))], *_exchanged(n, r, OUT, [place(IN)] * n)]


def reduce_scatter(n: int, r: int) -> Rounds:
    """Fold piece r of IN of all, in the order of the members, into OUT."""
    if n == 1:
        return [[copy(place(OUT), place(IN))]]
    rounds = _exchanged(n, r, TMP, [place(IN, i) for i in range(n)])
    those = [place(IN, r) if i == r else place(TMP, i) for i in range(n)]
    so_far = those[0]
    for each in those[1:]:
        rounds[-1].append(fold(place(OUT), so_far, each))
        so_far = place(OUT)
    return rounds


def reduce_scatter_frugal(n: int, r: int) -> Rounds:
    """Do the same one member at a time, with room for one piece. It must commute."""
    rounds: Rounds = []
    have = place(IN, r)
    for d in range(1, n):
        rounds.append(
            [
                receive((r - d) % n, place(TMP)),
                send((r + d) % n, place(IN, (r + d) % n)),
                fold(place(OUT), have, place(TMP)),
            ]
        )
        have = place(OUT)
    return rounds or [[copy(place(OUT), have)]]


def gather(n: int, r: int, root: int) -> Rounds:
    """Bring IN of each member to its piece of OUT of the root; of any lengths."""
    if r != root:
        return [[send(root, place(IN))]]
    return [
        [
            *(receive(i, place(OUT, i)) for i in range(n) if i != root),
            copy(place(OUT, root), place(IN)),
        ]
    ]


def scatter(n: int, r: int, root: int) -> Rounds:
    """Bring each piece of IN of the root to OUT of its member; of any lengths."""
    if r != root:
        return [[receive(root, place(OUT))]]
    return [
        [
            *(send(i, place(IN, i)) for i in range(n) if i != root),
            copy(place(OUT), place(IN, root)),
        ]
    ]
