"""The meaning of a call: its members, and whether objects or bytes move.

Each function returns the generator of that; `f` is the function that errors name, `who` are the
keywords `ranks`, `group` and `between`.
"""

from __future__ import annotations

from acp_mpi.comm.collectives import folds, moves, objects
from acp_mpi.comm.collectives.buffers import is_array
from acp_mpi.comm.collectives.counted import counted
from acp_mpi.comm.collectives.operations import operation_of
from acp_mpi.comm.collectives.team import team_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from acp_mpi.comm.collectives.sizes import Flow


def barrier(f: str, who: Any) -> Flow:
    """Meet."""
    team = team_of(f, *who)
    return counted(f, team, lambda context: moves.barrier(f, team, context))


def bcast(f: str, x: Any, root: Any, out: Any, who: Any) -> Flow:
    """Give the object of the root, or the bytes of its buffer, to all."""
    team = team_of(f, *who)

    def of(context: int) -> Flow:
        if out is None:
            return objects.bcast(f, team, context, x, root)
        return moves.bcast(f, team, x, root, out, context)

    return counted(f, team, of)


def reduce(f: str, x: Any, op: Any, root: Any, out: Any, commutative: Any, who: Any) -> Flow:
    """Fold at the root."""
    team = team_of(f, *who)

    def of(context: int) -> Flow:
        operation = operation_of(op, f, commutative)
        if out is None and not is_array(x):
            return objects.reduce(f, team, context, x, operation, root)
        return folds.reduce(f, team, context, x, operation, root, out)

    return counted(f, team, of)


def fold(kind: str, f: str, x: Any, op: Any, out: Any, commutative: Any, who: Any) -> Flow:
    """Fold on all: allreduce, scan and exscan."""
    team = team_of(f, *who)

    def of(context: int) -> Flow:
        operation = operation_of(op, f, commutative)
        if team.other and kind in ("scan", "exscan"):
            raise ValueError(f"{f}: between two groups there is no order; give ranks=")
        if out is None and not is_array(x):
            flow: Flow = getattr(objects, kind)(f, team, context, x, operation)
            return flow
        flow = getattr(folds, kind)(f, team, context, x, operation, out)
        return flow

    return counted(f, team, of)


def reduce_scatter(
    f: str, x: Any, op: Any, out: Any, counts: Any, commutative: Any, who: Any
) -> Flow:
    """Fold, and give each a part."""
    team = team_of(f, *who)

    def of(context: int) -> Flow:
        operation = operation_of(op, f, commutative)
        if out is None and not is_array(x):
            return objects.reduce_scatter(f, team, context, x, operation)
        return folds.reduce_scatter(f, team, context, x, operation, out, counts)

    return counted(f, team, of)


def rooted(kind: str, f: str, x: Any, root: Any, out: Any, counts: Any, who: Any) -> Flow:
    """Bring together at the root, or deal out from it: gather and scatter."""
    team = team_of(f, *who)

    def of(context: int) -> Flow:
        flow: Flow
        if out is None:
            flow = getattr(objects, kind)(f, team, context, x, root)
        else:
            flow = getattr(moves, kind)(f, team, x, root, out, counts, context)
        return flow

    return counted(f, team, of)


def allgather(f: str, x: Any, out: Any, counts: Any, who: Any) -> Flow:
    """Bring together on all."""
    team = team_of(f, *who)

    def of(context: int) -> Flow:
        if out is None:
            return objects.allgather(f, team, context, x)
        return moves.allgather(f, team, x, out, counts, context)

    return counted(f, team, of)


def alltoall(f: str, x: Any, out: Any, counts: Any, out_counts: Any, who: Any) -> Flow:
    """Bring from all to all."""
    team = team_of(f, *who)

    def of(context: int) -> Flow:
        if out is None:
            return objects.alltoall(f, team, context, x)
        return moves.alltoall(f, team, x, out, counts, out_counts, context)

    return counted(f, team, of)
