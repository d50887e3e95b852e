"""Messages that are found before they are received, and the peers that they are for or from."""

from __future__ import annotations

from acp_mpi.spawn.standin.family import MPI, Embodied, Family
from acp_mpi.spawn.standin.p2p import transport
from acp_mpi.spawn.standin.p2p.requests import Request, check_status
from acp_mpi.spawn.standin.p2p.transport import Addresses
from acp_mpi.spawn.standin.p2p.work import Done, Patience, Receiving, Work, complete, look_at_mpi
from acp_mpi.spawn.standin.types import buffers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
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


class Probes(Addresses):
    """The methods that look for a message."""

    def _look(self, look: Callable[..., Any], source: int, tag: int, wait: bool) -> Any:
        self.check()
        rank, number = self._source(source), self._wanted(tag)
        found = look(self.context, rank, number, self.peers.sources, wait=0.0)
        patience = Patience()
        while found is None and wait:
            found = look(self.context, rank, number, self.peers.sources, wait=patience.seconds())
            look_at_mpi()
        if found is None:
            look_at_mpi()
        return found

    def _describe(self, found: Any, status: Any) -> None:
        if found is not None and status is not None:
            seen = Done(self.rank_of(found.source))
            seen.tag, seen.size = found.tag, found.size
            seen.describe(status)

    def Probe(
        self, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> bool:
        if source == MPI.PROC_NULL:
            Done(MPI.PROC_NULL).describe(status)
        else:
            self._describe(self._look(transport.probe, source, tag, True), status)
        return True

    def Iprobe(
        self, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> bool:
        if source == MPI.PROC_NULL:
            return self.Probe(source, tag, status)
        found = self._look(transport.probe, source, tag, False)
        self._describe(found, status)
        return found is not None

    def Mprobe(
        self, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> Any:
        return self._matched(source, tag, status, True)

    def Improbe(
        self, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> Any:
        return self._matched(source, tag, status, False)

    def _matched(self, source: int, tag: int, status: Any, wait: bool) -> Any:
        check_status(status)
        if source == MPI.PROC_NULL:
            Done(MPI.PROC_NULL).describe(status)
            return Message(MPI.MESSAGE_NO_PROC)
        found = self._look(transport.take, source, tag, wait)
        if found is None:
            return None
        self._describe(found.status, status)
        return Message._of(_Taken(self, found))

    probe, iprobe, mprobe, improbe = Probe, Iprobe, Mprobe, Improbe


def object_of(data: Any) -> Any:
    """Return the object that was sent; None if no bytes were."""
    return MPI.pickle.loads(data) if data else None


def in_place(data: Any) -> None:
    """Leave a message where it was received."""


class _Taken:
    """A message that was found, and is kept for its own receive."""

    def __init__(self, body: Addresses, message: Any) -> None:
        self._body, self._message = body, message

    def start(self, buf: Any) -> Work:
        """Start receiving it into a buffer."""
        place = buffers.elements(buf, writable=True)
        into = place.direct
        posted = transport.Posted(self._message.irecv(into))
        return Receiving(self._body, posted, place.unpack if into is None else in_place)

    def start_object(self) -> Work:
        """Start receiving it as an object."""
        return Receiving(self._body, transport.Posted(self._message.irecv()), object_of)
