"""From a schedule on paper to the plan that the engine carries out: ranks and bytes."""

from __future__ import annotations

import itertools
import struct

from acp_mpi.comm.collectives.schedule import (
    IN,
    OUT,
    PART,
    RECEIVE,
    SEND,
    SUM,
    TMP,
)
from acp_mpi.engine import _engine
from acp_mpi.errors import OF_OBJECTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from acp_mpi.comm.collectives.choice import Paper
    from acp_mpi.comm.collectives.schedule import Place, Step
    from acp_mpi.comm.collectives.team import Team
    from acp_mpi.comm.collectives.units import Units

_STEP = struct.Struct("<BBBBIQQQQ")
_AWAIT = _STEP.pack(4, 0, 0, 0, 0, 0, 0, 0, 0)
_SHORT = 256  # what is so short is kept where it arrives, whether it is waited for or not
_PLANS = 256  # of a team

KINDS = {
    name: number
    for number, name in enumerate(
        ("barrier", "bcast", "reduce", "allreduce", "scan", "exscan", "gather", "scatter",
         "allgather", "alltoall", "reduce_scatter"), 1)
}  # fmt: skip


def plan_of(
    team: Team,
    kind: str,
    alike: Any,
    alone: Any,
    write: Callable[[], Sequence[Paper]],
    width: int = 1,
    fold: tuple[int, int] = (-1, 0),
    folder: Any = None,
    pickled: str | None = None,
    code: int = 0,
    units: Units | None = None,
) -> _engine.Plan:
    """Return the plan of a call, written the first time.

    `alike` is what all members must give alike; `alone` what else makes it another plan; `pickled`
    what is called, if objects travel in these bytes; `code` the type of the elements; `units` those
    that go through short buffers in place of IN or OUT.
    """
    key = (kind, alike, alone, folder, pickled, code, units and units.buffers)
    plan = team.plans.get(key)
    if plan is None:
        if len(team.plans) >= _PLANS:
            team.plans.pop(next(iter(team.plans))).forget()
        note = note_of(pickled or kind, alike, pickled, code)
        plan = team.plans[key] = compiled(
            team.ranks, write(), width, fold, folder, note, units=units
        )
    return plan


def note_of(kind: str, alike: Any, pickled: Any = None, code: int = 0) -> int:
    """Return 61 bits that say what is called, and with what that all must give alike.

    From the lowest on: 40 of `alike`, 6 of the call, 15 of the type of the elements; 0: of any.
    """
    call = KINDS[kind] | (OF_OBJECTS if pickled else 0)
    digest = int.from_bytes(_engine.sha256(repr(alike).encode())[:5], "little")
    return code << 46 | call << 40 | digest


def compiled(
    ranks: Sequence[int],
    papers: Sequence[Paper],
    width: int,
    fold: tuple[int, int],
    folder: Any,
    note: int,
    watched: Sequence[int] | None = None,
    units: Units | None = None,
) -> _engine.Plan:
    """Return the plan for these ranks, with elements of `width` bytes.

    `papers`: one after the other, each for the next elements of IN and OUT; the other buffers are
    those of all. `watched`: members that end it for a waiting one when they die; by default all.
    `units`: of device memory; before the first step of each, and after the last, the caller is
    called with twice its number, and that + 1.
    """
    steps: list[bytes] = []
    most, before, rooms = 0, 0, [0, 0, 0]
    for number, (rounds, sizes) in enumerate(papers):
        of_paper = _Packer(ranks, sizes, width, before, number, units)
        visits = _Visits(of_paper.units(one) for one in rounds)
        for at, one in enumerate(rounds):
            steps += map(_call, visits.begin.get(at, ()))
            most = max(most, of_paper.round(one, steps))
            steps += map(_call, visits.end.get(at, ()))
        rooms = list(map(max, rooms, of_paper.rooms()))
        before += sum(sizes.get(OUT, ())) * width
    watched = ranks if watched is None else watched
    return _engine.Plan(b"".join(steps), most, *fold, tuple(rooms), watched, note, folder)


def _call(number: int) -> bytes:
    return _STEP.pack(5, 0, 0, 0, number, 0, 0, 0, 0)


class _Visits:
    """Which calls come before each round of a paper, and after it; by those that use each unit."""

    def __init__(self, used: Iterable[set[int]]) -> None:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for at, units in enumerate(used):
            for unit in sorted(units):
                first.setdefault(unit, at)
                last[unit] = at
        self.begin: dict[int, list[int]] = {}
        self.end: dict[int, list[int]] = {}
        for unit in first:
            self.begin.setdefault(first[unit], []).append(2 * unit)
            self.end.setdefault(last[unit], []).append(2 * unit + 1)


class _Packer:
    """Steps of a paper as the engine has them, `before` bytes into IN and OUT."""

    def __init__(
        self,
        ranks: Sequence[int],
        sizes: Mapping[int, Sequence[int]],
        width: int,
        before: int,
        number: int,
        units: Units | None,
    ) -> None:
        self._ranks, self._number, self._units = ranks, number, units
        self._ends = {
            buffer: list(
                itertools.accumulate(
                    (size * width for size in pieces), initial=before if buffer in (IN, OUT) else 0
                )
            )
            for buffer, pieces in sizes.items()
        }
        self._used: set[int] = set()
        self._starts = dict(self._ends)
        if units is not None:
            for buffer in self._ends.keys() & set(units.buffers):
                self._starts[buffer] = units.starts(number, self._ends[buffer])

    def units(self, one: list[Step]) -> set[int]:
        """Return the units that a round uses."""
        if self._units is None:
            return set()
        places = [p for step in one for p in step[2:] if p[2] and p[0] in self._units.buffers]
        return {self._number + p[1] if self._units.by_piece else self._number for p in places}

    def _at(self, where: Place) -> int:
        return self._starts[where[0]][where[1]] if where[2] else 0

    def _length(self, where: Place) -> int:
        ends = self._ends[where[0]] if where[2] else ()
        return ends[where[1] + where[2]] - ends[where[1]] if ends else 0

    def _packed(self, step: Step) -> bytes:
        kind, peer, where, left, right = step
        self._used.update(p[0] for p in (where, left, right) if p[2])
        rank = self._ranks[peer] if kind <= RECEIVE else 0
        size = self._length(left if kind == SEND else where)
        places = map(self._at, (where, left, right))
        return _STEP.pack(kind, where[0], left[0], right[0], rank, *places, size)

    def round(self, one: list[Step], steps: list[bytes]) -> int:
        """Add a round to the steps; return how many messages it has."""
        messages = [step for step in one if step[0] <= RECEIVE]
        if any(self._length(m[3] if m[0] == SEND else m[2]) > _SHORT for m in messages):
            messages.sort(key=lambda m: m[0] == SEND)  # there is a place for what arrives
        steps += map(self._packed, messages)
        if messages:
            steps.append(_AWAIT)
        steps += [self._packed(step) for step in one if step[0] > RECEIVE]
        return len(messages)

    def rooms(self) -> Iterator[int]:
        """Yield how many bytes the buffers of the plan itself have."""
        for buffer in (TMP, SUM, PART):
            yield self._ends[buffer][-1] if buffer in self._used and buffer in self._ends else 0
