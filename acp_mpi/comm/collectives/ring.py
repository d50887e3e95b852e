"""Rings: each member talks to its two neighbours only. For what is long: every byte that must move
moves once."""

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
    from acp_mpi.comm.collectives.schedule import Rounds


def _around(n: int, r: int, shift: int) -> Rounds:
    """Pass the pieces of OUT on until all have all; this member begins with piece r + shift."""
    return [
        [
            receive((r - 1) % n, place(OUT, (r + shift - s - 1) % n)),
            send((r + 1) % n, place(OUT, (r + shift - s) % n)),
        ]
        for s in range(n - 1)
    ]


def allgather(n: int, r: int) -> Rounds:
    """Bring IN of each member to its piece of OUT of all; pieces may have any length."""
    return [[copy(place(OUT, r), place(IN))], *_around(n, r, 0)]


def allreduce(n: int, r: int) -> Rounds:
    """Fold IN of all, in n pieces, into OUT of all, of two members or more. It must commute."""
    rounds: Rounds = []
    have = IN
    for s in range(n - 1):
        given, taken = (r - s - 1) % n, (r - s - 2) % n
        rounds.append(
            [
                receive((r - 1) % n, place(TMP, taken)),
                send((r + 1) % n, place(have, given)),
                fold(place(OUT, taken), place(TMP, taken), place(IN, taken)),
            ]
        )
        have = OUT
    return rounds + _around(n, r, 0)


def bcast(n: int, r: int, root: int) -> Rounds:
    """Send OUT of the root to all: a piece to each, then around."""
    mine = (r - root) % n  # pieces are counted from the root
    if mine == 0:
        rounds: Rounds = [[send((root + i) % n, place(OUT, i)) for i in range(1, n)]]
    else:
        rounds = [[receive(root, place(OUT, mine))]]
    for s in range(n - 1):
        steps = []
        taken, given = (mine - s - 1) % n, (mine - s) % n
        if mine:
            steps.append(receive((r - 1) % n, place(OUT, taken)))
        if (mine + 1) % n:
            steps.append(send((r + 1) % n, place(OUT, given)))
        rounds.append(steps)
    return rounds


def chain(n: int, r: int, root: int, pieces: int) -> Rounds:
    """Send OUT of the root from member to member, piece after piece."""
    v = (r - root) % n
    rounds: Rounds = []
    for s in range(pieces + 1):
        steps = []
        if v and s < pieces:
            steps.append(receive((r - 1) % n, place(OUT, s)))
        if v + 1 < n and s:
            steps.append(send((r + 1) % n, place(OUT, s - 1)))
        rounds.append(steps)
    return rounds
