"""Messages that were found by a matched probe."""

from __future__ import annotations

from acp_mpi.spawn.standin.family import Embodied, Family
from acp_mpi.spawn.standin.original import MPI
from acp_mpi.spawn.standin.p2p.requests import Request, check_status
from acp_mpi.spawn.standin.p2p.work import Work, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


def _finder(name: str) -> Any:
    """Return a class method that finds messages by a method of the communicator."""

    def find(
        cls: type[Message],
        comm: Any,
        source: int = MPI.ANY_SOURCE,
        tag: int = MPI.ANY_TAG,
        status: Any = None,
    ) -> Any:
        """Find a message, and keep it for its own receive."""
        found = getattr(comm, name)(source, tag, status)
        return found if getattr(found, "_body", None) is None else cls(found)

    return classmethod(find)


class Message(Embodied, MPI.Message, metaclass=Family):  # type: ignore[misc]
    """mpi4py's message, or one of a communicator of several groups."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Message
    _predefined = ("MESSAGE_NULL", "MESSAGE_NO_PROC")

    Probe, Iprobe = _finder("Mprobe"), _finder("Improbe")
    probe, iprobe = _finder("mprobe"), _finder("improbe")

    def _start(self, name: str, *given: Any) -> Work:
        work: Work = getattr(self._body, name)(*given)
        self._body = None
        return work

    def Recv(self, buf: Any, status: Any = None) -> None:
        """Receive the message into a buffer."""
        if getattr(self, "_body", None) is None:
            MPI.Message.Recv(self, buf, status)
            return
        check_status(status)
        work = self._start("start", buf)
        complete(work)
        work.describe(status)

    def Irecv(self, buf: Any) -> Any:
        """Start receiving the message into a buffer."""
        if getattr(self, "_body", None) is None:
            return MPI.Message.Irecv(self, buf)
        return Request._of(self._start("start", buf))

    def recv(self, status: Any = None) -> Any:
        """Receive the message as an object."""
        if getattr(self, "_body", None) is None:
            return MPI.Message.recv(self, status)
        check_status(status)
        work = self._start("start_object")
        found = complete(work)
        work.describe(status)
        return found

    def irecv(self) -> Any:
        """Start receiving the message as an object."""
        if getattr(self, "_body", None) is None:
            return MPI.Message.irecv(self)
        return Request._of(self._start("start_object"))
