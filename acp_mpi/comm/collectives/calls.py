"""The collectives as users call them: blocking ones, and those that return a request.

All ranks of a call call it, in the same order of calls. `ranks=` is a list of them, the caller
among them, in the order that counts for results; `group=` a group or its name; `between=` two of
either, of which each gets what the other gives. Without them: all ranks that live. Roots are ranks.

Arrays are folded element by element. What is moved is pickled, unless `out=` is given: then the
bytes of `x` move into it, on all ranks of the call, `out=()` on those that get nothing.
PeerLostError if a rank dies that is needed; TimeoutError after `timeout` seconds, which ends it on
the others, too.
"""

from __future__ import annotations

import time

from acp_mpi.comm.collectives import arrays, objects
from acp_mpi.comm.collectives.buffers import is_array
from acp_mpi.comm.collectives.operations import operation_of
from acp_mpi.comm.collectives.request import CollectiveRequest
from acp_mpi.comm.collectives.team import team_of
from acp_mpi.rma import exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import Any

    from acp_mpi.engine import _engine

    Flow = Generator[_engine.Collective, None, Any]


def _finish(flow: Flow, timeout: float | None) -> Any:
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            current = next(flow)
        except StopIteration as done:
            return done.value
        current.run(None if end is None else max(end - time.monotonic(), 0.0))


def _plain(out: Any, who: Any, timeout: Any) -> bool:
    """Return whether all that live exchange small objects: global memory is enough for that."""
    return out is None and timeout is None and who == (None, None, None)


def _bcast(f: str, x: Any, root: Any, out: Any, who: Any) -> Flow:
    team = team_of(f, *who)
    if out is None:
        return objects.bcast(f, team, x, root)
    return arrays.bcast(f, team, x, root, out)


def _reduce(f: str, x: Any, op: Any, root: Any, out: Any, commutative: Any, who: Any) -> Flow:
    team, operation = team_of(f, *who), operation_of(op, f, commutative)
    if out is None and not is_array(x):
        return objects.reduce(f, team, x, operation, root)
    return arrays.reduce(f, team, x, operation, root, out)


def _fold(kind: str, f: str, x: Any, op: Any, out: Any, commutative: Any, who: Any) -> Flow:
    team, operation = team_of(f, *who), operation_of(op, f, commutative)
    if team.other and kind in ("scan", "exscan"):
        raise ValueError(f"{f}: between two groups there is no order; give ranks=")
    if out is None and not is_array(x):
        flow: Flow = getattr(objects, kind)(f, team, x, operation)
        return flow
    flow = getattr(arrays, kind)(f, team, x, operation, out)
    return flow


def _reduce_scatter(
    f: str, x: Any, op: Any, out: Any, counts: Any, commutative: Any, who: Any
) -> Flow:
    team, operation = team_of(f, *who), operation_of(op, f, commutative)
    if out is None and not is_array(x):
        return objects.reduce_scatter(f, team, x, operation)
    return arrays.reduce_scatter(f, team, x, operation, out, counts)


def _rooted(kind: str, f: str, x: Any, root: Any, out: Any, counts: Any, who: Any) -> Flow:
    team = team_of(f, *who)
    flow: Flow
    if out is None:
        flow = getattr(objects, kind)(f, team, x, root)
    else:
        flow = getattr(arrays, kind)(f, team, x, root, out, counts)
    return flow


def _allgather(f: str, x: Any, out: Any, counts: Any, who: Any) -> Flow:
    team = team_of(f, *who)
    if out is None:
        return objects.allgather(f, team, x)
    return arrays.allgather(f, team, x, out, counts)


def _alltoall(f: str, x: Any, out: Any, counts: Any, out_counts: Any, who: Any) -> Flow:
    team = team_of(f, *who)
    if out is None:
        return objects.alltoall(f, team, x)
    return arrays.alltoall(f, team, x, out, counts, out_counts)


def ibarrier(*, ranks: Any = None, group: Any = None, between: Any = None) -> CollectiveRequest:
    """Start a barrier; the request is done when all have called it."""
    team = team_of("ibarrier", ranks, group, between)
    return CollectiveRequest(arrays.barrier("ibarrier", team))


def bcast(
    x: Any,
    root: int | None = None,
    *,
    out: Any = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return `x` of rank `root` on all ranks, or fill `out` with it.

    Default root: the first rank. With `out=` the root gives `x`, and `out=()` or a copy's place.
    """
    if _plain(out, (ranks, group, between), timeout):
        return exchange.bcast(x, 0 if root is None else root)
    return _finish(_bcast("bcast", x, root, out, (ranks, group, between)), timeout)


def ibcast(
    x: Any,
    root: int | None = None,
    *,
    out: Any = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `bcast`; the request's `wait` returns what it does."""
    return CollectiveRequest(_bcast("ibcast", x, root, out, (ranks, group, between)))


def reduce(
    x: Any,
    op: Any = "sum",
    root: int | None = None,
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return `x` of all ranks folded by `op` at rank `root`, None (or `out`) elsewhere."""
    return _finish(
        _reduce("reduce", x, op, root, out, commutative, (ranks, group, between)), timeout
    )


def ireduce(
    x: Any,
    op: Any = "sum",
    root: int | None = None,
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `reduce`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        _reduce("ireduce", x, op, root, out, commutative, (ranks, group, between))
    )


def allreduce(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return `x` of all ranks folded by `op`, the same bits on all ranks.

    `op`: sum prod min max and or xor land lor lxor, a NumPy ufunc, an MPI.Op, or a function of two
    arguments, which is called on the whole and in the order of the ranks unless it is `commutative`
    and works element by element.
    """
    return _finish(
        _fold("allreduce", "allreduce", x, op, out, commutative, (ranks, group, between)), timeout
    )


def iallreduce(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `allreduce`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        _fold("allreduce", "iallreduce", x, op, out, commutative, (ranks, group, between))
    )


def scan(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return `x` of the ranks up to this one folded by `op`."""
    return _finish(_fold("scan", "scan", x, op, out, commutative, (ranks, group, between)), timeout)


def iscan(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `scan`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        _fold("scan", "iscan", x, op, out, commutative, (ranks, group, between))
    )


def exscan(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return `x` of the ranks before this one folded by `op`.

    None on the first, whose `out` stays as it is.
    """
    return _finish(
        _fold("exscan", "exscan", x, op, out, commutative, (ranks, group, between)), timeout
    )


def iexscan(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `exscan`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        _fold("exscan", "iexscan", x, op, out, commutative, (ranks, group, between))
    )


def gather(
    x: Any,
    root: int | None = None,
    *,
    out: Any = None,
    counts: Sequence[int] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return the list of `x` of all ranks at rank `root`, or fill its `out` with them.

    `counts`: how many elements each rank gives, if not all alike.
    """
    return _finish(
        _rooted("gather", "gather", x, root, out, counts, (ranks, group, between)), timeout
    )


def igather(
    x: Any,
    root: int | None = None,
    *,
    out: Any = None,
    counts: Sequence[int] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `gather`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        _rooted("gather", "igather", x, root, out, counts, (ranks, group, between))
    )


def scatter(
    x: Any,
    root: int | None = None,
    *,
    out: Any = None,
    counts: Sequence[int] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return this rank's element of the list `x` of rank `root`, or fill `out` from its array.

    `counts`: how many elements each rank gets, if not all alike.
    """
    return _finish(
        _rooted("scatter", "scatter", x, root, out, counts, (ranks, group, between)), timeout
    )


def iscatter(
    x: Any,
    root: int | None = None,
    *,
    out: Any = None,
    counts: Sequence[int] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `scatter`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        _rooted("scatter", "iscatter", x, root, out, counts, (ranks, group, between))
    )


def allgather(
    x: Any,
    *,
    out: Any = None,
    counts: Sequence[int] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return the list of `x` of all ranks, or fill `out` with them.

    `counts`: how many elements each rank gives, if not all alike.
    """
    if _plain(out, (ranks, group, between), timeout):
        return exchange.allgather(x)
    return _finish(_allgather("allgather", x, out, counts, (ranks, group, between)), timeout)


def iallgather(
    x: Any,
    *,
    out: Any = None,
    counts: Sequence[int] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `allgather`; the request's `wait` returns what it does."""
    return CollectiveRequest(_allgather("iallgather", x, out, counts, (ranks, group, between)))


def alltoall(
    x: Any,
    *,
    out: Any = None,
    counts: Sequence[int] | None = None,
    out_counts: Sequence[int] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return the list of what each rank has for this one in its list `x`, or fill `out` with it.

    `counts` and `out_counts`: how many elements this rank gives to each and gets from it, if not
    all alike.
    """
    return _finish(
        _alltoall("alltoall", x, out, counts, out_counts, (ranks, group, between)), timeout
    )


def ialltoall(
    x: Any,
    *,
    out: Any = None,
    counts: Sequence[int] | None = None,
    out_counts: Sequence[int] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `alltoall`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        _alltoall("ialltoall", x, out, counts, out_counts, (ranks, group, between))
    )


def reduce_scatter(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    counts: Sequence[int] | None = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return this rank's part of `x` of all ranks folded by `op`.

    `counts`: how many elements each rank gets, if not all alike.
    """
    return _finish(
        _reduce_scatter("reduce_scatter", x, op, out, counts, commutative, (ranks, group, between)),
        timeout,
    )


def ireduce_scatter(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    counts: Sequence[int] | None = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `reduce_scatter`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        _reduce_scatter("ireduce_scatter", x, op, out, counts, commutative, (ranks, group, between))
    )
