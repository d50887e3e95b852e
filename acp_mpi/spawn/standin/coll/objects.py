"""Collectives of a communicator of several groups, on pickled objects."""

from __future__ import annotations

from acp_mpi.comm.collectives import moves, objects
from acp_mpi.comm.collectives.counted import counted
from acp_mpi.comm.collectives.operations import operation_of
from acp_mpi.comm.collectives.parting import part
from acp_mpi.spawn.standin.coll.collectives import Collectives
from acp_mpi.spawn.standin.coll.running import carry_out
from acp_mpi.spawn.standin.family import MPI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from acp_mpi.spawn.standin.coll.running import Flow


class Objects(Collectives):
    """All collectives of one communicator; here those in lower case."""

    def call(self, name: str, arguments: Callable[[], tuple[Any, ...]], root: int = 0) -> Any:
        """Carry one out; arguments that are refused have been counted, and all members are told.

        PROC_NULL as the root has nothing to do.
        """
        self.check()
        team, flow = self.teams.everybody, getattr(objects, name)

        def of(context: int) -> Flow:
            if self.inter and root == MPI.PROC_NULL:
                return _nothing()
            begun: Flow = flow(name, team, context, *arguments())
            return begun

        return carry_out(counted(name, team, of))

    def among_local(self, name: str, thing: Any) -> list[Any]:
        """Return what each of the local group gives to the collective `name`."""
        team = self.teams.inside
        found: list[Any] = carry_out(
            counted(name, team, lambda context: objects.allgather(name, team, context, thing))
        )
        return found

    def part(self) -> None:
        """Meet for the last time: the members may end at any time afterwards."""
        carry_out(part("Disconnect", self.teams.parting()))

    def barrier(self) -> None:
        self.check()
        team = self.teams.everybody
        carry_out(counted("barrier", team, lambda context: moves.barrier("barrier", team, context)))

    def bcast(self, obj: Any, root: int = 0) -> Any:
        found = self.call("bcast", lambda: (obj, self.root_of(root)), root)
        return None if self.inter and self.from_root(root)[0] else found

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        found: list[Any] | None = self.call("gather", lambda: (sendobj, self.root_of(root)), root)
        return found

    def _for_each(self, sendobj: Sequence[Any] | None) -> Sequence[Any]:
        return [None] * len(self.peers) if sendobj is None else sendobj

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        parts = self._for_each(sendobj)
        return self.call("scatter", lambda: (parts, self.root_of(root)), root)

    def allgather(self, sendobj: Any) -> list[Any]:
        found: list[Any] = self.call("allgather", lambda: (sendobj,))
        return found

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        parts = self._for_each(sendobj)
        found: list[Any] = self.call("alltoall", lambda: (parts,))
        return found

    def reduce(self, sendobj: Any, op: Any = MPI.SUM, root: int = 0) -> Any:
        return self.call(
            "reduce", lambda: (sendobj, operation_of(op, "reduce"), self.root_of(root)), root
        )

    def allreduce(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        return self.call("allreduce", lambda: (sendobj, operation_of(op, "allreduce")))

    def scan(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        self.check_order()
        return self.call("scan", lambda: (sendobj, operation_of(op, "scan")))

    def exscan(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        self.check_order()
        return self.call("exscan", lambda: (sendobj, operation_of(op, "exscan")))


def _nothing() -> Flow:
    yield from ()
