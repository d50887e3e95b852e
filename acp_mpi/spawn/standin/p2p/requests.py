"""Requests, also persistent ones: of mpi4py, of communicators of several groups, or of both."""

from __future__ import annotations

import functools
import itertools

from acp_mpi.spawn.standin.family import MPI, Embodied, Family
from acp_mpi.spawn.standin.p2p.work import Done, Patience, Work, outcome, over, pause, wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, ClassVar, Self, TypeAlias

    _Ask: TypeAlias = Callable[[Any, Any], Any]  # what takes a request and a status


EMPTY = Done()


def body_of(request: Any) -> Any:
    """Return what a request of ours stands for, None for mpi4py's."""
    return getattr(request, "_body", None)


def any_ours(requests: Sequence[Any]) -> bool:
    """Return whether there is one that mpi4py would take for null."""
    return any(body_of(request) is not None for request in requests)


def is_ready(request: Any) -> bool:
    """Return whether it is over, well or not: the call that finishes it gets the error."""
    body = body_of(request)
    if body is not None:
        return body.work is None or over(body.work)
    try:
        return bool(MPI.Request.Get_status(request))
    except MPI.Exception:  # MPICH says here already that it has failed
        return True


def _all_ready(requests: Sequence[Any]) -> bool:
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


def _each(ask: _Ask, requests: Sequence[Any], statuses: list[Any] | None) -> list[Any]:
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


def _everyone(ask: _Ask, requests: Sequence[Any], statuses: list[Any] | None) -> list[Any]:
    """Wait for all: first for ours, which would not go on while this process waits in MPI."""
    left = [request for request in requests if body_of(request) is not None]
    if len(left) < len(requests):
        patience = Patience(mpi=True)
        while left := [request for request in left if not is_ready(request)]:
            pause(_pending(left), patience)
    return _each(ask, requests, statuses)


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


def _one(ask: _Ask, requests: Sequence[Any], status: Any, wait: bool) -> Any:
    """Return which is over, whether one is or there is none to wait for, and what it says."""
    found = _until(requests, wait)
    if not found:
        if found is None:
            EMPTY.describe(status)
        return MPI.UNDEFINED, found is None, None
    return found[0], True, ask(requests[found[0]], status)


def _some(ask: _Ask, requests: Sequence[Any], statuses: list[Any] | None, wait: bool) -> Any:
    """Return which are over, None if there are none to wait for, and what they say."""
    found = _until(requests, wait)
    if found is None:
        return None, None
    return found, _each(ask, [requests[i] for i in found], statuses)


def check_status(status: Any) -> None:
    """Raise TypeError for what is not a status, before a message is received that it would lose."""
    if status is not None and not isinstance(status, MPI.Status):
        raise TypeError(f"status={status!r} is not an MPI.Status")


class Operation:
    """The operation of a request of ours, which starts again if it is persistent."""

    def __init__(self, work: Work | None, again: Callable[[], Work] | None = None) -> None:
        self.work, self.again = work, again
        self.errors: Any = None  # of its communicator: what an error calls


class Request(Embodied, MPI.Request, metaclass=Family):  # type: ignore[misc]
    """mpi4py's request, or one of a communicator of several groups."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Request
    _predefined = ("REQUEST_NULL",)

    @classmethod
    def _of(cls, work: Work | None, again: Callable[[], Work] | None = None) -> Self:
        return super()._of(Operation(work, again))

    def _reports_to(self, errors: Any) -> None:
        """Call the error handler of a communicator when it fails."""
        if self._body is not None:
            self._body.errors = errors

    # One ------------------------------------------------------------------------------------

    def _finish(self, status: Any) -> Any:
        """Wait for the end, good or bad; a request that is not persistent is null then."""
        body = self._body
        work = body.work or EMPTY
        wait_for(work)  # after Ctrl-C the program can wait for it again
        work.describe(status)
        body.work = None
        if body.again is None:
            self._body = None
        if work.error is not None and body.errors is not None:
            body.errors.failed(work.error)
        return outcome(work)

    def Wait(self, status: Any = None) -> bool:
        """Wait until it is over."""
        if body_of(self) is None:
            return bool(MPI.Request.Wait(self, status))
        self._finish(status)
        return True

    def wait(self, status: Any = None) -> Any:
        """Wait until it is over; return the object received."""
        if body_of(self) is None:
            return MPI.Request.wait(self, status)
        return self._finish(status)

    def Test(self, status: Any = None) -> bool:
        """Return whether it is over."""
        if body_of(self) is None:
            return bool(MPI.Request.Test(self, status))
        return is_ready(self) and Request.Wait(self, status)

    def test(self, status: Any = None) -> tuple[bool, Any]:
        """Return whether it is over, and the object received."""
        if body_of(self) is None:
            flag, found = MPI.Request.test(self, status)
            return flag, found
        return (True, self._finish(status)) if is_ready(self) else (False, None)

    def Get_status(self, status: Any = None) -> bool:
        """Return whether it is over, and leave it as it is."""
        body = body_of(self)
        if body is None:
            return bool(MPI.Request.Get_status(self, status))
        if not is_ready(self):
            return False
        work = body.work or EMPTY
        work.describe(status)
        outcome(work)
        return True

    get_status = Get_status

    def Cancel(self) -> None:
        """Take it back if it has met nothing yet."""
        body = body_of(self)
        if body is None:
            MPI.Request.Cancel(self)
        elif body.work is not None:
            body.work.cancel()

    cancel = Cancel

    def Free(self) -> None:
        """Let it go on by itself."""
        if body_of(self) is None:
            MPI.Request.Free(self)
        else:
            self._body = None

    def free(self) -> None:
        """Let it go on by itself, if it is not null."""
        if body_of(self) is None:
            MPI.Request.free(self)
        else:
            self._body = None

    # Several --------------------------------------------------------------------------------

    @classmethod
    def Waitall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> bool:
        """Wait until all are over."""
        if not any_ours(requests):
            return bool(MPI.Request.Waitall(requests, statuses))
        _everyone(Request.Wait, requests, statuses)
        return True

    @classmethod
    def waitall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Wait until all are over; return the objects received."""
        if not any_ours(requests):
            return MPI.Request.waitall(requests, statuses)
        return _everyone(Request.wait, requests, statuses)

    @classmethod
    def Testall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> bool:
        """Return whether all are over; if not, none is taken for it."""
        if not any_ours(requests):
            return bool(MPI.Request.Testall(requests, statuses))
        return _all_ready(requests) and cls.Waitall(requests, statuses)

    @classmethod
    def testall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return whether all are over, and the objects received."""
        if not any_ours(requests):
            return MPI.Request.testall(requests, statuses)
        ready = _all_ready(requests)
        return (True, cls.waitall(requests, statuses)) if ready else (False, None)

    @classmethod
    def Get_status_all(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> bool:
        """Return whether all are over, and leave them as they are."""
        if not any_ours(requests):
            return bool(MPI.Request.Get_status_all(requests, statuses))
        return _all_ready(requests) and all(_each(Request.Get_status, requests, statuses))

    get_status_all = Get_status_all

    @classmethod
    def Waitany(cls, requests: Sequence[Any], status: Any = None) -> int:
        """Wait until one is over; return which."""
        if not any_ours(requests):
            return int(MPI.Request.Waitany(requests, status))
        return int(_one(Request.Wait, requests, status, True)[0])

    @classmethod
    def waitany(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Wait until one is over; return which, and the object received."""
        if not any_ours(requests):
            return MPI.Request.waitany(requests, status)
        index, _, found = _one(Request.wait, requests, status, True)
        return index, found

    @classmethod
    def Testany(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Return which is over, and whether one is."""
        if not any_ours(requests):
            return MPI.Request.Testany(requests, status)
        return _one(Request.Wait, requests, status, False)[:2]

    @classmethod
    def testany(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Return which is over, whether one is, and the object received."""
        if not any_ours(requests):
            return MPI.Request.testany(requests, status)
        return _one(Request.wait, requests, status, False)

    @classmethod
    def Get_status_any(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Return which is over, and whether one is; leave it as it is."""
        if not any_ours(requests):
            return MPI.Request.Get_status_any(requests, status)
        return _one(Request.Get_status, requests, status, False)[:2]

    get_status_any = Get_status_any

    @classmethod
    def Waitsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Wait until some are over; return which."""
        if not any_ours(requests):
            return MPI.Request.Waitsome(requests, statuses)
        return _some(Request.Wait, requests, statuses, True)[0]

    @classmethod
    def waitsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Wait until some are over; return which, and the objects received."""
        if not any_ours(requests):
            return MPI.Request.waitsome(requests, statuses)
        return _some(Request.wait, requests, statuses, True)

    @classmethod
    def Testsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return which are over."""
        if not any_ours(requests):
            return MPI.Request.Testsome(requests, statuses)
        return _some(Request.Wait, requests, statuses, False)[0]

    @classmethod
    def testsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return which are over, and the objects received."""
        if not any_ours(requests):
            return MPI.Request.testsome(requests, statuses)
        return _some(Request.wait, requests, statuses, False)

    @classmethod
    def Get_status_some(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return which are over, and leave them as they are."""
        if not any_ours(requests):
            return MPI.Request.Get_status_some(requests, statuses)
        return _some(Request.Get_status, requests, statuses, False)[0]

    get_status_some = Get_status_some


class Prequest(Request, MPI.Prequest):  # type: ignore[misc]
    """mpi4py's persistent request, or one of a communicator of several groups."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Prequest

    @classmethod
    def _of(cls, again: Callable[[], Work]) -> Self:  # type: ignore[override]
        return super()._of(None, again)

    def Start(self) -> None:
        """Start the operation once more."""
        body = body_of(self)
        if body is None:
            MPI.Prequest.Start(self)
            return
        if body.work is not None:
            raise MPI.Exception(MPI.ERR_REQUEST)
        body.work = body.again()

    @classmethod
    def Startall(cls, requests: list[Any]) -> None:
        """Start all of them."""
        if not any_ours(requests):
            MPI.Prequest.Startall(requests)
            return
        for request in requests:
            Prequest.Start(request)


def _of_parts(name: str) -> Any:
    """Return a method for a request of a partitioned buffer, which none of ours has."""
    original = getattr(MPI.Prequest, name)

    @functools.wraps(original)
    def method(self: Any, *given: Any, **named: Any) -> Any:
        if body_of(self) is None:
            return original(self, *given, **named)
        error = MPI.Exception(MPI.ERR_REQUEST)
        error.add_note(
            f"{name}: the request has no partitions, as none on a communicator of several groups; "
            "start it, or make one by Psend_init or Precv_init on a communicator of one group"
        )
        raise error

    return method


for _name in ("Pready", "Pready_range", "Pready_list", "Parrived"):
    setattr(Prequest, _name, _of_parts(_name))
