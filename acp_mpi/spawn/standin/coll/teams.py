"""The members of the collectives of a communicator, and their contexts."""

from __future__ import annotations

import struct
from functools import cached_property

from acp_mpi.comm.collectives.team import Team
from acp_mpi.spawn.standin.family import MPI
from acp_mpi.spawn.standin.p2p.transport import derived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.spawn.standin.p2p.transport import Circle


class Teams:
    """The teams of one communicator, or of one of its persistent collectives alone."""

    def __init__(self, context: int, local: Circle, peers: Circle | None) -> None:
        self._context, self._local, self._peers = context, local, peers

    def _made(self, purpose: str, own: tuple[int, ...], other: tuple[int, ...] = ()) -> Team:
        of = purpose.encode() + struct.pack("<Q", self._context)
        return Team(purpose, own, other, of, MPI.pickle)

    @cached_property
    def everybody(self) -> Team:
        """All members; those of the other group, if there is one, on the other side."""
        other = () if self._peers is None else self._peers.ranks
        return self._made("collective", self._local.ranks, other)

    @cached_property
    def inside(self) -> Team:
        """The members of the local group."""
        if self._peers is None:
            return self.everybody
        return self._made("collective inside", self._local.ranks)

    def parting(self) -> Team:
        """All members on one side, in an order that they know: for the last time."""
        sides = (
            [self._local.ranks] if self._peers is None else [self._local.ranks, self._peers.ranks]
        )
        return self._made("parting", tuple(rank for side in sorted(sides) for rank in side))

    def apart(self, number: int) -> Teams:
        """Return those of a persistent collective: it starts in any order with others."""
        return Teams(derived(self._context, "persistent", number), self._local, self._peers)
