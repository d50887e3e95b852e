"""The collectives as users call them: those that wait (started.py has the others).

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

from acp_mpi.comm.collectives import kinds
from acp_mpi.comm.collectives.counted import carried_out
from acp_mpi.comm.collectives.team import team_of
from acp_mpi.engine import _engine
from acp_mpi.util.overloads import overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, SupportsIndex, TypeVar, Unpack

    from acp_mpi.comm.collectives.signatures import Counted, Folded, Op, Waited
    from acp_mpi.comm.collectives.sizes import Flow

    T = TypeVar("T")  # in lists T | Any: the object of a rank, or None, of any type
    B = TypeVar("B")


def _carried_out(flow: Flow, timeout: float | None, short: tuple[Any, ...]) -> Any:
    """Carry it out; `short` is the call as `_remembered` keeps it, or ()."""
    if short:
        return _remembered(flow, *short)
    begin = 0.0 if timeout is None else time.monotonic()
    left = timeout

    def run(current: _engine.Collective) -> None:
        nonlocal left
        current.run(left)
        if timeout is not None:
            left = max(begin + timeout - time.monotonic(), 0.0)

    return carried_out(flow, run)


def _remembered(
    flow: Flow,
    function: str,
    x: Any,
    out: Any,
    op: Any = None,
    root: Any = None,
    counts: Any = None,
    out_counts: Any = None,
) -> Any:
    """Carry out what all that live call with buffers, so that the same again takes a short way."""
    team = team_of(function, None, None, None)
    current = None

    def run(collective: _engine.Collective) -> None:
        nonlocal current
        current = collective
        collective.run()

    result = carried_out(flow, run)
    if current is not None and team is team_of(function, None, None, None):
        top = function == "bcast" and team.me == team.place(root, function)
        _engine.remember(
            function, current, team.contexts, top, x, out, op, root, counts, out_counts
        )
    return result


@overload
def bcast(
    x: None,
    root: SupportsIndex | None = None,
    *,
    out: tuple[()] | None = None,
    **how: Unpack[Waited],
) -> Any: ...
@overload
def bcast(
    x: T | None,
    root: SupportsIndex | None = None,
    *,
    out: tuple[()] | None = None,
    **how: Unpack[Waited],
) -> T: ...
@overload
def bcast(x: Any, root: SupportsIndex | None = None, *, out: B, **how: Unpack[Waited]) -> B: ...
def bcast(
    x: Any,
    root: SupportsIndex | None = None,
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
    short = out is not None and ranks is group is between is timeout is None
    if short and _engine.repeat("bcast", x, out, None, root, None, None):
        return x if isinstance(out, tuple) else out
    flow = kinds.bcast("bcast", x, root, out, (ranks, group, between))
    return _carried_out(flow, timeout, ("bcast", x, out, None, root) if short else ())


@overload
def reduce(
    x: T,
    op: Op = "sum",
    root: SupportsIndex | None = None,
    *,
    out: None = None,
    **how: Unpack[Folded],
) -> T | None: ...
@overload
def reduce(
    x: Any, op: Op = "sum", root: SupportsIndex | None = None, *, out: B, **how: Unpack[Folded]
) -> B: ...
def reduce(
    x: Any,
    op: Any = "sum",
    root: SupportsIndex | None = None,
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return `x` of all ranks folded by `op` at rank `root`, None (or `out`) elsewhere."""
    short = out is not None and commutative is ranks is group is between is timeout is None
    if short and _engine.repeat("reduce", x, out, op, root, None, None):
        return out
    flow = kinds.reduce("reduce", x, op, root, out, commutative, (ranks, group, between))
    return _carried_out(flow, timeout, ("reduce", x, out, op, root) if short else ())


@overload
def allreduce(x: T, op: Op = "sum", *, out: None = None, **how: Unpack[Folded]) -> T: ...
@overload
def allreduce(x: Any, op: Op = "sum", *, out: B, **how: Unpack[Folded]) -> B: ...
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
    short = out is not None and commutative is ranks is group is between is timeout is None
    if short and _engine.repeat("allreduce", x, out, op, None, None, None):
        return out
    flow = kinds.fold("allreduce", "allreduce", x, op, out, commutative, (ranks, group, between))
    return _carried_out(flow, timeout, ("allreduce", x, out, op) if short else ())


@overload
def scan(x: T, op: Op = "sum", *, out: None = None, **how: Unpack[Folded]) -> T: ...
@overload
def scan(x: Any, op: Op = "sum", *, out: B, **how: Unpack[Folded]) -> B: ...
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
    short = out is not None and commutative is ranks is group is between is timeout is None
    if short and _engine.repeat("scan", x, out, op, None, None, None):
        return out
    flow = kinds.fold("scan", "scan", x, op, out, commutative, (ranks, group, between))
    return _carried_out(flow, timeout, ("scan", x, out, op) if short else ())


@overload
def exscan(x: T, op: Op = "sum", *, out: None = None, **how: Unpack[Folded]) -> T | None: ...
@overload
def exscan(x: Any, op: Op = "sum", *, out: B, **how: Unpack[Folded]) -> B: ...
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

    None on the first rank, where `out` stays as it is.
    """
    short = out is not None and commutative is ranks is group is between is timeout is None
    if short and _engine.repeat("exscan", x, out, op, None, None, None):
        return out
    flow = kinds.fold("exscan", "exscan", x, op, out, commutative, (ranks, group, between))
    return _carried_out(flow, timeout, ("exscan", x, out, op) if short else ())


@overload
def gather(
    x: T, root: SupportsIndex | None = None, *, out: None = None, **how: Unpack[Counted]
) -> list[T | Any] | None: ...
@overload
def gather(x: Any, root: SupportsIndex | None = None, *, out: B, **how: Unpack[Counted]) -> B: ...
def gather(
    x: Any,
    root: SupportsIndex | None = None,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return the list of `x` of all ranks at rank `root`, or fill its `out` with them.

    The list has a place for each rank, None at those that have died; with `ranks=` one for each of
    these, in their order. Rows of `out` have no gaps.

    `counts`: how many elements each rank gives, if not all alike.
    """
    short = out is not None and ranks is group is between is timeout is None
    if short and _engine.repeat("gather", x, out, None, root, counts, None):
        return out
    flow = kinds.rooted("gather", "gather", x, root, out, counts, (ranks, group, between))
    return _carried_out(flow, timeout, ("gather", x, out, None, root, counts) if short else ())


@overload
def scatter(
    x: None, root: SupportsIndex | None = None, *, out: None = None, **how: Unpack[Counted]
) -> Any: ...
@overload
def scatter(
    x: Sequence[T] | None,
    root: SupportsIndex | None = None,
    *,
    out: None = None,
    **how: Unpack[Counted],
) -> T: ...
@overload
def scatter(x: Any, root: SupportsIndex | None = None, *, out: B, **how: Unpack[Counted]) -> B: ...
def scatter(
    x: Any,
    root: SupportsIndex | None = None,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return this rank's element of the list `x` of rank `root`, or fill `out` from its array.

    `counts`: how many elements each rank gets, if not all alike.
    """
    short = out is not None and ranks is group is between is timeout is None
    if short and _engine.repeat("scatter", x, out, None, root, counts, None):
        return out
    flow = kinds.rooted("scatter", "scatter", x, root, out, counts, (ranks, group, between))
    return _carried_out(flow, timeout, ("scatter", x, out, None, root, counts) if short else ())


@overload
def allgather(x: T, *, out: None = None, **how: Unpack[Counted]) -> list[T | Any]: ...
@overload
def allgather(x: Any, *, out: B, **how: Unpack[Counted]) -> B: ...
def allgather(
    x: Any,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return the list of `x` of all ranks, or fill `out` with them.

    The list has a place for each rank, None at those that have died; with `ranks=` one for each of
    these, in their order. Rows of `out` follow `acp.ranks()`, or `ranks`.

    `counts`: how many elements each rank gives, if not all alike.
    """
    short = out is not None and ranks is group is between is timeout is None
    if short and _engine.repeat("allgather", x, out, None, None, counts, None):
        return out
    flow = kinds.allgather("allgather", x, out, counts, (ranks, group, between))
    return _carried_out(flow, timeout, ("allgather", x, out, None, None, counts) if short else ())


@overload
def alltoall(
    x: Sequence[T],
    *,
    out: None = None,
    out_counts: Sequence[SupportsIndex] | None = None,
    **how: Unpack[Counted],
) -> list[T | Any]: ...
@overload
def alltoall(
    x: Any, *, out: B, out_counts: Sequence[SupportsIndex] | None = None, **how: Unpack[Counted]
) -> B: ...
def alltoall(
    x: Any,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    out_counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return the list of what each rank has for this one in its list `x`, or fill `out` with it.

    `counts` and `out_counts`: how many elements this rank gives to each and gets from it, if not
    all alike.
    """
    short = out is not None and ranks is group is between is timeout is None
    if short and _engine.repeat("alltoall", x, out, None, None, counts, out_counts):
        return out
    flow = kinds.alltoall("alltoall", x, out, counts, out_counts, (ranks, group, between))
    return _carried_out(
        flow, timeout, ("alltoall", x, out, None, None, counts, out_counts) if short else ()
    )


@overload
def reduce_scatter(
    x: Any,
    op: Op = "sum",
    *,
    out: None = None,
    counts: Sequence[SupportsIndex] | None = None,
    **how: Unpack[Folded],
) -> Any: ...
@overload
def reduce_scatter(
    x: Any,
    op: Op = "sum",
    *,
    out: B,
    counts: Sequence[SupportsIndex] | None = None,
    **how: Unpack[Folded],
) -> B: ...
def reduce_scatter(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
    timeout: float | None = None,
) -> Any:
    """Return this rank's part of `x` of all ranks folded by `op`.

    `counts`: how many elements each rank gets, if not all alike.
    """
    short = out is not None and commutative is ranks is group is between is timeout is None
    if short and _engine.repeat("reduce_scatter", x, out, op, None, counts, None):
        return out
    flow = kinds.reduce_scatter(
        "reduce_scatter", x, op, out, counts, commutative, (ranks, group, between)
    )
    return _carried_out(
        flow, timeout, ("reduce_scatter", x, out, op, None, counts) if short else ()
    )
