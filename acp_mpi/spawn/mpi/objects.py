"""Collectives of a communicator of several groups, on pickled objects."""

from __future__ import annotations

from acp_mpi.comm.collectives import moves, objects
from acp_mpi.comm.collectives.counted import counted
from acp_mpi.comm.collectives.operations import operation_of
from acp_mpi.spawn.mpi.collectives import Collectives
from acp_mpi.spawn.mpi.original import MPI
from acp_mpi.spawn.mpi.running import carry_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


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
            self.teams.everybody.context()
            raise
        if rank is None:
            self.teams.everybody.context()
        return rank

    def _carry_out(self, name: str, *given: Any) -> Any:
        team, flow = self.teams.everybody, getattr(objects, name)
        return carry_out(counted(name, team, lambda context: flow(name, team, context, *given)))

    def barrier(self) -> None:
        self.check()
        carry_out(moves.barrier("barrier", self.teams.everybody))

    def bcast(self, obj: Any, root: int = 0) -> Any:
        if (rank := self._top(root)) is None:
            return None
        found = self._carry_out("bcast", obj, rank)
        return None if self.inter and self.from_root(root)[0] else found

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        if (rank := self._top(root)) is None:
            return None
        found: list[Any] | None = self._carry_out("gather", sendobj, rank)
        return found

    def _for_each(self, sendobj: Sequence[Any] | None) -> Sequence[Any]:
        return [None] * len(self.peers) if sendobj is None else sendobj

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        if (rank := self._top(root)) is None:
            return None
        parts = self._for_each(sendobj)
        return self._carry_out("scatter", parts, rank)

    def allgather(self, sendobj: Any) -> list[Any]:
        self.check()
        found: list[Any] = self._carry_out("allgather", sendobj)
        return found

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        self.check()
        parts = self._for_each(sendobj)
        found: list[Any] = self._carry_out("alltoall", parts)
        return found

    def reduce(self, sendobj: Any, op: Any = MPI.SUM, root: int = 0) -> Any:
        if (rank := self._top(root)) is None:
            return None
        how = operation_of(op, "reduce")
        return self._carry_out("reduce", sendobj, how, rank)

    def allreduce(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        self.check()
        how = operation_of(op, "allreduce")
        return self._carry_out("allreduce", sendobj, how)

    def scan(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        self.check()
        self.check_order()
        how = operation_of(op, "scan")
        return self._carry_out("scan", sendobj, how)

    def exscan(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        self.check()
        self.check_order()
        how = operation_of(op, "exscan")
        return self._carry_out("exscan", sendobj, how)
