"""Collectives of a communicator of several groups, on pickled objects."""

from __future__ import annotations

from acp_mpi.spawn.mpi import algorithms
from acp_mpi.spawn.mpi.collectives import Collectives
from acp_mpi.spawn.mpi.original import MPI
from acp_mpi.spawn.mpi.work import Running, finish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from acp_mpi.spawn.mpi.work import Steps


def _dumps(thing: Any) -> Any:
    return MPI.pickle.dumps(thing)


def _loads(data: Any) -> Any:
    return MPI.pickle.loads(data)


def _combine(op: Callable[[Any, Any], Any]) -> algorithms.Combine:
    return lambda first, second: _dumps(op(_loads(first), _loads(second)))


class Objects(Collectives):
    """The methods in lower case."""

    def _run(self, steps: Steps) -> Any:
        self.check()
        return finish(Running(steps))

    def barrier(self) -> None:
        self._run(self.barrier_())

    def bcast(self, obj: Any, root: int = 0) -> Any:
        return self._run(self._bcast_object(obj, root))

    def _bcast_object(self, obj: Any, root: int) -> Steps:
        r = self.round()
        gives, gets = self.from_root(root)
        data = _dumps(obj) if gives else None
        found = yield from self.between.bcast(r, data, root)
        return _loads(found) if gets or (gives and not self.inter) else None

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        found: list[Any] | None = self._run(self._gather_objects(sendobj, root))
        return found

    def _gather_objects(self, sendobj: Any, root: int) -> Steps:
        r = self.round()
        gives, gets = self.to_root(root)
        data = _dumps(sendobj) if gives else None
        found = yield from self.between.gather(r, data, root)
        return [_loads(each) for each in found] if gets else None

    def _parts(self, sendobj: Sequence[Any] | None) -> list[Any]:
        count = len(self.peers)
        if sendobj is None:
            return [_dumps(None)] * count
        things = list(sendobj)
        if len(things) != count:
            raise ValueError(f"expecting {count} items, got {len(things)}")
        return [_dumps(each) for each in things]

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        return self._run(self._scatter_objects(sendobj, root))

    def _scatter_objects(self, sendobj: Sequence[Any] | None, root: int) -> Steps:
        r = self.round()
        gives, gets = self.from_root(root)
        parts = self._parts(sendobj) if gives else None
        found = yield from self.between.scatter(r, parts, root)
        return _loads(found) if gets or (gives and not self.inter) else None

    def allgather(self, sendobj: Any) -> list[Any]:
        found: list[Any] = self._run(self._allgather_objects(sendobj))
        return found

    def _allgather_objects(self, sendobj: Any) -> Steps:
        found = yield from self.between.allgather(self.round(), _dumps(sendobj))
        return [_loads(each) for each in found]

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        found: list[Any] = self._run(self._alltoall_objects(sendobj))
        return found

    def _alltoall_objects(self, sendobj: Sequence[Any]) -> Steps:
        r = self.round()
        found = yield from self.between.alltoall(r, self._parts(sendobj))
        return [_loads(each) for each in found]

    def reduce(self, sendobj: Any, op: Any = MPI.SUM, root: int = 0) -> Any:
        return self._run(self._reduce_objects(sendobj, op, root))

    def _reduce_objects(self, sendobj: Any, op: Any, root: int) -> Steps:
        r = self.round()
        gives, gets = self.to_root(root)
        data = _dumps(sendobj) if gives else None
        found = yield from self.between.reduce(r, data, _combine(op), root)
        return _loads(found) if gets else None

    def allreduce(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        return self._run(self._allreduce_objects(sendobj, op))

    def _allreduce_objects(self, sendobj: Any, op: Any) -> Steps:
        data = _dumps(sendobj)
        return _loads((yield from self.between.allreduce(self.round(), data, _combine(op))))

    def scan(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        return self._run(self._scan_objects(sendobj, op, 1))

    def exscan(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        return self._run(self._scan_objects(sendobj, op, 0))

    def _scan_objects(self, sendobj: Any, op: Any, which: int) -> Steps:
        both = yield from algorithms.scan(self.round(), _dumps(sendobj), _combine(op))
        return None if both[which] is None else _loads(both[which])
