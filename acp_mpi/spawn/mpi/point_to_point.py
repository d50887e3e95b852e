"""Messages between the members of a communicator of several groups."""

import itertools
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from acp_mpi.engine import _engine
from acp_mpi.errors import PeerLostError
from acp_mpi.spawn.mpi import buffers, transport
from acp_mpi.spawn.mpi.messages import Message
from acp_mpi.spawn.mpi.original import MPI
from acp_mpi.spawn.mpi.ranks import Circle
from acp_mpi.spawn.mpi.requests import Prequest, Request
from acp_mpi.spawn.mpi.work import Done, Receiving, Sending, Work, finish, look_at_mpi

# Contexts of a communicator, beside its own.
COLLECTIVES, ACKNOWLEDGEMENTS = 1, 2
_WAIT = 0.01  # of a probe, before MPI's own messages are looked at
_TAG_MAX = 2**31 - 1
_serials = itertools.count(1)  # of synchronous sends: the tags of their acknowledgements


def fail(code: int) -> NoReturn:
    """Raise mpi4py's exception."""
    raise MPI.Exception(code)


class PointToPoint:
    """What a communicator sends to and receives from: `peers`, by messages of `context`."""

    context: int
    peers: Circle

    def check(self) -> None:
        """Raise if the communicator has been freed."""
        raise NotImplementedError

    def rank_of(self, rank: int) -> int:
        """Return the rank in the communicator of a rank of the job."""
        return int(self.peers.place.get(rank, MPI.UNDEFINED))

    def acknowledge(self, arrived: transport.Arrived) -> None:
        """Tell the sender of a synchronous message that it was received."""
        if arrived.note:
            transport.send(self.context + ACKNOWLEDGEMENTS, arrived.source, arrived.note, b"")

    # Ranks and tags -------------------------------------------------------------------------

    def _dest(self, rank: int) -> int:
        if not 0 <= rank < len(self.peers):
            fail(MPI.ERR_RANK)
        return self.peers.ranks[rank]

    def _source(self, rank: int) -> int:
        return -1 if rank == MPI.ANY_SOURCE else self._dest(rank)

    def _wanted(self, tag: int) -> int:
        if tag == MPI.ANY_TAG:
            return -1
        return self._sent(tag)

    def _sent(self, tag: int) -> int:
        if not 0 <= tag <= _TAG_MAX:
            fail(MPI.ERR_TAG)
        return tag

    # Sends ----------------------------------------------------------------------------------

    def start_send(self, data: Any, dest: int, tag: int, synchronous: bool = False) -> Work:
        """Start sending bytes."""
        self.check()
        tag = self._sent(tag)
        if dest == MPI.PROC_NULL:
            return Done()
        rank = self._dest(dest)
        if not synchronous:
            return Sending(transport.send(self.context, rank, tag, data), keep=data)
        serial = next(_serials)
        answer = transport.receive(self.context + ACKNOWLEDGEMENTS, rank, serial)
        return Sending(transport.send(self.context, rank, tag, data, serial), answer, keep=data)

    def _start_buffer(self, buf: Any, dest: int, tag: int, synchronous: bool = False) -> Work:
        if dest == MPI.PROC_NULL:
            return self.start_send(b"", dest, tag)
        return self.start_send(buffers.elements(buf).pack(), dest, tag, synchronous)

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        finish(self._start_buffer(buf, dest, tag))

    Rsend = Send

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        finish(self._start_buffer(buf, dest, tag, True))

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        self.Ibsend(buf, dest, tag)

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Any:
        return Request._of(self._start_buffer(buf, dest, tag))

    Irsend = Isend

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Any:
        return Request._of(self._start_buffer(buf, dest, tag, True))

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Any:
        return Request._of(self._start_copy(buf, dest, tag))

    def _start_copy(self, buf: Any, dest: int, tag: int) -> Work:
        copy = b"" if dest == MPI.PROC_NULL else bytes(buffers.elements(buf).pack())
        return self.start_send(copy, dest, tag)

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        finish(self._start_object(obj, dest, tag))

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        finish(self._start_object(obj, dest, tag, True))

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        self._start_object(obj, dest, tag)

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Any:
        return Request._of(self._start_object(obj, dest, tag))

    ibsend = isend

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Any:
        return Request._of(self._start_object(obj, dest, tag, True))

    def _start_object(self, obj: Any, dest: int, tag: int, synchronous: bool = False) -> Work:
        data = b"" if dest == MPI.PROC_NULL else MPI.pickle.dumps(obj)
        return self.start_send(data, dest, tag, synchronous)

    # Receives -------------------------------------------------------------------------------

    def _start_receive(self, buf: Any, source: int, tag: int) -> Work:
        self.check()
        tag = self._wanted(tag)
        if source == MPI.PROC_NULL:
            return Done(MPI.PROC_NULL)
        place = buffers.elements(buf, writable=True)
        into = place.direct
        posted = transport.receive(self.context, self._source(source), tag, into)
        return Receiving(self, posted, place.unpack if into is None else _in_place)

    def _start_receive_object(self, source: int, tag: int) -> Work:
        self.check()
        tag = self._wanted(tag)
        if source == MPI.PROC_NULL:
            return Done(MPI.PROC_NULL)
        posted = transport.receive(self.context, self._source(source), tag)
        return Receiving(self, posted, object_of)

    def Recv(
        self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> None:
        work = self._start_receive(buf, source, tag)
        try:
            finish(work)
        finally:
            work.describe(status)

    def Irecv(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> Any:
        return Request._of(self._start_receive(buf, source, tag))

    def recv(
        self,
        buf: Any = None,
        source: int = MPI.ANY_SOURCE,
        tag: int = MPI.ANY_TAG,
        status: Any = None,
    ) -> Any:
        if buf is not None:
            warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=3)
        work = self._start_receive_object(source, tag)
        found = finish(work)
        work.describe(status)
        return found

    def irecv(self, buf: Any = None, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> Any:
        return Request._of(self._start_receive_object(source, tag))

    # Both -----------------------------------------------------------------------------------

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
        status: Any = None,
    ) -> None:
        receiving = self._start_receive(recvbuf, source, recvtag)
        sending = self._start_buffer(sendbuf, dest, sendtag)
        finish(receiving)
        finish(sending)
        receiving.describe(status)

    def Sendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
        status: Any = None,
    ) -> None:
        sending = self._start_copy(buf, dest, sendtag)
        receiving = self._start_receive(buf, source, recvtag)
        finish(receiving)
        finish(sending)
        receiving.describe(status)

    def Isendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
    ) -> Any:
        receiving = self._start_receive(recvbuf, source, recvtag)
        return Request._of(_Both(receiving, self._start_buffer(sendbuf, dest, sendtag)))

    def Isendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
    ) -> Any:
        sending = self._start_copy(buf, dest, sendtag)
        return Request._of(_Both(self._start_receive(buf, source, recvtag), sending))

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
        status: Any = None,
    ) -> Any:
        sending = self._start_object(sendobj, dest, sendtag)
        found = self.recv(recvbuf, source, recvtag, status)
        finish(sending)
        return found

    # What is there --------------------------------------------------------------------------

    def _look(self, look: Callable[..., Any], source: int, tag: int, wait: bool) -> Any:
        self.check()
        rank, number = self._source(source), self._wanted(tag)
        found = self._find(look, rank, number, 0.0)
        while found is None and wait:
            found = self._find(look, rank, number, _WAIT)
            look_at_mpi()
        if found is None:
            look_at_mpi()
        return found

    def _find(self, look: Callable[..., Any], rank: int, tag: int, wait: float) -> Any:
        """Return what is there; raise PeerLostError if nobody is left who could send it."""
        try:
            return look(self.context, rank, tag, wait=wait)
        except PeerLostError:
            # Of any source: it tells of each death in the job, also in other communicators.
            others = self.peers.place.keys().isdisjoint(_engine.lost_ranks())
            if wait or rank >= 0 or not others:
                raise
            return None

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
        if source == MPI.PROC_NULL:
            Done(MPI.PROC_NULL).describe(status)
            return MPI.MESSAGE_NO_PROC
        found = self._look(transport.take, source, tag, wait)
        if found is None:
            return None
        self._describe(found.status, status)
        return Message._of(_Taken(self, found))

    probe, iprobe, mprobe, improbe = Probe, Iprobe, Mprobe, Improbe

    # Again and again ------------------------------------------------------------------------

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Any:
        self._sent(tag)
        return Prequest._of(lambda: self._start_buffer(buf, dest, tag))

    Rsend_init = Send_init

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Any:
        return Prequest._of(lambda: self._start_buffer(buf, dest, tag, True))

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Any:
        return Prequest._of(lambda: self._start_copy(buf, dest, tag))

    def Recv_init(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> Any:
        return Prequest._of(lambda: self._start_receive(buf, source, tag))


def object_of(data: Any) -> Any:
    """Return the object that was sent; None if no bytes were."""
    return MPI.pickle.loads(data) if data else None


def _in_place(data: Any) -> None:
    """Leave a message where it was received."""


class _Both(Work):
    """A receive and a send; the status is that of the receive."""

    def __init__(self, receiving: Work, sending: Work) -> None:
        self._receiving, self._sending = receiving, sending

    def step(self) -> bool:
        """Return whether both are over."""
        received, sent = self._receiving.step(), self._sending.step()
        return received and sent

    def pending(self) -> Any:
        """Return what they wait for."""
        return itertools.chain(self._receiving.pending(), self._sending.pending())

    def describe(self, status: Any) -> None:
        """Fill in the status of the receive."""
        self._receiving.describe(status)


class _Taken:
    """A message that was found, and is kept for its own receive."""

    def __init__(self, body: PointToPoint, message: Any) -> None:
        self._body, self._message = body, message

    def start(self, buf: Any) -> Work:
        """Start receiving it into a buffer."""
        place = buffers.elements(buf, writable=True)
        into = place.direct
        posted = transport.Posted(self._message.irecv(into))
        return Receiving(self._body, posted, place.unpack if into is None else _in_place)

    def start_object(self) -> Work:
        """Start receiving it as an object."""
        return Receiving(self._body, transport.Posted(self._message.irecv()), object_of)
