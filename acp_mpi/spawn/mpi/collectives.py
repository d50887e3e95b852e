"""Collectives of a communicator of several groups, on mpi4py's buffers.

Each is one generator; the blocking, the non-blocking and the persistent method are made of it.
"""

from __future__ import annotations

from acp_mpi.spawn.mpi import buffers
from acp_mpi.spawn.mpi.addresses import fail
from acp_mpi.spawn.mpi.original import MPI
from acp_mpi.spawn.mpi.point_to_point import PointToPoint
from acp_mpi.spawn.mpi.prequests import Prequest
from acp_mpi.spawn.mpi.reductions import Reductions, in_place
from acp_mpi.spawn.mpi.requests import Request
from acp_mpi.spawn.mpi.work import Running, finish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from acp_mpi.spawn.mpi.work import Steps

    _Blocks: TypeAlias = Callable[..., Any]


class Collectives(PointToPoint, Reductions):
    """What all members of a communicator call together."""

    def from_root(self, root: int) -> tuple[bool, bool]:
        """Return whether this rank gives something, and whether it gets something."""
        if not self.inter:
            self._check_root(root, len(self.local))
            return root == self.local.rank, root != self.local.rank
        if root in (MPI.ROOT, MPI.PROC_NULL):
            return root == MPI.ROOT, False
        self._check_root(root, len(self.peers))
        return False, True

    def to_root(self, root: int) -> tuple[bool, bool]:
        """Return whether this rank gives something, and whether it gets something."""
        if not self.inter:
            self._check_root(root, len(self.local))
            return True, root == self.local.rank
        gets, gives = self.from_root(root)
        return gives, gets

    def _check_root(self, root: int, size: int) -> None:
        if not 0 <= root < size:
            fail(MPI.ERR_ROOT)

    def barrier_(self) -> Steps:
        """Meet."""
        yield from self.between.barrier(self.round())

    def bcast_(self, buf: Any, root: int = 0) -> Steps:
        """Give what one rank has to all."""
        r = self.round()
        gives, gets = self.from_root(root)
        place = buffers.elements(buf, writable=gets) if gives or gets else None
        data = place.pack() if place and gives else None
        found = yield from self.between.bcast(r, data, root)
        if place and gets:
            place.unpack(found)

    def _gather(self, sendbuf: Any, recvbuf: Any, root: int, blocks_of: _Blocks) -> Steps:
        r = self.round()
        gives, gets = self.to_root(root)
        blocks = blocks_of(recvbuf, len(self.peers), writable=True) if gets else []
        here = gives and gets and in_place(sendbuf)
        data = None
        if here:
            data = blocks[self.local.rank].pack()
        elif gives:
            data = buffers.elements(sendbuf).pack()
        found = yield from self.between.gather(r, data, root)
        for rank, block in enumerate(blocks):
            if not (here and rank == self.local.rank):
                block.unpack(found[rank])

    def gather_(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Steps:
        """Collect equal parts at one rank."""
        return self._gather(sendbuf, recvbuf, root, buffers.equal_blocks)

    def gatherv_(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Steps:
        """Collect parts at one rank."""
        return self._gather(sendbuf, recvbuf, root, buffers.unequal_blocks)

    def _scatter(self, sendbuf: Any, recvbuf: Any, root: int, blocks_of: _Blocks) -> Steps:
        r = self.round()
        gives, gets = self.from_root(root)
        keeps = gives and not self.inter  # its own part, too
        parts = None
        if gives:
            parts = [block.pack() for block in blocks_of(sendbuf, len(self.peers))]
        place = None
        if gets or (keeps and not in_place(recvbuf)):
            place = buffers.elements(recvbuf, writable=True)
        found = yield from self.between.scatter(r, parts, root)
        if place:
            place.unpack(found)

    def scatter_(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Steps:
        """Hand out equal parts."""
        return self._scatter(sendbuf, recvbuf, root, buffers.equal_blocks)

    def scatterv_(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Steps:
        """Hand out parts."""
        return self._scatter(sendbuf, recvbuf, root, buffers.unequal_blocks)

    def _allgather(self, sendbuf: Any, recvbuf: Any, blocks_of: _Blocks) -> Steps:
        r = self.round()
        blocks = blocks_of(recvbuf, len(self.peers), writable=True)
        here = not self.inter and in_place(sendbuf)
        own = blocks[self.local.rank].pack() if here else buffers.elements(sendbuf).pack()
        found = yield from self.between.allgather(r, own)
        for rank, block in enumerate(blocks):
            if not (here and rank == self.local.rank):
                block.unpack(found[rank])

    def allgather_(self, sendbuf: Any, recvbuf: Any) -> Steps:
        """Collect equal parts everywhere."""
        return self._allgather(sendbuf, recvbuf, buffers.equal_blocks)

    def allgatherv_(self, sendbuf: Any, recvbuf: Any) -> Steps:
        """Collect parts everywhere."""
        return self._allgather(sendbuf, recvbuf, buffers.unequal_blocks)

    def _alltoall(self, sendbuf: Any, recvbuf: Any, blocks_of: _Blocks) -> Steps:
        r = self.round()
        size = len(self.peers)
        blocks = blocks_of(recvbuf, size, writable=True)
        if not self.inter and in_place(sendbuf):
            parts = [bytes(block.pack()) for block in blocks]
        else:
            parts = [block.pack() for block in blocks_of(sendbuf, size)]
        found = yield from self.between.alltoall(r, parts)
        for block, data in zip(blocks, found, strict=True):
            block.unpack(data)

    def alltoall_(self, sendbuf: Any, recvbuf: Any) -> Steps:
        """Exchange equal parts, each with each."""
        return self._alltoall(sendbuf, recvbuf, buffers.equal_blocks)

    def alltoallv_(self, sendbuf: Any, recvbuf: Any) -> Steps:
        """Exchange parts, each with each."""
        return self._alltoall(sendbuf, recvbuf, buffers.unequal_blocks)

    def alltoallw_(self, sendbuf: Any, recvbuf: Any) -> Steps:
        """Exchange parts that have a datatype each."""
        return self._alltoall(sendbuf, recvbuf, buffers.typed_blocks)


def _methods(name: str, steps: Callable[..., Steps]) -> dict[str, Any]:
    """Return the three methods that MPI makes of a collective."""

    def blocking(self: Any, *given: Any, **named: Any) -> None:
        self.check()
        finish(Running(steps(self, *given, **named)))

    def begun(self: Any, *given: Any, **named: Any) -> Running:
        self.check()
        work = Running(steps(self, *given, **named))
        if work.error is not None:
            raise work.error
        return work

    def immediate(self: Any, *given: Any, **named: Any) -> Any:
        return Request._of(begun(self, *given, **named))

    def persistent(self: Any, *given: Any, info: Any = None, **named: Any) -> Any:
        return Prequest._of(lambda: begun(self, *given, **named))

    return {name: blocking, f"I{name.lower()}": immediate, f"{name}_init": persistent}


for _name in (
    "Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv",
    "Alltoall", "Alltoallv", "Alltoallw", "Reduce", "Allreduce", "Reduce_scatter_block",
    "Reduce_scatter", "Scan", "Exscan",
):  # fmt: skip
    for _method, _function in _methods(_name, getattr(Collectives, f"{_name.lower()}_")).items():
        setattr(Collectives, _method, _function)
