"""Binomial trees: log n rounds, the whole each time. For what is short."""

from __future__ import annotations

from acp_mpi.comm.collectives.schedule import (
    IN,
    OUT,
    SUM,
    TMP,
    copy,
    fold,
    place,
    receive,
    send,
    spans,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.comm.collectives.schedule import Rounds


def _children(n: int, v: int) -> tuple[int, list[int]]:
    """Return the distance to the parent of member `v` of a tree from 0, and those to its children.

    No member is n or more from the root. The largest subtree comes first.
    """
    mask = 1
    while mask < n and not v & mask:
        mask *= 2
    below = []
    child = mask // 2
    while child:
        if v + child < n:
            below.append(child)
        child //= 2
    return mask, below


def bcast(n: int, r: int, root: int, pieces: int = 1) -> Rounds:
    """Send OUT of the root to all."""
    v = (r - root) % n
    up, below = _children(n, v)
    whole = place(OUT, 0, pieces)
    return [
        [receive((r - up) % n, whole)] if v else [],
        [send((r + child) % n, whole) for child in below],
    ]


def reduce(n: int, r: int, root: int, commutes: bool, pieces: int = 1) -> Rounds:
    """Fold IN of all into OUT of the root, in the order of the members.

    If it commutes the order begins with the root; else the first member sends the root the result.
    """
    top = root if commutes else 0
    v = (r - top) % n
    up, below = _children(n, v)
    total = place(OUT if r == root else SUM, 0, pieces)
    mine, other = place(IN, 0, pieces), place(TMP, 0, pieces)
    rounds: Rounds = []
    for child in reversed(below):
        rounds.append([receive((r + child) % n, other), fold(total, mine, other)])
        mine = total
    if v:
        rounds.append([send((r - up) % n, mine)])
    elif r != root:
        rounds.append([send(root, mine)])
    elif mine != total:
        rounds.append([copy(total, mine)])
    if r == root and top != root:
        rounds.append([receive(top, place(OUT, 0, pieces))])
    return rounds


def gather(n: int, r: int, root: int) -> Rounds:
    """Bring IN of each member to its piece of OUT of the root. All pieces have one length."""
    v = (r - root) % n
    up, below = _children(n, v)
    here = TMP if v else OUT
    first = [copy(place(here, r), place(IN))] if below or not v else []
    rounds: Rounds = [first]
    for child in reversed(below):
        size = min(child, n - v - child)
        rounds.append(
            [receive((r + child) % n, place(here, *s)) for s in spans(r + child, size, n)]
        )
    if v and not below:
        rounds.append([send((r - up) % n, place(IN))])
    elif v:
        all_mine = spans(r, min(up, n - v), n)
        rounds.append([send((r - up) % n, place(TMP, *s)) for s in all_mine])
    return rounds


def scatter(n: int, r: int, root: int) -> Rounds:
    """Bring each piece of IN of the root to OUT of its member. All have one length."""
    v = (r - root) % n
    up, below = _children(n, v)
    here = TMP if v else IN
    rounds: Rounds = []
    if v and not below:
        rounds.append([receive((r - up) % n, place(OUT))])
    elif v:
        all_mine = spans(r, min(up, n - v), n)
        rounds.append([receive((r - up) % n, place(TMP, *s)) for s in all_mine])
    rounds.append(
        [
            send((r + child) % n, place(here, *s))
            for child in below
            for s in spans(r + child, min(child, n - v - child), n)
        ]
    )
    if below or not v:
        rounds.append([copy(place(OUT), place(here, r))])
    return rounds
