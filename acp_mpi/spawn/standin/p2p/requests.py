"""Requests: mpi4py's, and those of communicators of several groups; also both in one list."""

from __future__ import annotations

from acp_mpi.spawn.standin.family import Embodied, Family
from acp_mpi.spawn.standin.original import MPI
from acp_mpi.spawn.standin.p2p import several
from acp_mpi.spawn.standin.p2p.several import EMPTY, any_ours, body_of, is_ready
from acp_mpi.spawn.standin.p2p.work import Work, outcome, wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, ClassVar, Self


def check_status(status: Any) -> None:
    """Raise TypeError for what is no status, before a message is received that it would lose."""
    if status is not None and not isinstance(status, MPI.Status):
        raise TypeError(f"status={status!r} is no MPI.Status")


class Operation:
    """What a request of ours stands for: an operation, which starts again if it is persistent."""

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
        wait_for(work)  # whom Ctrl-C interrupts can wait for it again
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
        several.everyone(Request.Wait, requests, statuses)
        return True

    @classmethod
    def waitall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Wait until all are over; return the objects received."""
        if not any_ours(requests):
            return MPI.Request.waitall(requests, statuses)
        return several.everyone(Request.wait, requests, statuses)

    @classmethod
    def Testall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> bool:
        """Return whether all are over; if not, none is taken for it."""
        if not any_ours(requests):
            return bool(MPI.Request.Testall(requests, statuses))
        return several.all_ready(requests) and cls.Waitall(requests, statuses)

    @classmethod
    def testall(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return whether all are over, and the objects received."""
        if not any_ours(requests):
            return MPI.Request.testall(requests, statuses)
        ready = several.all_ready(requests)
        return (True, cls.waitall(requests, statuses)) if ready else (False, None)

    @classmethod
    def Get_status_all(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> bool:
        """Return whether all are over, and leave them as they are."""
        if not any_ours(requests):
            return bool(MPI.Request.Get_status_all(requests, statuses))
        return several.all_ready(requests) and all(
            several.each(Request.Get_status, requests, statuses)
        )

    get_status_all = Get_status_all

    @classmethod
    def Waitany(cls, requests: Sequence[Any], status: Any = None) -> int:
        """Wait until one is over; return which."""
        if not any_ours(requests):
            return int(MPI.Request.Waitany(requests, status))
        return int(several.one(Request.Wait, requests, status, True)[0])

    @classmethod
    def waitany(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Wait until one is over; return which, and the object received."""
        if not any_ours(requests):
            return MPI.Request.waitany(requests, status)
        index, _, found = several.one(Request.wait, requests, status, True)
        return index, found

    @classmethod
    def Testany(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Return which is over, and whether one is."""
        if not any_ours(requests):
            return MPI.Request.Testany(requests, status)
        return several.one(Request.Wait, requests, status, False)[:2]

    @classmethod
    def testany(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Return which is over, whether one is, and the object received."""
        if not any_ours(requests):
            return MPI.Request.testany(requests, status)
        return several.one(Request.wait, requests, status, False)

    @classmethod
    def Get_status_any(cls, requests: Sequence[Any], status: Any = None) -> Any:
        """Return which is over, and whether one is; leave it as it is."""
        if not any_ours(requests):
            return MPI.Request.Get_status_any(requests, status)
        return several.one(Request.Get_status, requests, status, False)[:2]

    get_status_any = Get_status_any

    @classmethod
    def Waitsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Wait until some are over; return which."""
        if not any_ours(requests):
            return MPI.Request.Waitsome(requests, statuses)
        return several.some(Request.Wait, requests, statuses, True)[0]

    @classmethod
    def waitsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Wait until some are over; return which, and the objects received."""
        if not any_ours(requests):
            return MPI.Request.waitsome(requests, statuses)
        return several.some(Request.wait, requests, statuses, True)

    @classmethod
    def Testsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return which are over."""
        if not any_ours(requests):
            return MPI.Request.Testsome(requests, statuses)
        return several.some(Request.Wait, requests, statuses, False)[0]

    @classmethod
    def testsome(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return which are over, and the objects received."""
        if not any_ours(requests):
            return MPI.Request.testsome(requests, statuses)
        return several.some(Request.wait, requests, statuses, False)

    @classmethod
    def Get_status_some(cls, requests: Sequence[Any], statuses: list[Any] | None = None) -> Any:
        """Return which are over, and leave them as they are."""
        if not any_ours(requests):
            return MPI.Request.Get_status_some(requests, statuses)
        return several.some(Request.Get_status, requests, statuses, False)[0]

    get_status_some = Get_status_some
