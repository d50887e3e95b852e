"""Several requests at once, of messages and of whatever else is made of messages."""

from __future__ import annotations

import contextlib
import time

from acp_mpi.comm.collectives.request import CollectiveRequest
from acp_mpi.engine import _engine
from acp_mpi.engine._engine import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeVar

    T = TypeVar("T")


def _listed(requests: Iterable[Request[T]], function: str) -> list[Request[T]]:
    if isinstance(requests, Request):
        raise TypeError(f"{function}: one Request is not a list of them; its wait() waits for one")
    try:
        listed = list(requests)
    except TypeError:
        raise TypeError(
            f"{function}: {requests!r:.60} is not a list of requests; isend, irecv and the like "
            "return them"
        ) from None
    for request in listed:
        if not isinstance(request, Request):
            raise TypeError(
                f"{function}: {request!r:.60} is not a Request; isend, irecv and the like return "
                "them"
            )
    return listed


def _left(end: float | None) -> float | None:
    return None if end is None else max(end - time.monotonic(), 0.0)


def _end(timeout: float | None, function: str) -> float | None:
    seconds = _engine.seconds_of(timeout, function)
    return None if seconds is None else time.monotonic() + seconds


def waitall(requests: Iterable[Request[T]], timeout: float | None = None) -> list[T]:
    """Wait until all are done; return what their `wait` returns, in order.

    Waits for all, also if some fail; raises the first error then, the others are its notes.
    TimeoutError after `timeout` seconds: those that are not done go on. So they do after what a
    signal handler raises.
    """
    end = _end(timeout, "waitall")
    results: list[T] = []
    errors: list[Exception] = []
    for request in _listed(requests, "waitall"):
        try:
            results.append(request.wait(_left(end)))
        except Exception as error:
            if not request.claimed:  # it is not an error of the request, which goes on
                raise
            errors.append(error)
    if errors:
        first, *others = errors
        for other in others:
            first.add_note(f"and {type(other).__name__}: {other}")
        raise first
    return results


def waitany(requests: Iterable[Request[T]], timeout: float | None = None) -> tuple[int, T]:
    """Wait until one is done with a result not taken yet; return its index and that result.

    Raises the error of that one, ValueError if there is none left, TimeoutError after `timeout`
    seconds.
    """
    listed = _listed(requests, "waitany")
    end = _end(timeout, "waitany")
    if not listed:
        raise ValueError("waitany: there are no requests; give at least one")
    while True:
        waiting = [(i, request) for i, request in enumerate(listed) if not request.claimed]
        if not waiting:
            raise ValueError(
                f"waitany: the results of all {len(listed)} requests have been taken; "
                "call it as often as there are requests"
            )
        for i, request in waiting:
            if request.done:
                return i, request.wait()
        with contextlib.ExitStack() as stack:
            parts = [part for _, request in waiting for part in request.parts()]
            if any(request.done for _, request in waiting):  # another thread has ended it meanwhile
                continue
            collectives = [
                stack.enter_context(request.held())
                for _, request in waiting
                if isinstance(request, CollectiveRequest)
            ]
            held = [one for one in collectives if one is not None]
            if parts or held:
                _engine.wait_any("waitany", parts, held, _left(end))
                continue
        index, request = waiting[0]  # another thread is about to end it
        return index, request.wait(_left(end))


def testall(requests: Iterable[Request[Any]]) -> bool:
    """Return whether all are done, without waiting; raises the first error then."""
    listed = _listed(requests, "testall")
    if not all(request.done for request in listed):
        return False
    waitall(listed)
    return True
