"""The collectives that return a request, as users call them: they go on beside the program."""

from __future__ import annotations

from acp_mpi.comm.collectives import kinds
from acp_mpi.comm.collectives.request import CollectiveRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, SupportsIndex


def ibarrier(*, ranks: Any = None, group: Any = None, between: Any = None) -> CollectiveRequest:
    """Start a barrier; the request is done when all have called it."""
    return CollectiveRequest(kinds.barrier("ibarrier", (ranks, group, between)))


def ibcast(
    x: Any,
    root: SupportsIndex | None = None,
    *,
    out: Any = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `bcast`; the request's `wait` returns what it does."""
    return CollectiveRequest(kinds.bcast("ibcast", x, root, out, (ranks, group, between)))


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
) -> CollectiveRequest:
    """Start `reduce`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.reduce("ireduce", x, op, root, out, commutative, (ranks, group, between))
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
        kinds.fold("allreduce", "iallreduce", x, op, out, commutative, (ranks, group, between))
    )


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
        kinds.fold("scan", "iscan", x, op, out, commutative, (ranks, group, between))
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
        kinds.fold("exscan", "iexscan", x, op, out, commutative, (ranks, group, between))
    )


def igather(
    x: Any,
    root: SupportsIndex | None = None,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `gather`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.rooted("gather", "igather", x, root, out, counts, (ranks, group, between))
    )


def iscatter(
    x: Any,
    root: SupportsIndex | None = None,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `scatter`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.rooted("scatter", "iscatter", x, root, out, counts, (ranks, group, between))
    )


def iallgather(
    x: Any,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `allgather`; the request's `wait` returns what it does."""
    return CollectiveRequest(kinds.allgather("iallgather", x, out, counts, (ranks, group, between)))


def ialltoall(
    x: Any,
    *,
    out: Any = None,
    counts: Sequence[SupportsIndex] | None = None,
    out_counts: Sequence[SupportsIndex] | None = None,
    ranks: Any = None,
    group: Any = None,
    between: Any = None,
) -> CollectiveRequest:
    """Start `alltoall`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.alltoall("ialltoall", x, out, counts, out_counts, (ranks, group, between))
    )


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
) -> CollectiveRequest:
    """Start `reduce_scatter`; the request's `wait` returns what it does."""
    return CollectiveRequest(
        kinds.reduce_scatter(
            "ireduce_scatter", x, op, out, counts, commutative, (ranks, group, between)
        )
    )
