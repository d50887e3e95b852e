"""Reductions of a communicator of several groups: elements combined by MPI's own operations."""

from __future__ import annotations

from abc import ABC, abstractmethod

from acp_mpi.spawn.mpi import algorithms, buffers
from acp_mpi.spawn.mpi.buffers import Elements
from acp_mpi.spawn.mpi.original import MPI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from acp_mpi.spawn.mpi.algorithms import Combine, Round
    from acp_mpi.spawn.mpi.work import Steps


def in_place(buf: Any) -> bool:
    """Return whether a call is to use the other buffer for both."""
    return buf is None or buf is MPI.IN_PLACE


def _combine(op: Any, kind: Elements) -> Combine:
    """Return how two lots of elements become one, the first those of lower ranks."""
    datatype, extent = kind.datatype, kind.extent

    def combine(first: Any, second: Any) -> Any:
        if len(first) != len(second):
            raise MPI.Exception(MPI.ERR_TRUNCATE)
        both = bytearray(second)
        if both:
            count = len(both) // extent
            op.Reduce_local([first, count, datatype], [both, count, datatype])
        return both

    return combine


class Reductions(ABC):
    """Generators of the reductions; `collectives` makes the methods of them."""

    peers: Any
    local: Any
    inter: bool
    between: Any

    @abstractmethod
    def round(self) -> Round:
        """Return the next collective of the communicator."""

    @abstractmethod
    def to_root(self, root: int) -> tuple[bool, bool]:
        """Return whether this rank gives something, and whether it gets something."""

    def _gives(self, sendbuf: Any, recvbuf: Any) -> Elements:
        return buffers.elements(recvbuf if not self.inter and in_place(sendbuf) else sendbuf)

    def reduce_(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM, root: int = 0) -> Steps:
        """Combine at one rank."""
        r = self.round()
        gives, gets = self.to_root(root)
        place = buffers.elements(recvbuf, writable=True) if gets else None
        given = self._gives(sendbuf, recvbuf) if gives else None
        kind = given or place
        if kind is None:
            return
        data = given.raw() if given else None
        found = yield from self.between.reduce(r, data, _combine(op, kind), root)
        if place:
            place.put_raw(found)

    def allreduce_(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM) -> Steps:
        """Combine everywhere."""
        r = self.round()
        place = buffers.elements(recvbuf, writable=True)
        given = self._gives(sendbuf, recvbuf)
        found = yield from self.between.allreduce(r, given.raw(), _combine(op, given))
        place.put_raw(found)

    def reduce_scatter_block_(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM) -> Steps:
        """Combine, and give each rank an equal part."""
        r = self.round()
        size = len(self.local)
        if not self.inter and in_place(sendbuf):
            blocks = buffers.equal_blocks(recvbuf, size, writable=True)
            place = blocks[0]
            given = place.part(place.count * size, place.displacement)
        else:
            place = buffers.elements(recvbuf, writable=True)
            given = buffers.elements(sendbuf)
        yield from self._scattered(r, given, place, [place.count] * size, op)

    def reduce_scatter_(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Any = MPI.SUM,
    ) -> Steps:
        """Combine, and give each rank its part."""
        r = self.round()
        place = buffers.elements(recvbuf, writable=True)
        given = self._gives(sendbuf, recvbuf)
        if recvcounts is None:
            texts = yield from algorithms.allgather(r.inside(), str(place.count).encode())
            recvcounts = [int(text) for text in map(bytes, texts)]
        if len(recvcounts) != len(self.local):
            raise ValueError(f"expecting {len(self.local)} items, got {len(recvcounts)}")
        if sum(recvcounts) != given.count:
            raise ValueError(
                f"mismatch in send count {given.count} and sum(counts) {sum(recvcounts)}"
            )
        yield from self._scattered(r, given, place, recvcounts, op)

    def _scattered(
        self, r: Round, given: Elements, place: Elements, counts: Sequence[int], op: Any
    ) -> Steps:
        inside = r.inside()
        found = yield from algorithms.reduce(inside, given.raw(), _combine(op, given), 0)
        if self.inter and r.rank == 0:
            sent, arriving = r.send(found, 0), r.receive(0)
            yield sent, arriving
            found = arriving.result
        parts = None
        if r.rank == 0:
            parts, at = [], 0
            for count in counts:
                parts.append(memoryview(found)[at * given.extent : (at + count) * given.extent])
                at += count
        mine = yield from algorithms.scatter(inside, parts, 0)
        count = counts[r.rank]
        place.part(count, place.displacement).put_raw(mine)

    def scan_(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM) -> Steps:
        """Combine with all ranks before."""
        r = self.round()
        place = buffers.elements(recvbuf, writable=True)
        given = self._gives(sendbuf, recvbuf)
        _, found = yield from algorithms.scan(r, given.raw(), _combine(op, given))
        place.put_raw(found)

    def exscan_(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM) -> Steps:
        """Combine all ranks before."""
        r = self.round()
        place = buffers.elements(recvbuf, writable=True)
        given = self._gives(sendbuf, recvbuf)
        before, _ = yield from algorithms.scan(r, given.raw(), _combine(op, given))
        if before is not None:
            place.put_raw(before)
