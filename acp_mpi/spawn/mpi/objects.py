"""Collectives of a communicator of several groups, on pickled objects."""

from __future__ import annotations

from acp_mpi.comm.collectives import moves, objects
from acp_mpi.comm.collectives.operations import operation_of
from acp_mpi.spawn.mpi.collectives import Collectives
from acp_mpi.spawn.mpi.original import MPI
from acp_mpi.spawn.mpi.running import carry_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_CONTEXTS = 2  # that a collective of objects takes


class Objects(Collectives):
    """The methods in lower case."""

    def _top(self, root: int) -> Any:
        """Return the rank in the job of a root, None for PROC_NULL, which has nothing to do.

        Who does not come further has counted the call like the others.
        """
        self.check()
        try:
            rank = self.root_of(root)
        except MPI.Exception:
            self._count()
            raise
        if rank is None:
            self._count()
        return rank

    def _count(self) -> None:
        for _ in range(_CONTEXTS):
            self.teams.everybody.context()

    def barrier(self) -> None:
        self.check()
        carry_out(moves.barrier("barrier", self.teams.everybody))

    def bcast(self, obj: Any, root: int = 0) -> Any:
        if (rank := self._top(root)) is None:
            return None
        found = carry_out(objects.bcast("bcast", self.teams.everybody, obj, rank))
        return None if self.inter and self.from_root(root)[0] else found

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        if (rank := self._top(root)) is None:
            return None
        found: list[Any] | None = carry_out(
            objects.gather("gather", self.teams.everybody, sendobj, rank)
        )
        return found

    def _for_each(self, sendobj: Sequence[Any] | None) -> Sequence[Any]:
        return [None] * len(self.peers) if sendobj is None else sendobj

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        if (rank := self._top(root)) is None:
            return None
        parts = self._for_each(sendobj)
        return carry_out(objects.scatter("scatter", self.teams.everybody, parts, rank))

    def allgather(self, sendobj: Any) -> list[Any]:
        self.check()
        found: list[Any] = carry_out(objects.allgather("allgather", self.teams.everybody, sendobj))
        return found

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        self.check()
        parts = self._for_each(sendobj)
        found: list[Any] = carry_out(objects.alltoall("alltoall", self.teams.everybody, parts))
        return found

    def reduce(self, sendobj: Any, op: Any = MPI.SUM, root: int = 0) -> Any:
        if (rank := self._top(root)) is None:
            return None
        how = operation_of(op, "reduce")
        return carry_out(objects.reduce("reduce", self.teams.everybody, sendobj, how, rank))

    def allreduce(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        self.check()
        how = operation_of(op, "allreduce")
        return carry_out(objects.allreduce("allreduce", self.teams.everybody, sendobj, how))

    def scan(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        self.check()
        self.check_order()
        how = operation_of(op, "scan")
        return carry_out(objects.scan("scan", self.teams.everybody, sendobj, how))

    def exscan(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        self.check()
        self.check_order()
        how = operation_of(op, "exscan")
        return carry_out(objects.exscan("exscan", self.teams.everybody, sendobj, how))
