"""Recursive halving, then doubling (Rabenseifner): twice log n rounds, of which each moves half of
the one before. For what is long, where the operation commutes and can be done in parts."""

from __future__ import annotations

from acp_mpi.comm.collectives.doubling import Pairing
from acp_mpi.comm.collectives.schedule import OUT, TMP, fold, place, receive, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.comm.collectives.schedule import Rounds


def pieces(n: int) -> int:
    """Return in how many pieces the buffers come: the greatest power of two up to n."""
    return 1 << (n.bit_length() - 1)


def allreduce(n: int, r: int) -> Rounds:
    """Fold IN of all into OUT of all, of two members or more."""
    pairs = Pairing(n, r, pieces(n))
    rounds = list(pairs.rounds)
    if pairs.number >= 0:
        have, first, count = pairs.have, 0, pairs.size
        while count > 1:
            count //= 2
            peer = pairs.number ^ count
            kept, given = (first, first + count)
            if pairs.number & count:
                kept, given = given, kept
            mine, other = place(have, kept, count), place(TMP, kept, count)
            low, high = (other, mine) if peer < pairs.number else (mine, other)
            who = pairs.member(peer)
            rounds.append(
                [
                    send(who, place(have, given, count)),
                    receive(who, other),
                    fold(place(OUT, kept, count), low, high),
                ]
            )
            have, first = OUT, kept
        while count < pairs.size:
            peer = pairs.number ^ count
            who = pairs.member(peer)
            theirs = first ^ count
            rounds.append(
                [send(who, place(OUT, first, count)), receive(who, place(OUT, theirs, count))]
            )
            first = min(first, theirs)
            count *= 2
    return rounds + pairs.after
