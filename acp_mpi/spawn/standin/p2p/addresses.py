"""To whom a communicator of several groups sends, and from whom it receives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import index

from acp_mpi.engine import _engine
from acp_mpi.spawn.standin.comm.ranks import Circle
from acp_mpi.spawn.standin.original import MPI
from acp_mpi.spawn.standin.p2p import transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

ACKNOWLEDGEMENTS = 1  # the context for them, after that of the messages
_TAG_MAX = 2**31 - 1


def fail(code: int) -> NoReturn:
    """Raise mpi4py's exception."""
    raise MPI.Exception(code)


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
