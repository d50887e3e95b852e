"""Bruck's: log n rounds for any number of members, at the price of copies. For what is short."""

from __future__ import annotations

from acp_mpi.comm.collectives.schedule import (
    IN,
    OUT,
    SUM,
    TMP,
    copy,
    place,
    receive,
    send,
    spans,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.comm.collectives.schedule import Rounds


def allgather(n: int, r: int) -> Rounds:
    """Bring IN of each member to its piece of OUT of all. All pieces have one length."""
    rounds: Rounds = [[copy(place(TMP), place(IN))]]
    have = 1
    while have < n:
        count = min(have, n - have)
        rounds.append(
            [
                receive((r + have) % n, place(TMP, have, count)),
                send((r - have) % n, place(TMP, 0, count)),
            ]
        )
        have += count
    back = []
    at = 0
    for first, count in spans(r, n, n):
        back.append(copy(place(OUT, first, count), place(TMP, at, count)))
        at += count
    rounds.append(back)
    return rounds


def alltoall(n: int, r: int) -> Rounds:
    """Bring piece i of IN to member i's OUT, at the sender's place. All have one length."""
    turned = []
    at = 0
    for first, count in spans(r, n, n):
        turned.append(copy(place(TMP, at, count), place(IN, first, count)))
        at += count
    rounds: Rounds = [turned]
    distance = 1
    while distance < n:
        those = [i for i in range(n) if i & distance]
        rounds[-1] += [copy(place(SUM, k), place(TMP, i)) for k, i in enumerate(those)]
        rounds.append(
            [
                receive((r - distance) % n, place(OUT, 0, len(those))),
                send((r + distance) % n, place(SUM, 0, len(those))),
                *(copy(place(TMP, i), place(OUT, k)) for k, i in enumerate(those)),
            ]
        )
        distance *= 2
    rounds[-1] += [copy(place(OUT, (r - i) % n), place(TMP, i)) for i in range(n)]
    return rounds
