"""Messages that are there, before they are received."""

from __future__ import annotations

from acp_mpi.spawn.standin.original import MPI
from acp_mpi.spawn.standin.p2p import transport
from acp_mpi.spawn.standin.p2p.addresses import Addresses
from acp_mpi.spawn.standin.p2p.messages import Message
from acp_mpi.spawn.standin.p2p.requests import check_status
from acp_mpi.spawn.standin.p2p.work import Done, Patience, Receiving, Work, look_at_mpi
from acp_mpi.spawn.standin.types import buffers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


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
