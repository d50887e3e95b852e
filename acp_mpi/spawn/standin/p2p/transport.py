"""Bytes between ranks of the job, in contexts of communicators."""

from __future__ import annotations

import contextlib

from acp_mpi.comm import transfer
from acp_mpi.comm.collectives.request import CollectiveRequest
from acp_mpi.engine import _engine
from acp_mpi.errors import TruncationError
from acp_mpi.util.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from acp_mpi.engine._engine import Sources


class Arrived(Record):
    """A message that was received; `data` are its bytes unless they are in a buffer."""

    __slots__ = ("data", "note", "size", "source", "tag", "truncated")

    def __init__(self, status: Any, data: Any, truncated: bool) -> None:
        self.source, self.tag = status.source, status.tag
        self.size, self.note = status.size, status.note
        self.data, self.truncated = data, truncated

    def _parts(self) -> tuple[object, ...]:
        return self.source, self.tag, self.size, self.note


class Posted:
    """A send or receive of the library that is not over."""

    __slots__ = ("request",)

    def __init__(self, request: Any) -> None:
        self.request = request

    def done(self) -> bool:
        """Return whether it is over."""
        return bool(self.request.done)

    def cancel(self) -> bool:
        """Take it back; return whether that was possible."""
        return bool(self.request.cancel())

    def give_up(self) -> None:
        """Leave the message of a receive, if one has come already, to the next receive."""
        transfer.give_up(self.request)

    def take(self) -> Arrived:
        """Return the message of a receive that is over."""
        try:
            data = self.request.wait()
        except TruncationError:
            return Arrived(self.request.status, None, True)
        return Arrived(self.request.status, data, False)

    def check(self) -> None:
        """Raise the error of what is over."""
        self.request.wait()


def send(context: int, dest: int, tag: int, data: Any, note: int = 0) -> Posted | None:
    """Start sending; None if that was all, and the bytes are free again."""
    request = transfer.isend("send", data, dest, tag, context, note)
    return None if request is None else Posted(request)


def receive_soon(context: int, source: int, tag: int, into: Any = None) -> Arrived | None:
    """Return a short message that is here, or comes within a moment; else None."""
    status = _engine.Status()
    data = transfer.soon("recv", into, source, tag, context, status)
    return None if data is None else Arrived(status, data, False)


def receive(
    context: int, source: int, tag: int, into: Any = None, among: Sources | None = None
) -> Posted:
    """Start receiving, from ANY_SOURCE of `among` and with ANY_TAG if so wanted."""
    return Posted(transfer.irecv("recv", into, source, tag, context, among))


def end(context: int) -> None:
    """Receive nothing of `context` any more, but by receives that are posted."""
    transfer.end(context)


def probe(context: int, source: int, tag: int, among: Sources, *, wait: float) -> Any:
    """Return the source, tag and size of a message that is here, or comes so soon; else None.

    Also without waiting (0 s) it raises PeerLostError if the source, or one of `among`, is dead.
    """
    return _probe(context, source, tag, among, wait, False)


def take(context: int, source: int, tag: int, among: Sources, *, wait: float) -> Any:
    """Return a message that is here, or comes so soon, for its own receive; else None."""
    return _probe(context, source, tag, among, wait, True)


def _probe(context: int, source: int, tag: int, among: Sources, wait: float, taken: bool) -> Any:
    with contextlib.suppress(TimeoutError):
        return transfer.probe("probe", source, tag, context, True, taken, wait, among)
    return None


def wait_any(waiting: Sequence[Posted | CollectiveRequest], timeout: float) -> None:
    """Wait until one of these is over, or for so long."""
    posted = [each.request for each in waiting if isinstance(each, Posted)]
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(each.held())
            for each in waiting
            if isinstance(each, CollectiveRequest)
        ]
        held = [one for one in running if one is not None]  # the others: by another thread
        with contextlib.suppress(TimeoutError):
            _engine.wait_any("recv", posted, held, timeout)
