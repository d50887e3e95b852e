"""Collectives as a rank asks a delegate for them: names, operations and errors as of `acp`'s own.

Short arrays go with the command and the answer; of others the delegate gets the address.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from acp_mpi.comm.collectives.operations import operation_of
from acp_mpi.comm.collectives.sizes import fits
from acp_mpi.comm.collectives.team import team_of
from acp_mpi.delegates.frames import plan_of
from acp_mpi.delegates.meetings import ANSWERED
from acp_mpi.delegates.memory import place_of, release
from acp_mpi.delegates.requests import fill
from acp_mpi.delegates.start import node_of
from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError
from acp_mpi.rma.registration import query_ga

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
_PLANS = 256


class Prepared:
    """A call, what is kept until it is over, and what makes its result."""

    root = -1
    op: Any = None
    dtype: Any = None
    nbytes = 0
    given: bytes | int | None = None
    wanted: int | None = None
    whole: tuple[int, ...] | None = None  # the shape, if the operation is one of whole arrays
    result: Any = None

    def __init__(self, kind: str, team: Team, stays: bool) -> None:
        self.kind, self.team = kind, team
        self._stays = stays  # for a ring: memory is read and written where it lies
        self.keep: list[Any] = []
        self._answered: Any = None  # the array that the answer's bytes go to

    @property
    def call(self) -> tuple[Any, ...]:
        """The fields of a `Call`."""
        return (
            self.kind, self.team.ranks, self.team.me, self.root, self.op, self.dtype, self.nbytes,
            self.given, self.wanted, self.whole,
        )  # fmt: skip

    def give(self, x: Any) -> tuple[int, ...]:
        """Take in what the rank gives; return its shape."""
        array = _array(x)
        if array is not None and array.nbytes <= SHORT and not self._stays:
            self.given, self.nbytes = array.tobytes(), array.nbytes
            self.dtype = _text_of(array.dtype)
            return tuple(array.shape)
        self.given, self.nbytes, dtype, shape, keep = place_of(x, self.kind, write=self._stays)
        self.keep.append(keep)
        self.dtype = _text_of(dtype)
        return shape

    def want(self, out: Any) -> tuple[int, Any]:
        """Say where the result goes; return its bytes, and their type."""
        if _is_short(out) and not self._stays:
            self.answer_in(out)
            return out.nbytes, out.dtype
        self.wanted, nbytes, dtype, _, keep = place_of(out, self.kind, write=True)
        self.keep.append(keep)
        return nbytes, dtype

    def answer_in(self, out: Any) -> None:
        """Say that the answer brings the result, for this array."""
        if not out.flags.writeable:
            raise ValueError(
                f"{self.kind}: the destination is read-only; give a writable buffer or a copy"
            )
        self.result = self._answered = out
        self.wanted = ANSWERED

    def fill(self, out: Any, x: Any, n: int = 1) -> None:
        """Say where the result goes, and that it has the type and `n` times the bytes of `x`."""
        import numpy

        self.result = out
        if isinstance(self.given, int) and _array(out) is not None and _array(x) is not None:
            if out is x and n == 1 and x.flags.c_contiguous and x.flags.writeable:
                self.wanted = self.given
                return
            if out is not x and numpy.may_share_memory(out, x):
                if self._stays:
                    raise ValueError(f"{self.kind}: x and out overlap; give the same, or others")
                release(self.keep.pop())
                self.give(numpy.array(x))
        nbytes, dtype = self.want(out)
        width = 1 if dtype is None else dtype.itemsize
        fits(self.kind, "out", nbytes, n * self.nbytes, width)
        if None not in (dtype, self.dtype) and _text_of(dtype) != self.dtype:
            raise TypeError(
                f"{self.kind}: x has elements of type {numpy.dtype(self.dtype)} and out of "
                f"{dtype}; give both the same type"
            )

    def finish(self, keep: Any, answer: bytes | None) -> Any:
        """Return the result, which the answer may bring."""
        if answer is not None:
            fill(self._answered, answer)
        return self.result


def _is_short(x: Any) -> bool:
    """Return whether an array of the host goes with a command or an answer."""
    import numpy

    return isinstance(x, numpy.ndarray) and x.nbytes <= SHORT and not x.dtype.hasobject


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
    made.root = made.team.place(root, "bcast")
    if made.team.me == made.root:
        made.give(x)
    else:
        made.nbytes, dtype = made.want(x)
        made.dtype = _text_of(dtype)
    made.result = x


def fold(made: Prepared, x: Any, op: Any, out: Any, root: int = -1) -> None:
    """Fold `x` of all: at the place `root`, or on all."""
    import numpy

    kind = made.kind
    operation = operation_of(op, kind)
    shape = made.give(x)
    if made.dtype is None:
        raise TypeError(f"{kind}: {operation.name} of bytes; give an array, or a remote array")
    dtype = numpy.dtype(made.dtype)
    operation.folder(kind, dtype, shape)
    made.root = root
    made.op = operation.name if operation.code >= 0 else operation.op
    made.whole = None if operation.divides else shape
    if root in (-1, made.team.me):
        made.fill(numpy.empty(shape, dtype) if out is None or _is_nothing(out) else out, x)
    else:
        made.result = out


def gather(made: Prepared, x: Any, root: Any, out: Any) -> None:
    """Bring `x` of all to the root, in the order of the ranks."""
    import numpy

    made.root = made.team.place(root, "gather")
    shape = made.give(x)
    made.result = out
    if made.team.me == made.root:
        if out is None or _is_nothing(out):
            if made.dtype is None:
                raise TypeError("gather: the result of bytes needs a place; give out=")
            out = numpy.empty((made.team.n, *shape), made.dtype)
        made.fill(out, x, made.team.n)


def _is_nothing(out: Any) -> bool:
    return isinstance(out, tuple) and not out


class Collectives:
    """Begins them."""

    def __init__(self, begin: Callable[..., DelegateRequest], local: bool, stays: bool) -> None:
        self._begin, self._local, self._stays = begin, local, stays
        self._ways: dict[tuple[int, ...], str] = {}  # of ranks: the command by which they meet
        self._members: Any = None
        self._ndarray: Any = None
        self._plans: dict[Any, bytes] = {}  # of short folds of all that live, pickled

    def begin(
        self,
        kind: str,
        prepare: Callable[[Prepared], None],
        ranks: Iterable[SupportsIndex] | None = None,
        after: DelegateRequest | None = None,
    ) -> DelegateRequest:
        """Begin one; where it is refused here, the others are told."""
        team = team_of(kind, ranks, None, None)
        self._check(kind, team.ranks)
        made = Prepared(kind, team, self._stays)
        try:
            prepare(made)
            return self._meet(made, made.call, after, tuple(made.keep), made.finish)
        except Exception:
            refusal = Prepared(kind, team, False)
            with contextlib.suppress(Exception):
                self._meet(refusal, (*refusal.call, True), None)._claimed = True
            release(made.keep)
            raise

    def known_fold(self, kind: str, x: Any, op: Any, out: Any) -> tuple[bytes, Any]:
        """Return the plan of a call like an earlier one, and its `out`.

        Of short arrays, which go with it, or of global ones at the same places. Where there is no
        plan it is empty, and `out` as given.
        """
        ndarray = self._ndarray or self._find_ndarray()
        if type(x) is not ndarray or type(op) is not str or self._stays:
            return b"", out
        is_short = x.nbytes <= SHORT
        place = ndarray(x.shape, x.dtype) if out is None and is_short else out
        if type(place) is not ndarray:
            return b"", out
        if not (is_short or (x.flags.c_contiguous and place.flags.c_contiguous)):
            return b"", out
        members = _engine.membership()
        if members != self._members or len(self._plans) > _PLANS:
            self._members, self._plans = members, {}
        try:
            where = None if is_short else (query_ga(x), query_ga(place))
        except AddressError:
            return b"", out
        key = kind, op, x.dtype, x.shape, place.dtype, place.shape, where
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(kind, x, op, place, where)
        return (plan, place) if plan and place.flags.writeable else (b"", out)

    def _find_ndarray(self) -> Any:
        import numpy

        self._ndarray = numpy.ndarray
        return self._ndarray

    def _plan(self, kind: str, x: Any, op: Any, out: Any, where: Any) -> bytes:
        if not (x.shape == out.shape and x.dtype == out.dtype and not x.dtype.hasobject):
            return b""
        team = team_of(kind, None, None, None)
        made = Prepared(kind, team, self._stays)
        if self._way(team.ranks) == "across":
            return b""
        try:
            self._check(kind, team.ranks)
            fold(made, x, op, out)
        except Exception:
            return b""  # the long way says why
        if where is None:
            made.given = None  # of each call
        elif (made.given, made.wanted) != where:  # a copy
            release(made.keep)
            return b""
        return plan_of(made.call, 0 if where else made.nbytes)

    def _meet(
        self,
        made: Prepared,
        call: tuple[Any, ...],
        after: Any,
        keep: Any = None,
        finish: Any = None,
    ) -> DelegateRequest:
        way = self._way(made.team.ranks)
        return self._begin(way, made.kind, *call, after=after, keep=keep, finish=finish)

    def _way(self, ranks: tuple[int, ...]) -> str:
        way = self._ways.get(ranks)
        if way is None:
            several = len(set(map(node_of, ranks))) > 1
            way = self._ways[ranks] = "across" if several else "meet"
        return way

    def _check(self, kind: str, ranks: tuple[int, ...]) -> None:
        if self._local and len(ranks) > 1:
            raise ValueError(
                f"{kind}: a delegate with local=True has this rank alone; call acp.{kind}, or "
                f"acp.i{kind}, for the ranks {list(ranks)}"
            )
