"""Collectives at a delegate: who has come, whether their calls belong together, and the work.

The calls of a rank for the same ranks are counted: the k-th of each meet. What they give is folded
in the order of the ranks, in memory as it lies where this process maps it.
"""

from __future__ import annotations

import contextlib
import pickle
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from acp_mpi.comm.collectives.operations import operation_of
from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError, AstrayError, AstrayTypeError, Error, PeerLostError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from acp_mpi.comm.collectives.operations import Operation
    from acp_mpi.delegates.job import Job

ANSWERED = -1  # in place of an address: the bytes go with the answer
_CHUNK = 256 << 10  # what is folded at once stays in the cache
_SHORT = 4 << 20  # bytes of all: work that takes no longer than a few wake-ups of a thread
_FOLDS = ("reduce", "allreduce")


class Call(NamedTuple):
    """What a rank calls."""

    kind: str
    ranks: tuple[int, ...]
    me: int  # its place among them
    root: int = -1  # the place of the root
    op: Any = None
    dtype: Any = None  # None: bytes
    nbytes: int = 0  # that each rank gives
    given: bytes | int | None = None  # the bytes, or their address
    wanted: int | None = None  # an address, or ANSWERED
    shape: tuple[int, ...] | None = None  # what `op` is to have, if it takes whole arrays
    refused: bool = False  # the rank has raised an error

    @property
    def rank(self) -> int:
        """The rank that calls."""
        return self.ranks[self.me]

    def __str__(self) -> str:
        what = f"{self.nbytes} bytes of {_type_name(self.dtype)}"
        by = "" if self.op is None else f" for {self.op}"
        to = "" if self.root < 0 else f" with root {self.ranks[self.root]}"
        return what + by + to


@lru_cache(1024)
def planned(plan: bytes) -> Call:
    """Return the call that `frames.plan_of` has made this of."""
    return Call(*pickle.loads(plan[1:]))


def _type_name(dtype: Any) -> str:
    if dtype is None:
        return "any type"
    import numpy

    return str(numpy.dtype(dtype))


class Meeting:
    """A collective of which some ranks have come."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        self.jobs: dict[int, Job] = {}  # by the place of the rank
        self._calls: dict[int, Call] = {}
        self.failed: BaseException | None = None

    @property
    def before(self) -> list[Job]:
        """What is to be over before."""
        return [job for mine in self.jobs.values() for job in mine.before]

    @property
    def calls(self) -> list[Call]:
        """The calls, in the order of the ranks."""
        return [self._calls[place] for place in sorted(self._calls)]

    def take(self, job: Job, call: Call) -> None:
        """Take in a rank, and look whether all call the same."""
        if self.failed is None and self._calls:
            self.failed = _difference(next(iter(self._calls.values())), call)
        if self.failed is None and call.refused:
            self.failed = Error(
                f"{call.kind}: rank {call.rank} has left it, after an error there; look for the "
                "first error among the ranks"
            )
        self.jobs[call.me], self._calls[call.me] = job, call


def _difference(one: Call, other: Call) -> Exception | None:
    ranks = f"rank {one.rank}", f"rank {other.rank}"
    if one.kind != other.kind:
        return AstrayError(
            f"{one.kind}: {ranks[0]} is in it, and {ranks[1]} in {other.kind} meanwhile; all "
            "ranks of a collective call the same ones in the same order"
        )
    if one.refused or other.refused:
        return None
    if (one.nbytes, one.op, one.root) != (other.nbytes, other.op, other.root):
        kind: type[Exception] = AstrayError
    elif one.dtype != other.dtype and None not in (one.dtype, other.dtype):
        kind = AstrayTypeError
    else:
        return None
    return kind(
        f"{one.kind}: {ranks[0]} gives {one}, and {ranks[1]} {other}; give what belongs together "
        "on all ranks"
    )


class _Series:
    """The collectives of the same ranks: each rank comes to them in their order."""

    def __init__(self, n: int) -> None:
        self.open: deque[Meeting] = deque()
        self.ahead = [0] * n  # how many of the open ones each rank has come to

    def take(self, job: Job, call: Call) -> Meeting:
        if self.ahead[call.me] == len(self.open):
            self.open.append(Meeting(call.ranks))
        meeting = self.open[self.ahead[call.me]]
        self.ahead[call.me] += 1
        meeting.take(job, call)
        if min(self.ahead):
            self.open.popleft()
            self.ahead = [count - 1 for count in self.ahead]
        return meeting


class Meetings:
    """All of a delegate that are under way. `gone`: ranks that have closed or died, and why."""

    def __init__(self, gone: Mapping[int, str]) -> None:
        self._gone = gone
        self._series: dict[tuple[int, ...], _Series] = {}

    def take(self, job: Job, call: Call) -> Meeting:
        """Return the collective to which a call belongs; its `failed` says why it is none."""
        if absent := self.absent(call.ranks):
            meeting = Meeting(call.ranks)
            meeting.jobs[call.me] = job
            meeting.failed = lost(call.kind, *absent)
            return meeting
        series = self._series.get(call.ranks)
        if series is None:
            series = self._series[call.ranks] = _Series(len(call.ranks))
        return series.take(job, call)

    def absent(self, ranks: tuple[int, ...]) -> tuple[str, str] | None:
        """Return one of them that does not come, and why."""
        rank = next((rank for rank in self._gone if rank in ranks), None)
        if rank is not None:
            return f"rank {rank}", self._gone[rank]
        dead = first_dead(ranks)
        return None if dead is None else (f"rank {dead}", "has died")

    def begun(self, ranks: tuple[int, ...]) -> bool:
        """Return whether some of these ranks have come to one, and others have not."""
        series = self._series.get(ranks)
        return series is not None and bool(series.open)

    def missing(self, job: Job) -> list[int]:
        """Return the ranks that have not come to the collective that a job is of."""
        for series in self._series.values():
            for meeting in series.open:
                if job in meeting.jobs.values():
                    return [r for place, r in enumerate(meeting.ranks) if place not in meeting.jobs]
        return []

    def lose(self, rank: int, why: str) -> Iterator[Meeting]:
        """Give up those to which a rank will not come."""
        for ranks in [ranks for ranks in self._series if rank in ranks]:
            for meeting in self._series.pop(ranks).open:
                kind = meeting.calls[0].kind
                meeting.failed = meeting.failed or lost(kind, f"rank {rank}", why)
                yield meeting


def first_dead(ranks: Iterable[int]) -> int | None:
    """Return the first of them that has died, as far as this process knows."""
    for rank in ranks:
        if not _engine.is_alive(rank):
            return rank
    return None


def lost(kind: str, who: str, why: str) -> PeerLostError:
    """Return the error of a collective to which a process does not come."""
    return PeerLostError(f"{kind}: {who}, which takes part in it, {why}")


class Memory:
    """Memory of a rank: as it lies, if this process maps it, else read and written by copies.

    `where`: an address, the bytes themselves, ANSWERED, or None for room alone.
    """

    def __init__(self, where: bytes | int | None, nbytes: int) -> None:
        self._ga = where if isinstance(where, int) else 0
        self._piece: memoryview | None = None
        self.view: memoryview | None = None
        if where is None:
            pass
        elif where == ANSWERED:
            self.view = memoryview(bytearray(nbytes))
        elif not isinstance(where, int):
            self.view = memoryview(where)
        else:
            with contextlib.suppress(AddressError):
                self.view = memoryview(_engine.mapped(where, nbytes))

    def read(self, at: int, size: int) -> memoryview:
        """Return bytes, which are good until the next call."""
        if self.view is not None:
            return self.view[at : at + size]
        piece = self.room(at, size)
        _engine.get(self._ga + at, piece)
        return piece

    def room(self, at: int, size: int) -> memoryview:
        """Return room for bytes that go there: where they go, or of this process."""
        if self.view is not None:
            return self.view[at : at + size]
        if self._piece is None:
            self._piece = memoryview(bytearray(size))
        return self._piece[:size]

    def write(self, at: int, data: memoryview) -> None:
        """Write bytes."""
        if self.view is not None:
            self.view[at : at + len(data)] = data
        else:
            _engine.put(self._ga + at, data)


class Work:
    """What all have come for."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting, self.calls, self.before = meeting, meeting.calls, meeting.before
        call = self.calls[0]
        self._kind, self._nbytes = call.kind, call.nbytes
        per = call.nbytes * (len(self.calls) if self._kind == "gather" else 1)
        given = [(meeting.jobs[c.me].given, call.nbytes) for c in self.calls]
        wanted = [(c.wanted, per) for c in self.calls]
        self._given, self._wanted = (
            [None if where is None else Memory(where, nbytes) for where, nbytes in each]
            for each in (given, wanted)
        )
        memories = [m for m in (*self._given, *self._wanted) if m is not None]
        self.short = (
            self._nbytes * len(memories) <= _SHORT
            and all(m.view is not None for m in memories)
            and (call.op is None or isinstance(call.op, str))
        )

    def do(self) -> None:
        """Do it."""
        if not self._nbytes:
            return
        if self._kind in _FOLDS:
            self._fold()
        elif self._kind == "gather":
            (root,) = (m for m in self._wanted if m is not None)
            for i, given in enumerate(self._given):
                assert given is not None
                for at, size in self._pieces(_CHUNK):
                    root.write(i * self._nbytes + at, given.read(at, size))
        else:
            given = self._given[self.calls[0].root]
            assert given is not None
            for at, size in self._pieces(_CHUNK):
                self._give(at, given.read(at, size))

    def _fold(self) -> None:
        import numpy

        call = self.calls[0]
        operation: Operation = operation_of(call.op, self._kind)
        fold = operation.folder(self._kind, numpy.dtype(call.dtype), call.shape or (-1,))
        given = [m for m in self._given if m is not None]
        # The result of the first rank may lie where that gives what it gives; of others it may not.
        place = self._wanted[0] or Memory(None, 0)
        for at, size in self._pieces(_CHUNK if operation.divides else self._nbytes):
            left = given[0].read(at, size)
            into = place.room(at, size)
            for other in given[1:]:
                fold(into, left, other.read(at, size))
                left = into
            self._give(at, left, place if left is into and place.view is not None else None)

    def _pieces(self, most: int) -> Iterator[tuple[int, int]]:
        for at in range(0, self._nbytes, most):
            yield at, min(most, self._nbytes - at)

    def _give(self, at: int, data: memoryview, has: Memory | None = None) -> None:
        for wanted in self._wanted:
            if wanted is not None and wanted is not has:
                wanted.write(at, data)

    def answers(self) -> Iterator[tuple[Job, bytes | None]]:
        """Yield what each rank gets with its answer; the last to come, which is awake, first."""
        for me in reversed(self.meeting.jobs):
            wanted, answer = self._wanted[me], None
            if wanted is not None and self.calls[me].wanted == ANSWERED:
                answer = bytes(wanted.view or b"")
            yield self.meeting.jobs[me], answer
