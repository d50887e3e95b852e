"""The rank's side of a delegate: its commands."""

from __future__ import annotations

import os
import threading
from operator import index
from typing import TYPE_CHECKING, Any, Self

from acp_mpi.delegates import collectives
from acp_mpi.delegates.frames import COMMAND, SHORT_FOLD
from acp_mpi.delegates.lines import Channels, Line, Threads
from acp_mpi.delegates.memory import Part, place_of, release
from acp_mpi.delegates.requests import DelegateRequest, filled
from acp_mpi.delegates.start import rank_of_delegate
from acp_mpi.engine import _engine
from acp_mpi.errors import ClosedError
from acp_mpi.job import membership
from acp_mpi.util import lifecycle
from acp_mpi.util.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import SupportsIndex, Unpack

    from acp_mpi.comm.collectives.signatures import Op
    from acp_mpi.delegates.collectives import How
    from acp_mpi.delegates.ring import DelegateRing
    from acp_mpi.job.join import Group

_current: dict[bool, Delegate] = {}  # of this process: `local`, or not
_lock = threading.Lock()


class DelegateStatistics(Record):
    """Of a delegate: `commands` so far, bytes `read` and `written`, `pending` commands, and more.

    `memory`: bytes of copies that are not written yet; `processor`: seconds of its process.
    """

    __slots__ = ("commands", "memory", "pending", "processor", "read", "written")

    def __init__(
        self, commands: int, read: int, written: int, pending: int, memory: int, processor: float
    ) -> None:
        self.commands, self.read, self.written = commands, read, written
        self.pending, self.memory, self.processor = pending, memory, processor


class Delegate:
    """A process of this node, or a thread, that executes commands while the program goes on.

    Each command returns a request at once; `wait()` gives its result or raises its error. The
    commands of a rank begin in their order, and those of one file follow each other. `after`: a
    command of this rank that is to be over before.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._closed = False
        self._collectives = collectives.Collectives(self._begin, line.rank is None, line.prepares)

    @property
    def rank(self) -> int | None:
        """The rank of its process; None: it is threads of this one."""
        return self._line.rank

    @property
    def lost(self) -> bool:
        """Whether its process has died: `acp.delegate()` starts another."""
        rank = self.rank
        return self._line.loss is not None or (rank is not None and not _engine.is_alive(rank))

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def ping(self) -> DelegateRequest:
        """Do nothing, there and back."""
        return self._begin("ping", "ping")

    def load(
        self,
        path: str | os.PathLike[str],
        out: Any,
        *,
        at: int = 0,
        key: str | None = None,
        after: DelegateRequest | None = None,
    ) -> DelegateRequest:
        """Read a file into `out`: an array, a key, a remote array, or (address, bytes).

        A `.npy` file has elements of the type of `out`, and is read from element `at` on; others
        are bytes, and `at` counts elements of `out`. `key` is a dataset of HDF5. Nothing is written
        before type and length are found right. `out` may be memory of a device; this call waits
        then for what that is to do.
        """
        name = _path(path)
        ga, nbytes, dtype, _, keep = place_of(out, "load", write=True)
        return self._begin(
            "load", f"load of {name}", name, ga, nbytes, dtype, at, key, after=after, keep=keep
        )

    def save(
        self,
        path: str | os.PathLike[str],
        x: Any,
        *,
        at: int = 0,
        shape: Sequence[int] | None = None,
        parts: int | None = None,
        key: str | None = None,
        snapshot: bool = True,
        after: DelegateRequest | None = None,
    ) -> DelegateRequest:
        """Write `x`: an array, a key, a remote array, or (address, bytes); to `.npy` with its type.

        The request's `copied()` returns when `x` may change, `wait()` when it is on disk. Several
        ranks of a node write one file where each gives the `shape` of the whole and its first
        element `at`; it is there when the last of `parts` is, or after `commit`, and until then
        called `path.part`. Without `snapshot` it is written from where it lies. `x` may be memory
        of a device; this call waits then for what that is to do.
        """
        name = _path(path)
        whole = None if shape is None else tuple(map(int, shape))
        if parts is not None and index(parts) < 1:
            raise ValueError(f"save: parts={parts}; a file has at least one")
        ga, nbytes, dtype, extent, keep = place_of(x, "save", write=self._line.prepares)
        part = Part(ga, nbytes, dtype, extent, at, whole, parts, key)
        return self._begin("save", f"save of {name}", name, part, snapshot, after=after, keep=keep)

    def commit(
        self, path: str | os.PathLike[str], *, after: DelegateRequest | None = None
    ) -> DelegateRequest:
        """Give a file of several parts its place; ValueError if one is missing."""
        name = _path(path)
        return self._begin("commit", f"commit of {name}", name, after=after)

    def checkpoint(
        self,
        name: str | os.PathLike[str],
        items: Mapping[str, Any],
        step: SupportsIndex,
        *,
        after: DelegateRequest | None = None,
    ) -> DelegateRequest:
        """Keep `items`, arrays and containers, in the folder `name`; all ranks of the job do.

        The k-th of each rank belong together, of the same `step`. Arrays may change when `copied()`
        returns, containers are read by this call; `wait()`: what the ranks of this node gave is on
        disk. The folder keeps two steps that are whole, and is one that all nodes see.
        """
        from acp_mpi.delegates import states

        share = states.share_of(self, _path(name), items, step)
        text = f"checkpoint of {_path(name)}, step {share.command.key.step}"
        return self._begin(
            "checkpoint", text, _path(name), share.command, after=after, keep=share.keep
        )

    def restore(
        self,
        name: str | os.PathLike[str],
        items: Mapping[str, Any],
        *,
        at: Mapping[str, int] | None = None,
        shape: Mapping[str, Sequence[int]] | None = None,
    ) -> int:
        """Fill `items` with what the newest whole checkpoint in `name` has; return its step.

        All ranks of the job call it, and all get the same step. An array of which `at` and `shape`
        are given is, from element `at` on, a part of the array of that shape that the ranks had,
        one after the other. FileNotFoundError: there is none; ValueError, TypeError: it has other
        arrays. A container gets the contents in place of its own; objects are unpickled.
        """
        from acp_mpi.delegates import states

        return states.restore(self, _path(name), items, at or {}, shape or {})

    def call(
        self, name: str, *arguments: Any, after: DelegateRequest | None = None
    ) -> DelegateRequest:
        """Call the function "module:function" at the delegate; arguments and result are pickled."""
        if not all(str(name).partition(":")):
            raise ValueError(f'call: {name!r:.60} is not "module:function"')
        return self._begin("call", f"call of {name}", name, arguments, after=after)

    def spawn(
        self,
        command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        n: int = 1,
        *,
        after: DelegateRequest | None = None,
        **how: Any,
    ) -> DelegateRequest:
        """Start a group that joins this job, as `acp.spawn_group`; `wait()` returns the Group.

        `how`: the keywords of `spawn_group`.
        """
        how["env"] = {"ACP_SERVICE": "0", **(how.get("env") or {})}
        how["wdir"] = os.path.abspath(os.fsdecode(how.get("wdir") or os.curdir))
        text, function = f"spawn of {command!r:.60}", "acp_mpi.delegates.start:spawn"
        arguments = (command, n, how)
        return self._begin("call", text, function, arguments, after=after, finish=_group)

    # Collectives. `how`: `ranks`, those that call it, by default all that live, and
    # `after`. The k-th calls of equal `ranks` meet. Folding is in the order of the ranks.

    def barrier(self, **how: Unpack[How]) -> DelegateRequest:
        """Meet: it is over when all ranks have called it."""
        return self._collectives.begin("barrier", lambda made: None, **how)

    def bcast(
        self, x: Any, root: SupportsIndex | None = None, **how: Unpack[How]
    ) -> DelegateRequest:
        """Give `x` of rank `root`, by default the first, to `x` of all; `wait()` returns it."""
        return self._collectives.begin(
            "bcast", lambda made: collectives.bcast(made, x, root), **how
        )

    def reduce(
        self,
        x: Any,
        op: Op = "sum",
        root: SupportsIndex | None = None,
        *,
        out: Any = None,
        **how: Unpack[How],
    ) -> DelegateRequest:
        """Fold `x` of all ranks by `op`; `wait()` returns the result at `root`, else `out`."""
        return self._collectives.begin(
            "reduce",
            lambda made: collectives.fold(made, x, op, out, made.team.place(root, "reduce")),
            **how,
        )

    def allreduce(
        self, x: Any, op: Op = "sum", *, out: Any = None, **how: Unpack[How]
    ) -> DelegateRequest:
        """Fold `x` of all ranks by `op`, as `acp.allreduce`; `wait()` returns the result on all.

        `x` and `out` may be the same array, and must not change until it is over.
        """
        if not how:
            plan, out = self._collectives.known_fold("allreduce", x, op, out)
            if plan and not self._closed:
                given = x.tobytes() if x.nbytes <= collectives.SHORT else b""
                return self._line.begin(SHORT_FOLD, plan + given, "allreduce", (x, out), filled)
        return self._collectives.begin(
            "allreduce", lambda made: collectives.fold(made, x, op, out), **how
        )

    def gather(
        self, x: Any, root: SupportsIndex | None = None, *, out: Any = None, **how: Unpack[How]
    ) -> DelegateRequest:
        """Bring `x` of all ranks to `root`; `wait()` returns an array of them there, else `out`."""
        return self._collectives.begin(
            "gather", lambda made: collectives.gather(made, x, root, out), **how
        )

    def ring(self, slots: SupportsIndex = 8, *, device: Any = None) -> DelegateRing:
        """Return a ring of that many slots: kernels begin prepared commands by storing a number.

        `device`: whose kernels do: a context or a queue of pyopencl, or what `acp.device_pointer`
        takes, "cuda" by default. DeviceError where that device keeps a copy of host memory.
        """
        from acp_mpi.delegates.ring import DelegateRing

        self._demand("ring")
        return DelegateRing(self, self._line, slots, device)

    def statistics(self) -> DelegateStatistics:
        """Return what it has done so far, for all ranks; waits for the answer."""
        return DelegateStatistics(*self._begin("statistics", "statistics").wait())

    def _begin(
        self,
        name: str,
        text: str,
        *arguments: Any,
        after: DelegateRequest | None = None,
        keep: Any = None,
        finish: Callable[[Any, Any], Any] | None = None,
    ) -> DelegateRequest:
        if self._closed:
            release(keep)
            self._demand(name)
        what = name, None if after is None else after._number, arguments
        return self._line.begin(COMMAND, what, text, keep, finish)

    def _demand(self, function: str) -> None:
        if self._closed:
            raise ClosedError(f"{function}: this delegate is closed; call acp.delegate() for it")

    def close(self) -> None:
        """Close its rings, wait for what is under way, and raise the first error nobody waited for.

        The process serves the other ranks of the node as before.
        """
        if self._closed:
            return
        self._closed = True
        for local, delegate in list(_current.items()):
            if delegate is self:
                del _current[local]
        self._end_rings()
        self._line.wait(lambda: not self._line.open, None)
        self._line.close()
        for request in self._line.failed:
            if not request.claimed:
                request.wait(0.0)

    def _end_rings(self) -> None:
        for ring in list(self._line.rings.values()):
            ring.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        where = "threads of this process" if self.rank is None else f"rank {self.rank}"
        state = (
            "closed" if self._closed else "lost" if self.lost else f"{len(self._line.open)} pending"
        )
        return f"<acp_mpi.Delegate {where}, {state}>"


def _group(keep: Any, name: str) -> Group:
    return membership.group(name)


def _path(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.fsdecode(path))


def delegate(*, start: bool = True, timeout: float | None = None, local: bool = False) -> Delegate:
    """Return the delegate of this node: one process that executes commands of all its ranks.

    The first rank that calls it starts the process, unless `start` is False: Error if there is none
    then. It is a service: `acp.ranks()` leaves it out, and it ends when the ranks of its node have.
    `local`: threads of this process in its place. TimeoutError after `timeout` seconds
    (`ACP_JOIN_TIMEOUT`).
    """
    _engine.demand("delegate")
    job = membership.job()
    with _lock:
        known = _current.get(local)
        if known is None or known.lost:
            if local:
                line: Line = Threads(job.delegate_memory or _engine.memory_total() // 8)
            else:
                given = timeout is not None
                limit = _engine.seconds_of(timeout, "delegate") if given else job.place.timeout
                line = Channels(rank_of_delegate(start, limit))
            known = _current[local] = Delegate(line)
        return known


@lifecycle.on_end
def _close_all() -> None:
    error: Exception | None = None
    for known in list(_current.values()):
        try:
            known.close()
        except Exception as caught:
            error = error or caught
    if error is not None:
        raise error


@lifecycle.on_reset
def _end_rings() -> None:
    for known in _current.values():  # with threads of this process: the other is in the way
        known._end_rings()
