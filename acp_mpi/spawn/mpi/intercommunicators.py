"""What is behind a communicator of two groups; and how two groups come to have one."""

from __future__ import annotations

from operator import index

import acp_mpi as acp
from acp_mpi.engine import _engine
from acp_mpi.spawn.mpi.bodies import Body, IntraBody, new_context, ranks_in, sorted_by_key
from acp_mpi.spawn.mpi.groups import Group, ranks_of
from acp_mpi.spawn.mpi.original import MPI
from acp_mpi.spawn.mpi.ranks import Circle, derived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class InterBody(Body):
    """Two circles of ranks."""

    inter = True
    _inside: Body | None = None

    def _like(self, context: int) -> Body:
        return InterBody(context, self.local, self.peers)

    def Get_remote_size(self) -> int:
        self.check()
        return len(self.peers)

    def Get_remote_group(self) -> Any:
        return Group._of(self.peers.ranks)

    remote_size, remote_group = property(Get_remote_size), property(Get_remote_group)

    @property
    def low(self) -> bool:
        """Whether the local group is the one that comes first where nobody says otherwise."""
        return bool(self.local.ranks[0] < self.peers.ranks[0])

    def Merge(self, high: bool = False) -> Any:
        self.check()
        first = self.low if self.allgather(bool(high))[0] == bool(high) else not high
        mine, its = self.local.ranks, self.peers.ranks
        ranks = (*mine, *its) if first else (*its, *mine)
        return IntraBody(self.next_context("merge"), Circle(ranks, acp.rank())).shown()

    def Split(self, color: int = 0, key: int = 0) -> Any:
        color, key = index(color), index(key)
        inside = self.among_local((color, key))
        outside = self.allgather((color, key))
        context = self.next_context("split", color)
        if color == MPI.UNDEFINED:
            return self.null()
        mine = sorted_by_key(inside, color, self.local.ranks)
        its = sorted_by_key(outside, color, self.peers.ranks)
        if not its:
            return self.null()
        own = Circle(mine, acp.rank())
        return InterBody(context, own, Circle(its, None)).shown()

    def Create(self, group: Any) -> Any:
        chosen = set(ranks_of(group))
        mine = acp.rank() in chosen
        return self.Split(0 if mine else MPI.UNDEFINED, Group.Get_rank(group) if mine else 0)

    def inside(self) -> Body:
        """Return the local group, as `mpi4py.util.pkl5` needs it."""
        if self._inside is None:
            self._inside = IntraBody(derived(self.context, "inside", self.low), self.local)
        return self._inside


def connected(context: int, local: tuple[int, ...], peers: tuple[int, ...]) -> Any:
    """Return the intercommunicator of two groups."""
    _engine.bury()  # what is left of groups that have ended: a program may spawn without end
    return InterBody(context, Circle(local, acp.rank()), Circle(peers, None)).shown()


def meet(comm: Any, leader: int, bridge: Any, remote_leader: int, tag: int) -> Any:
    """Make an intercommunicator of two groups whose leaders have a communicator in common."""
    local = ranks_in(comm)
    found = None
    if comm.Get_rank() == leader:
        own = new_context("bridge")
        theirs = bridge.sendrecv(
            (local, own), remote_leader, tag, source=remote_leader, recvtag=tag
        )
        found = (max(own, theirs[1]), theirs[0])
    context, peers = comm.bcast(found, root=leader)
    return connected(context, local, tuple(peers))
