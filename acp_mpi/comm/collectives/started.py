"""The collectives that return a request, as users call them: they go on beside the program."""

from __future__ import annotations

from acp_mpi.comm.collectives import kinds
from acp_mpi.comm.collectives.request import CollectiveRequest
from acp_mpi.util.overloads import overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, SupportsIndex, TypeVar, Unpack

    from acp_mpi.comm.collectives.signatures import Begun, CountedBegun, FoldedBegun, Op
    from acp_mpi.engine._engine import Request

    T = TypeVar("T")
    B = TypeVar("B")


def ibarrier(*, ranks: Any = None, group: Any = None, between: Any = None) -> Request[None]:
    """Start a barrier; the request is done when all have called it."""
    return CollectiveRequest(kinds.barrier("ibarrier", (ranks, group, between)))


@overload
def ibcast(
    x: None,
    root: SupportsIndex | None = None,
    *,
    out: tuple[()] | None = None,
    **how: Unpack[Begun],
) -> Request[Any]: ...
@overload
def ibcast(
    x: T | None,
    root: SupportsIndex | None = None,
    *,
    out: tuple[()] | None = None,
    **how: Unpack[Begun],
) -> Request[T]: ...
@overload
def ibcast(
    x: Any, root: SupportsIndex | None = None, *, out: B, **how: Unpack[Begun]
) -> Request[B]: ...
def ibcast(
    x: Any,
    root: SupportsIndex | None = None,
    *,
    out: Any = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> Request[Any]:
    """Start `bcast`; the request's `wait` returns what it does."""
    return CollectiveRequest(kinds.bcast("ibcast", x, root, out, (ranks, group, between)))


@overload
def ireduce(
    x: T,
    op: Op = "sum",
    root: SupportsIndex | None = None,
    *,
    out: None = None,
    **how: Unpack[FoldedBegun],
) -> Request[T | None]: ...
@overload
def ireduce(
    x: Any, op: Op = "sum", root: SupportsIndex | None = None, *, out: B, **how: Unpack[FoldedBegun]
) -> Request[B]: ...
def ireduce(
    x: Any,
    op: Any = "sum",
    root: SupportsIndex | None = None,
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> Request[Any]:
    """Start `reduce`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.reduce("ireduce", x, op, root, out, commutative, (ranks, group, between))
    )


@overload
def iallreduce(
    x: T, op: Op = "sum", *, out: None = None, **how: Unpack[FoldedBegun]
) -> Request[T]: ...
@overload
def iallreduce(x: Any, op: Op = "sum", *, out: B, **how: Unpack[FoldedBegun]) -> Request[B]: ...
def iallreduce(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> Request[Any]:
    """Start `allreduce`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.fold("allreduce", "iallreduce", x, op, out, commutative, (ranks, group, between))
    )


@overload
def iscan(x: T, op: Op = "sum", *, out: None = None, **how: Unpack[FoldedBegun]) -> Request[T]: ...
@overload
def iscan(x: Any, op: Op = "sum", *, out: B, **how: Unpack[FoldedBegun]) -> Request[B]: ...
def iscan(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> Request[Any]:
    """Start `scan`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.fold("scan", "iscan", x, op, out, commutative, (ranks, group, between))
    )


@overload
def iexscan(
    x: T, op: Op = "sum", *, out: None = None, **how: Unpack[FoldedBegun]
) -> Request[T | None]: ...
@overload
def iexscan(x: Any, op: Op = "sum", *, out: B, **how: Unpack[FoldedBegun]) -> Request[B]: ...
def iexscan(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> Request[Any]:
    """Start `exscan`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.fold("exscan", "iexscan", x, op, out, commutative, (ranks, group, between))
    )


@overload
def igather(
    x: T, root: SupportsIndex | None = None, *, out: None = None, **how: Unpack[CountedBegun]
) -> Request[list[T | Any] | None]: ...
@overload
def igather(
    x: Any, root: SupportsIndex | None = None, *, out: B, **how: Unpack[CountedBegun]
) -> Request[B]: ...
def igather(
    x: Any,
    root: SupportsIndex | None = None,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> Request[Any]:
    """Start `gather`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.rooted("gather", "igather", x, root, out, counts, (ranks, group, between))
    )


@overload
def iscatter(
    x: None, root: SupportsIndex | None = None, *, out: None = None, **how: Unpack[CountedBegun]
) -> Request[Any]: ...
@overload
def iscatter(
    x: Sequence[T] | None,
    root: SupportsIndex | None = None,
    *,
    out: None = None,
    **how: Unpack[CountedBegun],
) -> Request[T]: ...
@overload
def iscatter(
    x: Any, root: SupportsIndex | None = None, *, out: B, **how: Unpack[CountedBegun]
) -> Request[B]: ...
def iscatter(
    x: Any,
    root: SupportsIndex | None = None,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> Request[Any]:
    """Start `scatter`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.rooted("scatter", "iscatter", x, root, out, counts, (ranks, group, between))
    )


@overload
def iallgather(
    x: T, *, out: None = None, **how: Unpack[CountedBegun]
) -> Request[list[T | Any]]: ...
@overload
def iallgather(x: Any, *, out: B, **how: Unpack[CountedBegun]) -> Request[B]: ...
def iallgather(
    x: Any,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> Request[Any]:
    """Start `allgather`; the request's `wait` returns what it does."""
    return CollectiveRequest(kinds.allgather("iallgather", x, out, counts, (ranks, group, between)))


@overload
def ialltoall(
    x: Sequence[T],
    *,
    out: None = None,
    out_counts: Sequence[SupportsIndex] | None = None,
    **how: Unpack[CountedBegun],
) -> Request[list[T | Any]]: ...
@overload
def ialltoall(
    x: Any,
    *,
    out: B,
    out_counts: Sequence[SupportsIndex] | None = None,
    **how: Unpack[CountedBegun],
) -> Request[B]: ...
def ialltoall(
    x: Any,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    out_counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> Request[Any]:
    """Start `alltoall`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.alltoall("ialltoall", x, out, counts, out_counts, (ranks, group, between))
    )


@overload
def ireduce_scatter(
    x: Any,
    op: Op = "sum",
    *,
    out: None = None,
    counts: Sequence[SupportsIndex] | None = None,
    **how: Unpack[FoldedBegun],
) -> Request[Any]: ...
@overload
def ireduce_scatter(
    x: Any,
    op: Op = "sum",
    *,
    out: B,
    counts: Sequence[SupportsIndex] | None = None,
    **how: Unpack[FoldedBegun],
) -> Request[B]: ...
def ireduce_scatter(
    x: Any,
    op: Any = "sum",
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    commutative: bool | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> Request[Any]:
    """Start `reduce_scatter`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.reduce_scatter(
            "ireduce_scatter", x, op, out, counts, commutative, (ranks, group, between)
        )
    )
