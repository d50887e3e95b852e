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

    from acp_mpi.comm.collectives.choice import Paper, Part
    from acp_mpi.comm.collectives.schedule import Place, Step
    from acp_mpi.comm.collectives.team import Team
    from acp_mpi.comm.collectives.units import Layout, Units

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
    write: Callable[[], Sequence[Paper | Part]],
    width: int = 1,
    fold: tuple[int, int] = (-1, 0),
    folder: Any = None,
    pickled: str | None = None,
    code: int = 0,
    units: Units | None = None,
    by_piece: bool = False,
) -> _engine.Plan:
    """Return the plan of a call, written the first time.

    `alike` is what all members must give alike; `alone` what else makes it another plan; `pickled`
    what is called, if objects travel in these bytes; `code` the type of the elements; `units` those
    that go through short buffers in place of IN or OUT, `by_piece` each piece by itself.
    """
    key = (kind, alike, alone, folder, pickled, code, units and units.buffers)
    plan = team.plans.get(key)
    if plan is None:
        if len(team.plans) >= _PLANS:
            team.plans.pop(next(iter(team.plans))).forget()
        note = note_of(pickled or kind, alike, pickled, code)
        plan = team.plans[key] = compiled(
            team.ranks,
            write(),
            width,
            fold,
            folder,
            note,
            devices=() if units is None else units.buffers,
            by_piece=by_piece,
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
    papers: Sequence[Paper | Part],
    width: int,
    fold: tuple[int, int],
    folder: Any,
    note: int,
    watched: Sequence[int] | None = None,
    devices: Sequence[int] = (),
    by_piece: bool = False,
) -> _engine.Plan:
    """Return the plan for these ranks, with elements of `width` bytes.

    `papers`: one after the other, each for the next elements of IN and OUT; the other buffers are
    those of all; or each for a part of every piece. `watched`: members that end it for a waiting
    one when they die; by default all. `devices`: buffers in device memory, of which units, papers
    or pieces, lie in short ones; before the first step of each unit, and after the last, the caller
    is called with twice its number, and that + 1.
    """
    steps: list[bytes] = []
    most, before, rooms = 0, 0, [0, 0, 0]
    layout = None
    if devices:
        from acp_mpi.comm.collectives.units import Layout

        layout = Layout(devices, by_piece, [paper[1] for paper in papers], width)
    for number, paper in enumerate(papers):
        rounds, sizes = paper[:2]
        starts = paper[2] if len(paper) == 3 else None
        of_paper = _Packer(ranks, sizes, width, before, number, starts, layout)
        visits = _Visits(of_paper.units(one) for one in rounds)
        for at, one in enumerate(rounds):
            steps += map(_call, visits.begin.get(at, ()))
            most = max(most, of_paper.round(one, steps))
            steps += map(_call, visits.end.get(at, ()))
        rooms = list(map(max, rooms, of_paper.rooms()))
        before += sum(sizes.get(OUT, ())) * width
    watched = ranks if watched is None else watched
    return _engine.Plan(b"".join(steps), most, *fold, tuple(rooms), watched, note, folder, layout)


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
        starts: Mapping[int, Sequence[int]] | None,
        layout: Layout | None,
    ) -> None:
        self._ranks, self._number, self._layout = ranks, number, layout
        self._lengths = {b: [size * width for size in pieces] for b, pieces in sizes.items()}
        self._sparse = starts is not None and number > 0
        self._starts = {
            buffer: list(
                itertools.accumulate(lengths, initial=before if buffer in (IN, OUT) else 0)
            )
            for buffer, lengths in self._lengths.items()
        }
        for buffer, those in (starts or {}).items():
            self._starts[buffer] = [at * width for at in those]
        self._used: set[int] = set()
        if layout is not None:
            for each in self._lengths.keys() & layout.units.keys():
                self._starts[each] = layout.add(each, self._starts[each], self._lengths[each])

    def units(self, one: list[Step]) -> set[int]:
        """Return the units that a round uses."""
        if self._layout is None:
            return set()
        places = [p for step in one for p in step[2:] if p[2] and p[0] in self._layout.units]
        return {self._number + p[1] if self._layout.by_piece else self._number for p in places}

    def _at(self, where: Place) -> int:
        return self._starts[where[0]][where[1]] if where[2] else 0

    def _length(self, where: Place) -> int:
        return sum(self._lengths[where[0]][where[1] : where[1] + where[2]]) if where[2] else 0

    def _packed(self, step: Step) -> bytes:
        kind, peer, where, left, right = step
        self._used.update(p[0] for p in (where, left, right) if p[2])
        rank = self._ranks[peer] if kind <= RECEIVE else 0
        size = self._length(left if kind == SEND else where)
        places = map(self._at, (where, left, right))
        return _STEP.pack(kind, where[0], left[0], right[0], rank, *places, size)

    def round(self, one: list[Step], steps: list[bytes]) -> int:
        """Add a round to the steps; return how many messages it has."""
        if self._sparse:  # a piece that has no part here has had its first
            one = [step for step in one if self._length(step[3] if step[0] == SEND else step[2])]
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
            yield sum(self._lengths.get(buffer, ())) if buffer in self._used else 0
