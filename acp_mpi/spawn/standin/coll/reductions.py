"""Reductions of a communicator of several groups, on mpi4py's buffers."""

from __future__ import annotations

from operator import index

from acp_mpi.comm.collectives import folds, moves
from acp_mpi.comm.collectives.buffers import apart
from acp_mpi.comm.collectives.counted import begun
from acp_mpi.comm.collectives.farewell import Farewell
from acp_mpi.comm.collectives.team import second
from acp_mpi.spawn.standin.coll import folding
from acp_mpi.spawn.standin.coll.roots import Roots
from acp_mpi.spawn.standin.family import MPI, fail
from acp_mpi.spawn.standin.types import buffers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from acp_mpi.comm.collectives.buffers import Buffer
    from acp_mpi.comm.collectives.team import Team
    from acp_mpi.spawn.standin.coll.running import Flow
    from acp_mpi.spawn.standin.coll.teams import Teams
    from acp_mpi.spawn.standin.types.buffers import Elements


def in_place(buf: Any) -> bool:
    """Return whether a call is to use the other buffer for both."""
    return buf is None or buf is MPI.IN_PLACE


class Reductions(Roots):
    """Generators of the reductions; `collectives` makes the methods of them."""

    def numbers(self, function: str, teams: Teams, own: int, context: int) -> Flow:
        """Return the number that each of the local group gives."""
        team = teams.inside
        room = memoryview(bytearray(8 * team.n)).cast("q")
        given = memoryview(own.to_bytes(8, "little"))
        yield from moves.allgather(function, team, given, room.cast("B"), None, context)
        return list(room)

    def _gives(self, sendbuf: Any, recvbuf: Any, place: Elements | None) -> Elements:
        if not self.inter and in_place(sendbuf):
            return buffers.elements(recvbuf) if place is None else place
        return buffers.elements(sendbuf)

    def _folded(
        self,
        name: str,
        kind: str,
        team: Team,
        given: Elements | None,
        place: Elements | None,
        op: Any,
        context: int,
        top: int | None = None,
        counts: Sequence[int] = (),
    ) -> Flow:
        if given is not None and place is not None:
            own = counts[team.me] if counts else given.count
            if place.count != own or place.extent != given.extent:
                raise ValueError(
                    f"{name}: mismatch in send count {own} and receive count {place.count}, or in "
                    "their datatypes"
                )
        known = given or place
        assert known is not None
        how = folding.folding_of(op, known)
        source: Buffer | None = None if given is None else folding.given(given)
        target = None if place is None else folding.wanted(place)
        if source is not None and target is not None:
            if given is place and target.back is None:
                source.memory = target.memory
            source = apart(source, target, same=kind != "reduce_scatter")
        if kind == "exscan" and team.me == 0 and target is not None:
            target.back = None  # it stays as it is
        yield from folds.carried(name, team, kind, source, target, how, top, counts, context)

    def reduce_(
        self,
        name: str,
        teams: Teams,
        context: int,
        sendbuf: Any,
        recvbuf: Any,
        op: Any = MPI.SUM,
        root: int = 0,
    ) -> Flow:
        """Combine at one rank."""
        team = teams.everybody
        rank = self.root_of(root)
        gives, gets = self.to_root(root)
        if not (gives or gets):
            return
        place = buffers.elements(recvbuf, writable=True) if gets else None
        given = self._gives(sendbuf, recvbuf, place) if gives else None
        top = team.place(rank, name)
        yield from self._folded(name, "reduce", team, given, place, op, context, top)

    def check_order(self) -> None:
        """Raise between two groups, where no rank is before another one."""
        if self.inter:
            fail(MPI.ERR_COMM)

    def onto_all_(
        self,
        name: str,
        teams: Teams,
        context: int,
        sendbuf: Any,
        recvbuf: Any,
        op: Any = MPI.SUM,
    ) -> Flow:
        """Combine everywhere, or with those of the ranks before."""
        team = teams.everybody
        place = buffers.elements(recvbuf, writable=True)
        given = self._gives(sendbuf, recvbuf, place)
        yield from self._folded(name, name.lower(), team, given, place, op, context)

    def reduce_scatter_block_(
        self,
        name: str,
        teams: Teams,
        context: int,
        sendbuf: Any,
        recvbuf: Any,
        op: Any = MPI.SUM,
    ) -> Flow:
        """Combine, and give each rank an equal part."""
        team = teams.everybody
        size = len(self.local)
        if not self.inter and in_place(sendbuf):
            place = buffers.equal_blocks(recvbuf, size, writable=True)[0]
            block = place
        else:
            place = buffers.elements(recvbuf, writable=True)
            block = buffers.elements(sendbuf, blocks=size)  # its count is of one, as mpi4py's
        given = block.part(block.count * size, block.displacement)
        yield from self._scattered(name, team, given, place, [place.count] * size, op, context)

    def reduce_scatter_(
        self,
        name: str,
        teams: Teams,
        context: int,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Any = MPI.SUM,
    ) -> Flow:
        """Combine, and give each rank its part."""
        team = teams.everybody
        place = buffers.elements(recvbuf, writable=True)
        given = self._gives(sendbuf, recvbuf, place)
        if recvcounts is not None:
            counts = [index(count) for count in recvcounts]  # of NumPy, too
            if len(counts) != len(self.local):
                raise ValueError(f"expecting {len(self.local)} items, got {len(counts)}")
            yield from self._scattered(name, team, given, place, counts, op, context)
            return
        later = second(context)
        with Farewell(name, team, later):
            counts = yield from self.numbers(name, teams, place.count, context)
            flow = begun(self._scattered(name, team, given, place, counts, op, later))
        yield from flow

    def _scattered(
        self,
        name: str,
        team: Team,
        given: Elements,
        place: Elements,
        counts: Sequence[int],
        op: Any,
        context: int,
    ) -> Flow:
        if sum(counts) != given.count:
            raise ValueError(f"mismatch in send count {given.count} and sum(counts) {sum(counts)}")
        part = place.part(counts[team.me], place.displacement)
        yield from self._folded(
            name, "reduce_scatter", team, given, part, op, context, counts=counts
        )
