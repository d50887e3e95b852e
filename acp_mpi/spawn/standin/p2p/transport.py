"""Ranks of the job, contexts of communicators, and bytes that travel between the ranks."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from operator import index

from acp_mpi.engine import _engine
from acp_mpi.errors import TruncationError
from acp_mpi.spawn.standin.family import MPI, fail
from acp_mpi.spawn.standin.p2p import transport
from acp_mpi.util.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from acp_mpi.comm.collectives.request import CollectiveRequest
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
        _engine.transfer_give_up(self.request)

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
    request = _engine.transfer_isend("send", data, dest, tag, context, note)
    return None if request is None else Posted(request)


def receive_soon(context: int, source: int, tag: int, into: Any = None) -> Arrived | None:
    """Return a short message that is here, or comes within a moment; else None."""
    status = _engine.Status()
    data = _engine.transfer_soon("recv", into, source, tag, context, status)
    return None if data is None else Arrived(status, data, False)


def receive(
    context: int, source: int, tag: int, into: Any = None, among: Sources | None = None
) -> Posted:
    """Start receiving, from ANY_SOURCE of `among` and with ANY_TAG if so wanted."""
    return Posted(_engine.transfer_irecv("recv", into, source, tag, context, among))


def end(context: int) -> None:
    """Receive nothing of `context` any more, but by receives that are posted."""
    _engine.transfer_end(context)


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
        return _engine.transfer_probe("probe", source, tag, context, True, taken, wait, among)
    return None


def wait_any(waiting: Sequence[Posted | CollectiveRequest], timeout: float) -> None:
    """Wait until one of these is over, or for that time."""
    posted = [each.request for each in waiting if isinstance(each, Posted)]
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(each.held()) for each in waiting if not isinstance(each, Posted)
        ]
        held = [one for one in running if one is not None]  # the others: by another thread
        with contextlib.suppress(TimeoutError):
            _engine.wait_any("recv", posted, held, timeout)


ACKNOWLEDGEMENTS = 1  # the context for them, after that of the messages
_TAG_MAX = 2**31 - 1


def derived(context: int, *parts: object) -> int:
    """Return the context of a communicator that is made of one with `context`.

    All members find the same number without asking each other. The last bits are free: a
    communicator uses two contexts for messages.
    """
    text = repr((context, *parts)).encode()
    number = int.from_bytes(_engine.sha256(text)[:8], "little")
    return (number >> 2 | 1 << 20) & ~7


class Circle:
    """Ranks of the job in an order that all of them know, and the caller's place among them."""

    def __init__(self, ranks: tuple[int, ...], own: int | None) -> None:
        self.ranks = ranks
        self.place = {rank: place for place, rank in enumerate(ranks)}
        self.rank = MPI.UNDEFINED if own is None else self.place.get(own, MPI.UNDEFINED)
        self.sources = _engine.Sources(ranks)

    def __len__(self) -> int:
        return len(self.ranks)


def whole(what: str, number: Any) -> int:
    """Return a rank or tag that a program gives; TypeError for what is not a whole number."""
    try:
        return index(number)
    except TypeError:
        raise TypeError(f"{what}={number!r} is not a whole number") from None


class Addresses(ABC):
    """`peers` by their ranks, in the contexts of a communicator."""

    context: int
    peers: Circle

    @abstractmethod
    def check(self) -> None:
        """Raise if the communicator has been freed."""

    def receives_no_more(self) -> None:
        """Let go of messages that have not been received."""
        transport.end(self.context)
        transport.end(self.context + ACKNOWLEDGEMENTS)

    def rank_of(self, rank: int) -> int:
        """Return the rank in the communicator of a rank of the job."""
        return int(self.peers.place.get(rank, MPI.UNDEFINED))

    def acknowledge(self, arrived: transport.Arrived) -> None:
        """Tell the sender of a synchronous message that it was received."""
        if arrived.note:
            transport.send(self.context + ACKNOWLEDGEMENTS, arrived.source, arrived.note, b"")

    # Ranks and tags -------------------------------------------------------------------------

    def _dest(self, rank: int) -> int:
        rank = whole("rank", rank)
        if not 0 <= rank < len(self.peers):
            fail(MPI.ERR_RANK)
        return self.peers.ranks[rank]

    def _source(self, rank: int) -> int:
        if rank == MPI.ANY_SOURCE:  # of one peer it is known: the end of others is nothing to it
            return self.peers.ranks[0] if len(self.peers) == 1 else _engine.ANY_SOURCE
        return self._dest(rank)

    def _wanted(self, tag: int) -> int:
        if tag == MPI.ANY_TAG:
            return _engine.ANY_TAG
        return self._sent(tag)

    def _sent(self, tag: int) -> int:
        tag = whole("tag", tag)
        if not 0 <= tag <= _TAG_MAX:
            fail(MPI.ERR_TAG)
        return tag
