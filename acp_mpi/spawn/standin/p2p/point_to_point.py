"""Messages between the members of a communicator of several groups."""

from __future__ import annotations

import itertools
import warnings

from acp_mpi.spawn.standin.family import MPI
from acp_mpi.spawn.standin.p2p import transport
from acp_mpi.spawn.standin.p2p.probes import Probes, in_place, object_of
from acp_mpi.spawn.standin.p2p.requests import Prequest, Request, check_status
from acp_mpi.spawn.standin.p2p.transport import ACKNOWLEDGEMENTS
from acp_mpi.spawn.standin.p2p.work import (
    Attended,
    Both,
    Done,
    Received,
    Receiving,
    Sending,
    Work,
    complete,
    finish,
)
from acp_mpi.spawn.standin.types import buffers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_serials = itertools.count(1)  # of synchronous sends: the tags of their acknowledgements


class PointToPoint(Probes):
    """Messages of a communicator to and from its `peers`, in its `context`."""

    # Sends ----------------------------------------------------------------------------------

    def start_send(self, data: Any, dest: int, tag: int, synchronous: bool = False) -> Work:
        """Start sending bytes."""
        self.check()
        tag = self._sent(tag)
        if dest == MPI.PROC_NULL:
            return Done()
        rank = self._dest(dest)
        if not synchronous:
            posted = transport.send(self.context, rank, tag, data)
            return Done() if posted is None else Sending(posted, keep=data)
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

    def _copy(self, buf: Any, dest: int) -> bytes:
        return b"" if dest == MPI.PROC_NULL else bytes(buffers.elements(buf).pack())

    def _start_copy(self, buf: Any, dest: int, tag: int) -> Work:
        return self.start_send(self._copy(buf, dest), dest, tag)

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

    def _receiving(
        self, source: int, tag: int, into: Any, land: Callable[[Any], Any], blocks: bool
    ) -> Work:
        rank = self._source(source)
        if blocks and not Attended.any():  # else they are to go on meanwhile
            arrived = transport.receive_soon(self.context, rank, tag, into)
            if arrived is not None:
                return Received(self, arrived, land)
        posted = transport.receive(self.context, rank, tag, into, self.peers.sources)
        return Receiving(self, posted, land)

    def _start_receive(self, buf: Any, source: int, tag: int, blocks: bool = False) -> Work:
        self.check()
        tag = self._wanted(tag)
        if source == MPI.PROC_NULL:
            return Done(MPI.PROC_NULL)
        place = buffers.elements(buf, writable=True)
        into = place.direct
        land = place.unpack if into is None else in_place
        return self._receiving(source, tag, into, land, blocks)

    def _start_receive_object(self, source: int, tag: int, blocks: bool = False) -> Work:
        self.check()
        tag = self._wanted(tag)
        if source == MPI.PROC_NULL:
            return Done(MPI.PROC_NULL)
        return self._receiving(source, tag, None, object_of, blocks)

    def Recv(
        self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> None:
        check_status(status)
        work = self._start_receive(buf, source, tag, True)
        try:
            complete(work)
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
        _warn_of(buf)
        check_status(status)
        work = self._start_receive_object(source, tag, True)
        found = complete(work)
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
        check_status(status)
        both = self._start_both(sendbuf, dest, sendtag, recvbuf, source, recvtag)
        complete(both)
        both.describe(status)

    def _start_both(
        self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
    ) -> Work:
        return Both(
            lambda: self._start_receive(recvbuf, source, recvtag),
            lambda: self._start_buffer(sendbuf, dest, sendtag),
        )

    def Sendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
        status: Any = None,
    ) -> None:
        check_status(status)
        both = self._start_replacing(buf, dest, sendtag, source, recvtag)
        complete(both)
        both.describe(status)

    def _start_replacing(
        self, buf: Any, dest: int, sendtag: int, source: int, recvtag: int
    ) -> Work:
        copy = self._copy(buf, dest)
        return Both(
            lambda: self._start_receive(buf, source, recvtag),
            lambda: self.start_send(copy, dest, sendtag),
        )

    def Isendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
    ) -> Any:
        return Request._of(self._start_both(sendbuf, dest, sendtag, recvbuf, source, recvtag))

    def Isendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
    ) -> Any:
        return Request._of(self._start_replacing(buf, dest, sendtag, source, recvtag))

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
        _warn_of(recvbuf)
        check_status(status)
        both = Both(
            lambda: self._start_receive_object(source, recvtag),
            lambda: self._start_object(sendobj, dest, sendtag),
        )
        found = complete(both)
        both.describe(status)
        return found

    # Again and again ------------------------------------------------------------------------

    def _check_send(self, buf: Any, dest: int, tag: int) -> None:
        """Raise now what each start would raise."""
        self.check()
        self._sent(tag)
        if dest != MPI.PROC_NULL:
            self._dest(dest)
            buffers.elements(buf)

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Any:
        self._check_send(buf, dest, tag)
        buf = buffers.kept(buf)
        return Prequest._of(lambda: self._start_buffer(buf, dest, tag))

    Rsend_init = Send_init

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Any:
        self._check_send(buf, dest, tag)
        buf = buffers.kept(buf)
        return Prequest._of(lambda: self._start_buffer(buf, dest, tag, True))

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Any:
        self._check_send(buf, dest, tag)
        buf = buffers.kept(buf)
        return Prequest._of(lambda: self._start_copy(buf, dest, tag))

    def Recv_init(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> Any:
        self.check()
        self._wanted(tag)
        if source != MPI.PROC_NULL:
            self._source(source)
            buffers.elements(buf, writable=True)
        buf = buffers.kept(buf)
        return Prequest._of(lambda: self._start_receive(buf, source, tag))


def _warn_of(buf: Any) -> None:
    if buf is not None:
        warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=4)
