"""The body behind a communicator of two groups, and how two groups come to have one."""

from __future__ import annotations

from _thread import allocate_lock

import acp_mpi as acp
from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.spawn.standin.comm.bodies import Body, IntraBody, new_context, ranks_in, sorted_by_key
from acp_mpi.spawn.standin.comm.strangers import from_parents
from acp_mpi.spawn.standin.family import MPI
from acp_mpi.spawn.standin.p2p.transport import Circle, derived
from acp_mpi.spawn.standin.types.groups import Group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_making = allocate_lock()  # the communicator with the parents
_parent: Any = None


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
        """Whether the local group comes first unless a member decides otherwise."""
        return bool(self.local.ranks[0] < self.peers.ranks[0])

    def Merge(self, high: bool = False) -> Any:
        self.check()
        first = self.low if self.allgather(bool(high))[0] == bool(high) else not high
        mine, its = self.local.ranks, self.peers.ranks
        ranks = (*mine, *its) if first else (*its, *mine)
        return IntraBody(self.next_context("merge"), Circle(ranks, acp.rank())).shown()

    def _split(self, place: Callable[[], tuple[int, int]]) -> Any:
        self.check()
        own, refused = None, None
        try:
            own = place()
        except Exception as error:  # whatever it is, both groups wait for it
            refused = error
        inside, outside = self.collectives.among_local("Split", own), self.allgather(own)
        if refused is not None:
            raise refused
        if None in (*inside, *outside):
            raise Error("Split, Create: a rank has left it; look for the first error among them")
        color = inside[self.local.rank][0]
        context = self.next_context("split", color)
        if color == MPI.UNDEFINED:
            return self.null()
        mine = sorted_by_key(inside, color, self.local.ranks)
        its = sorted_by_key(outside, color, self.peers.ranks)
        if not its:
            return self.null()
        return InterBody(context, Circle(mine, acp.rank()), Circle(its, None)).shown()

    def Create(self, group: Any) -> Any:
        def place() -> tuple[int, int]:
            ranks = self._chosen(group)
            mine = acp.rank() in ranks
            return (0, ranks.index(acp.rank())) if mine else (MPI.UNDEFINED, 0)

        return self._split(place)

    def inside(self) -> Body:
        """Return the local group, as `mpi4py.util.pkl5` needs it."""
        if self._inside is None:
            self._inside = IntraBody(derived(self.context, "inside", self.low), self.local)
        return self._inside


def connected(context: int, local: tuple[int, ...], peers: tuple[int, ...]) -> Any:
    """Return the intercommunicator of two groups."""
    _engine.bury()  # what is left of groups that have ended: a program may spawn without end
    return InterBody(context, Circle(local, acp.rank()), Circle(peers, None)).shown()


def parent() -> Any:
    """Return the communicator with those that spawned this process, or COMM_NULL."""
    global _parent
    news = from_parents()
    with _making:
        if _parent is None and news is not None:
            context, parents, children, _ = news
            _parent = connected(context, tuple(children), tuple(parents))
        elif _parent is None:
            _parent = MPI.Comm.Get_parent()
    body = getattr(_parent, "_body", None)
    if body is not None and body.closed:  # a copy of it was disconnected
        _parent._body = None
    return _parent


def meet(comm: Any, leader: int, bridge: Any, remote_leader: int, tag: int) -> Any:
    """Make an intercommunicator of two groups with leaders that have a communicator in common."""
    local = ranks_in(comm)
    found, failed = None, None
    if comm.Get_rank() == leader:
        own = new_context("bridge")
        try:
            theirs = bridge.sendrecv(
                (local, own), remote_leader, tag, source=remote_leader, recvtag=tag
            )
            found = (max(own, theirs[1]), theirs[0])
        except Exception as error:  # whatever it is, the others wait for it
            failed = error
    found, text = comm.bcast((found, None if failed is None else str(failed)), root=leader)
    if found is None:
        if failed is not None:
            raise failed
        refusal = MPI.Exception(MPI.ERR_COMM)
        refusal.add_note(f"Create_intercomm: the leader, rank {leader}, met no other: {text}")
        raise refusal
    context, peers = found
    return connected(context, local, tuple(peers))
