"""To whom a communicator of several groups sends, and from whom it receives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import index

from acp_mpi.engine import _engine
from acp_mpi.spawn.standin.original import MPI, fail
from acp_mpi.spawn.standin.p2p import transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
    """Return a rank or tag that a program gives; TypeError for what is no whole number."""
    try:
        return index(number)
    except TypeError:
        raise TypeError(f"{what}={number!r} is no whole number") from None


class Addresses(ABC):
    """`peers` by their ranks, in the contexts of a communicator."""

    context: int
    peers: Circle

    @abstractmethod
    def check(self) -> None:
        """Raise if the communicator has been freed."""

    def receives_no_more(self) -> None:
        """Let go of messages that nobody has received."""
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
