"""Recursive doubling: members exchange what they have with those 1, 2, 4 ... away.

Every fold is of neighbouring stretches of members, the lower one left: operations need not commute,
and all members compute the same bits.
"""

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
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.comm.collectives.schedule import Rounds


class Pairing:
    """How n members become a power of two: the first ones in pairs, of which the odd one stays.

    `number` of this member among those that stay, -1 if it does not; `rounds` before, which leave
    its share in the buffer `have`, and `after`, which give those that did not stay the result.
    """

    def __init__(self, n: int, r: int, pieces: int) -> None:
        self.size = 1 << (n.bit_length() - 1)
        self.extra = n - self.size
        self.have = IN
        self.rounds: Rounds = []
        self.after: Rounds = []
        mine, other, result = (place(b, 0, pieces) for b in (IN, TMP, OUT))
        if r >= 2 * self.extra:
            self.number = r - self.extra
        elif r % 2:
            self.number = r // 2
            self.have = OUT
            self.rounds = [[receive(r - 1, other), fold(result, other, mine)]]
            self.after = [[send(r - 1, result)]]
        else:
            self.number = -1
            self.rounds = [[send(r + 1, mine)]]
            self.after = [[receive(r + 1, result)]]

    def member(self, number: int) -> int:
        """Return which member has this number."""
        return 2 * number + 1 if number < self.extra else number + self.extra


def allreduce(n: int, r: int, pieces: int = 1) -> Rounds:
    """Fold IN of all into OUT of all."""
    if n == 1:
        return [[copy(place(OUT, 0, pieces), place(IN, 0, pieces))]]
    pairs = Pairing(n, r, pieces)
    rounds = list(pairs.rounds)
    result, other = place(OUT, 0, pieces), place(TMP, 0, pieces)
    have = place(pairs.have, 0, pieces)
    distance = 1
    while pairs.number >= 0 and distance < pairs.size:
        peer = pairs.number ^ distance
        low, high = (other, have) if peer < pairs.number else (have, other)
        who = pairs.member(peer)
        rounds.append([send(who, have), receive(who, other), fold(result, low, high)])
        have = result
        distance *= 2
    return rounds + pairs.after


def scan(n: int, r: int, exclusive: bool = False) -> Rounds:
    """Fold IN of all members up to this one, itself included or not, into OUT.

    An exclusive one leaves OUT of the first member alone.
    """
    mine, total, result, other = place(IN), place(SUM), place(OUT), place(TMP)
    rounds: Rounds = []
    so_far = None if exclusive else mine
    distance = 1
    while distance < n:
        peer = r ^ distance
        distance *= 2
        if peer >= n:
            continue
        steps = [send(peer, mine), receive(peer, other)]
        behind = mine
        if distance < n:  # first: IN and OUT may be the same memory
            low, high = (other, mine) if peer < r else (mine, other)
            steps.append(fold(total, low, high))
            behind = total
        if peer < r:
            steps.append(copy(result, other) if so_far is None else fold(result, other, so_far))
            so_far = result
        mine = behind
        rounds.append(steps)
    if so_far == place(IN):
        rounds.append([copy(result, place(IN))])
    return rounds


def barrier(n: int, r: int) -> Rounds:
    """Keep all members until all have come: words without bytes to those 1, 2, 4 ... ahead."""
    rounds: Rounds = []
    distance = 1
    while distance < n:
        rounds.append(
            [
                receive((r - distance) % n, place(TMP, 0, 0)),
                send((r + distance) % n, place(TMP, 0, 0)),
            ]
        )
        distance *= 2
    return rounds
