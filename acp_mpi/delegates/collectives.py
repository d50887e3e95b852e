"""Collectives as a rank asks a delegate for them: names, operations and errors as of `acp`'s own.

Short arrays go with the command and the answer; of others the delegate gets the address.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from acp_mpi.comm.collectives.operations import operation_of
from acp_mpi.comm.collectives.sizes import fits
from acp_mpi.comm.collectives.team import team_of
from acp_mpi.delegates.meetings import ANSWERED, Call
from acp_mpi.delegates.memory import place_of, release
from acp_mpi.engine import _engine
from acp_mpi.job.rendezvous.row import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import SupportsIndex, TypedDict

    from acp_mpi.comm.collectives.team import Team
    from acp_mpi.delegates.requests import DelegateRequest

    class How(TypedDict, total=False):
        """What all take."""

        ranks: Iterable[SupportsIndex] | None
        after: DelegateRequest | None


SHORT = 64  # bytes


class Prepared:
    """A call, what is kept until it is over, and what makes its result."""

    def __init__(self, kind: str, team: Team) -> None:
        self.team = team
        self.call = Call(kind, team.ranks, team.me)
        self.keep: list[Any] = []
        self.result: Any = None
        self._answered: Any = None  # the array that the answer's bytes go to

    def set(self, **what: Any) -> None:
        """Say more of the call."""
        self.call = self.call._replace(**what)

    def give(self, x: Any) -> tuple[int, ...]:
        """Take in what the rank gives; return its shape."""
        array = _array(x)
        if array is not None and array.nbytes <= SHORT:
            self.set(given=array.tobytes(), nbytes=array.nbytes, dtype=_text_of(array.dtype))
            return tuple(array.shape)
        ga, nbytes, dtype, shape, keep = place_of(x, self.call.kind, write=False)
        self.keep.append(keep)
        self.set(given=ga, nbytes=nbytes, dtype=_text_of(dtype))
        return shape

    def want(self, out: Any) -> tuple[int, Any]:
        """Say where the result goes; return its bytes, and their type."""
        import numpy

        if (
            isinstance(out, numpy.ndarray)
            and out.nbytes <= SHORT
            and out.flags.writeable
            and not out.dtype.hasobject
        ):
            self._answered = out
            self.set(wanted=ANSWERED)
            return out.nbytes, out.dtype
        ga, nbytes, dtype, _, keep = place_of(out, self.call.kind, write=True)
        self.keep.append(keep)
        self.set(wanted=ga)
        return nbytes, dtype

    def fill(self, out: Any, x: Any, n: int = 1) -> None:
        """Say where the result goes, and that it has the type and `n` times the bytes of `x`."""
        import numpy

        call = self.call
        if _array(out) is not None and _array(x) is not None and isinstance(call.given, int):
            same = out is x
            if not same and numpy.may_share_memory(out, x):
                release(self.keep.pop())
                self.give(numpy.array(x))
                call = self.call
            elif same and n == 1 and x.flags.c_contiguous and x.flags.writeable:
                self.set(wanted=call.given)
                self.result = out
                return
        nbytes, dtype = self.want(out)
        width = 1 if dtype is None else dtype.itemsize
        fits(call.kind, "out", nbytes, n * call.nbytes, width)
        if None not in (dtype, call.dtype) and _text_of(dtype) != call.dtype:
            raise TypeError(
                f"{call.kind}: x has elements of type {numpy.dtype(call.dtype)} and out of "
                f"{dtype}; give both the same type"
            )
        self.result = out

    def finish(self, answer: bytes | None) -> Any:
        """Return the result, which the answer may bring."""
        if answer is not None:
            import numpy

            out = self._answered
            out[...] = numpy.frombuffer(answer, out.dtype).reshape(out.shape)
        return self.result


def _array(x: Any) -> Any:
    """Return an array of this process's, or a number, as such; None: it is something else."""
    import numpy

    if isinstance(x, numpy.ndarray | numpy.generic | float | int | complex):
        array = numpy.asarray(x)
        return None if array.dtype.hasobject else array
    return None


def _text_of(dtype: Any) -> Any:
    """Return a type in few bytes."""
    if dtype is None or dtype.names is not None or dtype.subdtype is not None:
        return dtype
    return dtype.str


def bcast(made: Prepared, x: Any, root: Any) -> None:
    """Give `x` of the root to all, in place."""
    made.set(root=made.team.place(root, "bcast"))
    if made.team.me == made.call.root:
        made.give(x)
    else:
        nbytes, dtype = made.want(x)
        made.set(nbytes=nbytes, dtype=_text_of(dtype))
    made.result = x


def fold(made: Prepared, x: Any, op: Any, out: Any, root: int = -1) -> None:
    """Fold `x` of all: at the place `root`, or on all."""
    import numpy

    kind = made.call.kind
    operation = operation_of(op, kind)
    shape = made.give(x)
    if made.call.dtype is None:
        raise TypeError(f"{kind}: {operation.name} of bytes; give an array, or a remote array")
    dtype = numpy.dtype(made.call.dtype)
    operation.folder(kind, dtype, shape)
    made.set(
        root=root,
        op=operation.name if operation.code >= 0 else operation.op,
        shape=None if operation.divides else shape,
    )
    if root in (-1, made.team.me):
        made.fill(numpy.empty(shape, dtype) if out is None or _is_nothing(out) else out, x)
    else:
        made.result = out


def gather(made: Prepared, x: Any, root: Any, out: Any) -> None:
    """Bring `x` of all to the root, in the order of the ranks."""
    import numpy

    made.set(root=made.team.place(root, "gather"))
    shape = made.give(x)
    made.result = out
    if made.team.me == made.call.root:
        if out is None or _is_nothing(out):
            if made.call.dtype is None:
                raise TypeError("gather: the result of bytes needs a place; give out=")
            out = numpy.empty((made.team.n, *shape), made.call.dtype)
        made.fill(out, x, made.team.n)


def _is_nothing(out: Any) -> bool:
    return isinstance(out, tuple) and not out


class Collectives:
    """Begins them."""

    def __init__(self, begin: Callable[..., DelegateRequest], local: bool) -> None:
        self._begin, self._local = begin, local
        self._near: set[tuple[int, ...]] = set()  # ranks that may meet

    def begin(
        self,
        kind: str,
        prepare: Callable[[Prepared], None],
        ranks: Iterable[SupportsIndex] | None = None,
        after: DelegateRequest | None = None,
    ) -> DelegateRequest:
        """Begin one; where it is refused here, the others are told."""
        team = team_of(kind, ranks, None, None)
        if team.ranks not in self._near:
            self._check(kind, team.ranks)
            self._near.add(team.ranks)
        made = Prepared(kind, team)
        try:
            prepare(made)
            return self._meet(made.call, after, tuple(made.keep), made.finish)
        except Exception:
            with contextlib.suppress(Exception):
                self._meet(Prepared(kind, team).call._replace(refused=True), None)._claimed = True
            release(made.keep)
            raise

    def _meet(
        self, call: Call, after: Any, keep: Any = None, finish: Any = None
    ) -> DelegateRequest:
        return self._begin("meet", call.kind, *call, after=after, keep=keep, finish=finish)

    def _check(self, kind: str, ranks: tuple[int, ...]) -> None:
        if self._local and len(ranks) > 1:
            raise ValueError(
                f"{kind}: a delegate with local=True has this rank alone; call acp.{kind}, or "
                f"acp.i{kind}, for the ranks {list(ranks)}"
            )
        own = _node_of(_engine.rank())
        if far := [rank for rank in ranks if _node_of(rank) != own]:
            raise ValueError(
                f"{kind}: ranks {far} are on other nodes, which have delegates of their own; call "
                f"acp.{kind}, or acp.i{kind}, or name ranks of one node"
            )


def _node_of(rank: int) -> int:
    return Process.of(_engine.row_of(_engine.slot_of(rank))).node
