"""Requests of both kinds in one list: mpi4py's, and those that have a body of ours."""

from __future__ import annotations

import itertools

from acp_mpi.spawn.standin.original import MPI
from acp_mpi.spawn.standin.p2p.work import Done, Patience, over, pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeAlias

    _Ask: TypeAlias = Callable[[Any, Any], Any]  # what takes a request and a status

EMPTY = Done()


def body_of(request: Any) -> Any:
    """Return what a request of ours stands for, None for mpi4py's."""
    return getattr(request, "_body", None)


def any_ours(requests: Sequence[Any]) -> bool:
    """Return whether there is one that mpi4py would take for null."""
    return any(body_of(request) is not None for request in requests)


def is_ready(request: Any) -> bool:
    """Return whether it is over, well or not: who finishes it hears of that."""
    body = body_of(request)
    if body is not None:
        return body.work is None or over(body.work)
    try:
        return bool(MPI.Request.Get_status(request))
    except MPI.Exception:  # MPICH says here already that it has failed
        return True


def all_ready(requests: Sequence[Any]) -> bool:
    """Return whether all are over."""
    ready = [is_ready(request) for request in requests]  # all of them go on
    return all(ready)


def _is_idle(request: Any) -> bool:
    """Return whether there is nothing to wait for."""
    body = body_of(request)
    return request == MPI.REQUEST_NULL if body is None else body.work is None


def _pending(requests: Sequence[Any]) -> Iterator[Any]:
    bodies = [body for body in map(body_of, requests) if body is not None and body.work]
    return itertools.chain.from_iterable(body.work.pending() for body in bodies)


def _statuses(statuses: Any, count: int) -> list[Any]:
    """Return one status, or None, for each; the caller's list grows if it is too short."""
    if statuses is None:
        return [None] * count
    if isinstance(statuses, list):
        statuses.extend(MPI.Status() for _ in range(count - len(statuses)))
    return [*statuses, *[None] * (count - len(statuses))]


def each(ask: _Ask, requests: Sequence[Any], statuses: list[Any] | None) -> list[Any]:
    """Return what each says; of several errors the first, when all have been asked."""
    found, errors = [], []
    for request, status in zip(requests, _statuses(statuses, len(requests)), strict=False):
        try:
            found.append(ask(request, status))
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return found


def everyone(ask: _Ask, requests: Sequence[Any], statuses: list[Any] | None) -> list[Any]:
    """Wait for all: first for ours, which would not go on while this process waits in MPI."""
    left = [request for request in requests if body_of(request) is not None]
    if len(left) < len(requests):
        patience = Patience(mpi=True)
        while left := [request for request in left if not is_ready(request)]:
            pause(_pending(left), patience)
    return each(ask, requests, statuses)


def _until(requests: Sequence[Any], wait: bool) -> list[int] | None:
    """Return which are over: None if there are none to wait for."""
    active = [i for i, request in enumerate(requests) if not _is_idle(request)]
    if not active:
        return None
    patience = Patience(mpi=any(body_of(requests[i]) is None for i in active))
    while True:
        found = [i for i in active if is_ready(requests[i])]
        if found or not wait:
            return found
        pause(_pending(requests), patience)


def one(ask: _Ask, requests: Sequence[Any], status: Any, wait: bool) -> Any:
    """Return which is over, whether one is or there is none to wait for, and what it says."""
    found = _until(requests, wait)
    if not found:
        if found is None:
            EMPTY.describe(status)
        return MPI.UNDEFINED, found is None, None
    return found[0], True, ask(requests[found[0]], status)


def some(ask: _Ask, requests: Sequence[Any], statuses: list[Any] | None, wait: bool) -> Any:
    """Return which are over, None if there are none to wait for, and what they say."""
    found = _until(requests, wait)
    if found is None:
        return None, None
    return found, each(ask, [requests[i] for i in found], statuses)
