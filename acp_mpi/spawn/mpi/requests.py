"""Requests: mpi4py's, and those of communicators of several groups; also both in one list."""

from __future__ import annotations

import itertools

from acp_mpi.spawn.mpi.family import Embodied, Family
from acp_mpi.spawn.mpi.original import MPI
from acp_mpi.spawn.mpi.work import Done, Patience, Work, finish, over, pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, ClassVar, Self

_EMPTY = Done()


def body_of(request: Any) -> Any:
    """Return what a request of ours stands for, None for mpi4py's."""
    return getattr(request, "_body", None)


def _idle(request: Any) -> bool:
    """Return whether there is nothing to wait for."""
    body = body_of(request)
    return request == MPI.REQUEST_NULL if body is None else body.work is None


def _ready(request: Any) -> bool:
    body = body_of(request)
    if body is None:
        return bool(MPI.Request.Get_status(request))
    return body.work is None or over(body.work)


def _pending(requests: Sequence[Any]) -> Iterator[Any]:
    bodies = [body for body in map(body_of, requests) if body is not None and body.work]
    return itertools.chain.from_iterable(body.work.pending() for body in bodies)


def _statuses(statuses: list[Any] | None, count: int) -> list[Any]:
    """Return one status for each; the caller's list grows if it is too short."""
    if statuses is None:
        return [None] * count
    statuses.extend(MPI.Status() for _ in range(count - len(statuses)))
    return statuses


class Operation:
    """What a request of ours stands for: an operation, which starts again if it is persistent."""

    def __init__(self, work: Work | None, again: Callable[[], Work] | None = None) -> None:
        self.work, self.again = work, again


class Request(Embodied, MPI.Request, metaclass=Family):  # type: ignore[misc]
    """mpi4py's request, or one of a communicator of several groups."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Request

    @classmethod
    def _of(cls, work: Work | None, again: Callable[[], Work] | None = None) -> Self:
        return super()._of(Operation(work, again))

    # One ------------------------------------------------------------------------------------

    def _finish(self, status: Any) -> Any:
        """Wait for the end; a request that is not persistent is null then."""
        body = self._body
        work = body.work or _EMPTY
        try:
            return finish(work)
        finally:
            if work.step():
                work.describe(status)
                body.work = None
                if body.again is None:
                    self._body = None

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
        return _ready(self) and Request.Wait(self, status)

    def test(self, status: Any = None) -> tuple[bool, Any]:
        """Return whether it is over, and the object received."""
        if body_of(self) is None:
            flag, found = MPI.Request.test(self, status)
            return flag, found
        return (True, self._finish(status)) if _ready(self) else (False, None)

    def Get_status(self, status: Any = None) -> bool:
        """Return whether it is over, and leave it as it is."""
        body = body_of(self)
        if body is None:
            return bool(MPI.Request.Get_status(self, status))
        if not _ready(self):
            return False
        (body.work or _EMPTY).describe(status)
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
        self._body = None

    def free(self) -> None:
        """Let it go on by itself, if it is not null."""
        if body_of(self) is None:
            MPI.Request.free(self)
        else:
            self._body = None

    # Several --------------------------------------------------------------------------------

    @classmethod
    def _ours(cls, requests: Sequence[Any]) -> bool:
        return any(body_of(request) is not None for request in requests)

    @classmethod
    def _each(cls, name: str, requests: Sequence[Any], statuses: list[Any] | None) -> list[Any]:
        """Return what each says; of several errors the first, when all have been asked."""
        found, errors = [], []
        for request, status in zip(requests, _statuses(statuses, len(requests)), strict=False):
            try:
                found.append(getattr(Request, name)(request, status))
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return found

    @classmethod
    def _until(cls, requests: Sequence[Any], wait: bool) -> list[int] | None:
        """Return which are over: None if there are none to wait for."""
        active = [i for i, request in enumerate(requests) if not _idle(request)]
        if not active:
            return None
        patience = Patience(mpi=any(body_of(requests[i]) is None for i in active))
        while True:
            found = [i for i in active if _ready(requests[i])]
            if found or not wait:
                return found
            pause(_pending(requests), patience)

    @classmethod
    def Waitall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> bool:
        """Wait until all are over."""
        if not cls._ours(requests):
            return bool(MPI.Request.Waitall(requests, statuses))
        cls._each("Wait", requests, statuses)
        return True

    @classmethod
    def waitall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Wait until all are over; return the objects received."""
        if not cls._ours(requests):
            return MPI.Request.waitall(requests, statuses)
        return cls._each("wait", requests, statuses)

    @classmethod
    def Testall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> bool:
        """Return whether all are over; if not, none is taken for it."""
        if not cls._ours(requests):
            return bool(MPI.Request.Testall(requests, statuses))
        return cls._all_ready(requests) and cls.Waitall(requests, statuses)

    @classmethod
    def testall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return whether all are over, and the objects received."""
        if not cls._ours(requests):
            return MPI.Request.testall(requests, statuses)
        ready = cls._all_ready(requests)
        return (True, cls.waitall(requests, statuses)) if ready else (False, None)

    @classmethod
    def _all_ready(cls, requests: Sequence[Any]) -> bool:
        ready = [_ready(request) for request in requests]  # all of them go on
        return all(ready)

    @classmethod
    def Get_status_all(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> bool:
        """Return whether all are over, and leave them as they are."""
        if not cls._ours(requests):
            return bool(MPI.Request.Get_status_all(requests, statuses))
        return cls._all_ready(requests) and all(cls._each("Get_status", requests, statuses))

    get_status_all = Get_status_all

    @classmethod
    def _any(cls, requests: Sequence[Any], wait: bool) -> tuple[int, bool]:
        found = cls._until(requests, wait)
        if found is None:
            return MPI.UNDEFINED, True
        return (found[0], True) if found else (MPI.UNDEFINED, False)

    @classmethod
    def Waitany(cls, requests: Sequence[Any], status: Any = None) -> int:
        """Wait until one is over; return which."""
        if not cls._ours(requests):
            return int(MPI.Request.Waitany(requests, status))
        return int(cls._one("Wait", requests, status, True)[0])

    @classmethod
    def waitany(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Wait until one is over; return which, and the object received."""
        if not cls._ours(requests):
            return MPI.Request.waitany(requests, status)
        index, _, found = cls._one("wait", requests, status, True)
        return index, found

    @classmethod
    def Testany(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Return which is over, and whether one is."""
        if not cls._ours(requests):
            return MPI.Request.Testany(requests, status)
        return cls._one("Wait", requests, status, False)[:2]

    @classmethod
    def testany(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Return which is over, whether one is, and the object received."""
        if not cls._ours(requests):
            return MPI.Request.testany(requests, status)
        return cls._one("wait", requests, status, False)

    @classmethod
    def _one(cls, name: str, requests: Sequence[Any], status: Any, wait: bool) -> Any:
        index, flag = cls._any(requests, wait)
        if index == MPI.UNDEFINED:
            if flag:
                _EMPTY.describe(status)
            return index, flag, None
        return index, True, getattr(Request, name)(requests[index], status)

    @classmethod
    def Get_status_any(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Return which is over, and whether one is; leave it as it is."""
        if not cls._ours(requests):
            return MPI.Request.Get_status_any(requests, status)
        return cls._one("Get_status", requests, status, False)[:2]

    get_status_any = Get_status_any

    @classmethod
    def _some(
        cls, name: str, requests: Sequence[Any], statuses: list[Any] | None, wait: bool
    ) -> Any:
        found = cls._until(requests, wait)
        if found is None:
            return None, None
        if statuses is not None:
            _statuses(statuses, len(found))
        return found, cls._each(name, [requests[i] for i in found], statuses)

    @classmethod
    def Waitsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Wait until some are over; return which."""
        if not cls._ours(requests):
            return MPI.Request.Waitsome(requests, statuses)
        return cls._some("Wait", requests, statuses, True)[0]

    @classmethod
    def waitsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Wait until some are over; return which, and the objects received."""
        if not cls._ours(requests):
            return MPI.Request.waitsome(requests, statuses)
        return cls._some("wait", requests, statuses, True)

    @classmethod
    def Testsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return which are over."""
        if not cls._ours(requests):
            return MPI.Request.Testsome(requests, statuses)
        return cls._some("Wait", requests, statuses, False)[0]

    @classmethod
    def testsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return which are over, and the objects received."""
        if not cls._ours(requests):
            return MPI.Request.testsome(requests, statuses)
        return cls._some("wait", requests, statuses, False)

    @classmethod
    def Get_status_some(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return which are over, and leave them as they are."""
        if not cls._ours(requests):
            return MPI.Request.Get_status_some(requests, statuses)
        return cls._some("Get_status", requests, statuses, False)[0]

    get_status_some = Get_status_some
