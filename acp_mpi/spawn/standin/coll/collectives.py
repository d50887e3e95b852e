"""Collectives of a communicator of several groups, on mpi4py's buffers.

Each is one generator of those of `acp_mpi.comm.collectives`, which carry the bytes; the blocking,
the non-blocking and the persistent method are made of it.
"""

from __future__ import annotations

from acp_mpi.comm.collectives import moves
from acp_mpi.comm.collectives.counted import begun, counted
from acp_mpi.comm.collectives.farewell import Farewell
from acp_mpi.comm.collectives.team import second
from acp_mpi.spawn.standin.coll.reductions import Reductions, in_place
from acp_mpi.spawn.standin.coll.running import Running, carry_out
from acp_mpi.spawn.standin.p2p.requests import Prequest, Request
from acp_mpi.spawn.standin.types import buffers
from acp_mpi.spawn.standin.types.blocks import Blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from acp_mpi.spawn.standin.coll.running import Flow
    from acp_mpi.spawn.standin.coll.teams import Teams

    _BlocksOf: TypeAlias = Callable[..., Any]


class Collectives(Reductions):
    """Calls that all members of a communicator make together, each in a context of its own."""

    def barrier_(self, name: str, teams: Teams, context: int) -> Flow:
        """Meet."""
        yield from moves.barrier(name, teams.everybody, context)

    def bcast_(self, name: str, teams: Teams, context: int, buf: Any, root: int = 0) -> Flow:
        """Give what one rank has to all."""
        team = teams.everybody
        top = self.root_of(root)
        gives, gets = self.from_root(root)
        if not (gives or gets):
            return
        block = Blocks([buffers.elements(buf, writable=gets)])
        data = block.room() if gets else block.packed()
        yield from moves.bcast(name, team, data, top, () if gives else data, context)
        if gets:
            block.land(data)

    def gather_(
        self,
        name: str,
        of: _BlocksOf,
        teams: Teams,
        context: int,
        sendbuf: Any,
        recvbuf: Any,
        root: int = 0,
    ) -> Flow:
        """Collect parts at one rank."""
        team = teams.everybody
        top = self.root_of(root)
        gives, gets = self.to_root(root)
        if not (gives or gets):
            return
        blocks, own, room, counts = None, None, (), _given(of, ())
        if gets:
            blocks = Blocks(of(recvbuf, len(self.peers), writable=True))
            room, counts = blocks.room(), _given(of, blocks.sizes)
        if blocks is not None and gives and in_place(sendbuf):
            own = blocks.parts[self.local.rank].pack()
        elif gives:
            own = buffers.elements(sendbuf).pack()
        yield from moves.gather(name, team, own, top, room, counts, context)
        if blocks is not None:
            blocks.land(room)

    def scatter_(
        self,
        name: str,
        of: _BlocksOf,
        teams: Teams,
        context: int,
        sendbuf: Any,
        recvbuf: Any,
        root: int = 0,
    ) -> Flow:
        """Hand out parts."""
        team = teams.everybody
        top = self.root_of(root)
        gives, gets = self.from_root(root)
        if not (gives or gets):
            return
        data, place, counts = None, None, _given(of, ())
        room: Any = ()
        if gives:
            parts = Blocks(of(sendbuf, len(self.peers)))
            data, counts = parts.packed(), _given(of, parts.sizes)
            if not self.inter:  # its own part is for itself
                room = bytearray(parts.sizes[self.local.rank])
        if gets or not (self.inter or in_place(recvbuf)):
            place = Blocks([buffers.elements(recvbuf, writable=True)])
            room = place.room()
        yield from moves.scatter(name, team, data, top, room, counts, context)
        if place is not None:
            place.land(room)

    def allgather_(self, name: str, teams: Teams, context: int, sendbuf: Any, recvbuf: Any) -> Flow:
        """Collect equal parts everywhere."""
        team = teams.everybody
        blocks = Blocks(buffers.equal_blocks(recvbuf, len(self.peers), writable=True))
        room = blocks.room()
        yield from moves.allgather(name, team, self._own(sendbuf, blocks), room, None, context)
        blocks.land(room)

    def allgatherv_(
        self, name: str, teams: Teams, context: int, sendbuf: Any, recvbuf: Any
    ) -> Flow:
        """Collect parts everywhere."""
        team = teams.everybody
        blocks = Blocks(buffers.unequal_blocks(recvbuf, len(self.peers), writable=True))
        own, room = self._own(sendbuf, blocks), blocks.room()
        if not self.inter:
            yield from moves.allgather(name, team, own, room, blocks.sizes, context)
        else:  # a rank is not given the amounts of the others of its group
            later = second(context)
            with Farewell(name, team, later):
                gives = yield from self.numbers(name, teams, len(own), context)
                flow = begun(moves.allgather(name, team, own, room, blocks.sizes, later, gives))
            yield from flow
        blocks.land(room)

    def _own(self, sendbuf: Any, blocks: Blocks) -> Any:
        if not self.inter and in_place(sendbuf):
            return blocks.parts[self.local.rank].pack()
        return buffers.elements(sendbuf).pack()

    def alltoall_(
        self, name: str, of: _BlocksOf, teams: Teams, context: int, sendbuf: Any, recvbuf: Any
    ) -> Flow:
        """Exchange parts, each with each."""
        team = teams.everybody
        blocks = Blocks(of(recvbuf, len(self.peers), writable=True))
        here = not self.inter and in_place(sendbuf)
        parts = blocks if here else Blocks(of(sendbuf, len(self.peers)))
        room = blocks.room()
        gives, takes = _given(of, parts.sizes), _given(of, blocks.sizes)
        yield from moves.alltoall(name, team, parts.packed(), room, gives, takes, context)
        blocks.land(room)


def _given(blocks_of: _BlocksOf, sizes: Any) -> Any:
    """Return the sizes of parts as a collective takes them: not at all if they are equal."""
    return None if blocks_of is buffers.equal_blocks else sizes


def _methods(name: str, flow: Callable[..., Flow], *how: Any) -> dict[str, Any]:
    """Return the three methods that MPI makes of a collective."""

    def check(self: Any) -> None:
        self.check()
        if name in ("Scan", "Exscan"):
            self.check_order()

    def begin(self: Any, teams: Teams, given: Any, named: Any) -> Flow:
        def of(context: int) -> Flow:
            return flow(self, name, *how, teams, context, *given, **named)

        return counted(name, teams.everybody, of)

    def blocking(self: Any, *given: Any, **named: Any) -> None:
        check(self)
        carry_out(begin(self, self.teams, given, named))

    def immediate(self: Any, *given: Any, **named: Any) -> Any:
        check(self)
        return Request._of(Running(begin(self, self.teams, given, named)))

    places = flow.__code__.co_argcount - 4 - len(how)  # all but self, name, teams and context

    def persistent(self: Any, *given: Any, **named: Any) -> Any:
        check(self)
        teams = self.next_teams()
        if len(given) == places + 1 and "info" not in named:
            given = given[:-1]  # mpi4py takes hints last; nothing here depends on them
        named.pop("info", None)
        # TypeError for arguments that it has not
        flow(self, name, *how, teams, 0, *given, **named).close()
        given, named = buffers.kept(given), {name: buffers.kept(x) for name, x in named.items()}
        return Prequest._of(lambda: Running(begin(self, teams, given, named)))

    return {name: blocking, f"I{name.lower()}": immediate, f"{name}_init": persistent}


_FLOWS: dict[str, tuple[Any, ...]] = {
    "Barrier": (Collectives.barrier_,),
    "Bcast": (Collectives.bcast_,),
    "Gather": (Collectives.gather_, buffers.equal_blocks),
    "Gatherv": (Collectives.gather_, buffers.unequal_blocks),
    "Scatter": (Collectives.scatter_, buffers.equal_blocks),
    "Scatterv": (Collectives.scatter_, buffers.unequal_blocks),
    "Allgather": (Collectives.allgather_,),
    "Allgatherv": (Collectives.allgatherv_,),
    "Alltoall": (Collectives.alltoall_, buffers.equal_blocks),
    "Alltoallv": (Collectives.alltoall_, buffers.unequal_blocks),
    "Alltoallw": (Collectives.alltoall_, buffers.typed_blocks),
    "Reduce": (Collectives.reduce_,),
    "Allreduce": (Collectives.onto_all_,),
    "Scan": (Collectives.onto_all_,),
    "Exscan": (Collectives.onto_all_,),
    "Reduce_scatter_block": (Collectives.reduce_scatter_block_,),
    "Reduce_scatter": (Collectives.reduce_scatter_,),
}
for _name, _how in _FLOWS.items():
    for _method, _function in _methods(_name, *_how).items():
        setattr(Collectives, _method, _function)
