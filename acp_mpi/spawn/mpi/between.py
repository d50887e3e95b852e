"""Collectives between the two groups of an intercommunicator, with the names of `algorithms`.

What one group gives the other has: within a group by its own collectives, across by the ranks 0.
`root` is ROOT, PROC_NULL, or a rank of the other group, as in MPI.
"""

from __future__ import annotations

import pickle

from acp_mpi.spawn.mpi import algorithms
from acp_mpi.spawn.mpi.original import MPI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from acp_mpi.spawn.mpi.algorithms import Combine, Round
    from acp_mpi.spawn.mpi.work import Steps

alltoall = algorithms.alltoall


def exchange(r: Round, data: Any) -> Steps:
    """Return on all ranks of one group what rank 0 of the other gives."""
    other = None
    if r.rank == 0:
        sent, arriving = r.send(data, 0), r.receive(0)
        yield sent, arriving
        other = arriving.result
    return (yield from algorithms.bcast(r.inside(), other, 0))


def barrier(r: Round) -> Steps:
    """Return when all of both groups have come."""
    yield from algorithms.barrier(r.inside())
    yield from exchange(r, b"")


def bcast(r: Round, data: Any, root: int) -> Steps:
    """Return what `root` gives, in the other group."""
    if root == MPI.ROOT:
        yield (r.send(data, 0),)
        return None
    if root == MPI.PROC_NULL:
        return None
    if r.rank == 0:
        arriving = r.receive(root)
        yield (arriving,)
        data = arriving.result
    return (yield from algorithms.bcast(r.inside(), data, 0))


def gather(r: Round, data: Any, root: int) -> Steps:
    """Return what each of the other group gives, at `root`."""
    if root == MPI.ROOT:
        arriving = [r.receive(rank) for rank in range(len(r.peers))]
        yield arriving
        return [each.result for each in arriving]
    if root != MPI.PROC_NULL:
        yield (r.send(data, root),)
    return None


def scatter(r: Round, parts: Sequence[Any] | None, root: int) -> Steps:
    """Return the part for this rank of what `root` in the other group gives."""
    if root == MPI.ROOT:
        assert parts is not None
        yield [r.send(part, rank) for rank, part in enumerate(parts)]
    elif root != MPI.PROC_NULL:
        arriving = r.receive(root)
        yield (arriving,)
        return arriving.result
    return None


def allgather(r: Round, data: Any) -> Steps:
    """Return what each of the other group gives."""
    ours = yield from algorithms.gather(r.inside(), data, 0)
    packed = b"" if ours is None else pickle.dumps([bytes(part) for part in ours])
    return pickle.loads((yield from exchange(r, packed)))


def reduce(r: Round, data: Any, combine: Combine, root: int) -> Steps:
    """Return what all of the other group give, combined, at `root`."""
    if root == MPI.ROOT:
        arriving = r.receive(0)
        yield (arriving,)
        return arriving.result
    if root != MPI.PROC_NULL:
        found = yield from algorithms.reduce(r.inside(), data, combine, 0)
        if r.rank == 0:
            yield (r.send(found, root),)
    return None


def allreduce(r: Round, data: Any, combine: Combine) -> Steps:
    """Return what all of the other group give, combined."""
    found = yield from algorithms.reduce(r.inside(), data, combine, 0)
    return (yield from exchange(r, found))
