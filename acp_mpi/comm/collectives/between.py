"""Collectives between two groups: what one gives the other gets, as with MPI's intercommunicators.

Members are those of the caller's group, 0 to own - 1, then those of the other, `own` and up; both
sides see themselves first. Each group folds or gathers at its first member, and the first members
talk to each other. `r` is among the own group; `root` is a member of either.
"""

from __future__ import annotations

from acp_mpi.comm.collectives import pairwise, tree
from acp_mpi.comm.collectives.schedule import (
    IN,
    OUT,
    PART,
    SUM,
    TMP,
    among,
    place,
    receive,
    send,
    with_buffers,
    without_bytes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.comm.collectives.schedule import Rounds


def bcast(own: int, other: int, r: int, root: int) -> Rounds:
    """Send OUT of the root to the group that it is not in."""
    if root == r:
        return among([r, *range(own, own + other)], tree.bcast(other + 1, 0, 0))
    if root < own:
        return []
    return among([root, *range(own)], tree.bcast(own + 1, r + 1, 0))


def scatter(own: int, other: int, r: int, root: int) -> Rounds:
    """Bring each piece of IN of the root to OUT of the member of the other group."""
    if root == r:
        return [[send(own + i, place(IN, i)) for i in range(other)]]
    return [] if root < own else [[receive(root, place(OUT))]]


def gather(own: int, other: int, r: int, root: int) -> Rounds:
    """Bring IN of each member of the group that the root is not in to its piece of OUT there."""
    if root == r:
        return [[receive(own + i, place(OUT, i)) for i in range(other)]]
    return [] if root < own else [[send(root, place(IN))]]


def reduce(own: int, other: int, r: int, root: int) -> Rounds:
    """Fold IN of the group that the root is not in, in its order, into OUT of the root."""
    if root == r:
        return [[receive(own, place(OUT))]]
    if root < own:
        return []
    rounds = with_buffers({OUT: SUM}, tree.reduce(own, r, 0, False))
    return rounds if r else [*rounds, [send(root, place(SUM))]]


def allreduce(own: int, other: int, r: int) -> Rounds:
    """Fold IN of each group, in its order, into OUT of all of the other."""
    rounds = with_buffers({OUT: SUM}, tree.reduce(own, r, 0, False))
    if r == 0:
        rounds.append([receive(own, place(OUT)), send(own, place(SUM))])
    return rounds + tree.bcast(own, r, 0)


def allgather(own: int, other: int, r: int) -> Rounds:
    """Bring IN of each member of the other group to its piece of OUT of all of this one."""
    rounds = with_buffers({OUT: TMP}, pairwise.gather(own, r, 0))
    if r == 0:
        rounds.append([receive(own, place(OUT, 0, other)), send(own, place(TMP, 0, own))])
    return rounds + tree.bcast(own, r, 0, other)


def alltoall(own: int, other: int, r: int) -> Rounds:
    """Bring piece i of IN to member i of the other group, to its OUT at the sender's place."""
    rounds: Rounds = []
    most = max(own, other)
    for begin in range(0, most, pairwise.TOGETHER):
        shifts = range(begin, min(begin + pairwise.TOGETHER, most))
        # Both sides pair i with j where i + j is the shift, modulo the larger group.
        peers = [p for p in ((s - r) % most for s in shifts) if p < other]
        rounds.append(
            [
                *(receive(own + p, place(OUT, p)) for p in peers),
                *(send(own + p, place(IN, p)) for p in peers),
            ]
        )
    return rounds


def reduce_scatter(own: int, other: int, r: int) -> Rounds:
    """Fold IN of the other group and bring each member of this one its piece, in OUT.

    The operands IN, SUM and PART are one piece each; the received TMP is one for each member here.
    """
    rounds = with_buffers({OUT: SUM, TMP: PART}, tree.reduce(own, r, 0, False))
    if r == 0:
        rounds.append([receive(own, place(TMP, 0, own)), send(own, place(SUM))])
    return rounds + with_buffers({IN: TMP}, pairwise.scatter(own, r, 0))


def barrier(own: int, other: int, r: int) -> Rounds:
    """Keep all members until all of both groups have come."""
    come = without_bytes(tree.reduce(own, r, 0, False))
    go = without_bytes(tree.bcast(own, r, 0))
    nothing = place(TMP, 0, 0)
    if r == 0:
        come.append([receive(own, nothing), send(own, nothing)])
    return come + go
