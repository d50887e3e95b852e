"""From a schedule on paper to the plan that the engine carries out: ranks and bytes."""

from __future__ import annotations

import itertools
import struct
from collections import Counter

from acp_mpi.comm.collectives.schedule import (
    COPY,
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
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from acp_mpi.comm.collectives.choice import Paper, Part
    from acp_mpi.comm.collectives.schedule import Place, Rounds, Step
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
    key = (kind, alike, alone, folder, pickled, code, units and (units.buffers, units.direct))
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
            direct=units is not None and units.direct,
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
    direct: bool = False,
) -> _engine.Plan:
    """Return the plan for these ranks, with elements of `width` bytes.

    `papers`: one after the other, each for the next elements of IN and OUT; the other buffers are
    those of all; or each for a part of every piece. `watched`: members that end it for a waiting
    one when they die; by default all. `devices`: buffers in device memory, of which units, papers
    or pieces, lie in short ones; before the first step of each unit, and once its first messages
    are under way, the caller is called with twice its number, and that + 1. `direct`: copies of IN
    to OUT are the device's own.
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
        of_paper = _Packer(ranks, sizes, width, before, number, starts)
        if layout is not None:
            rounds = of_paper.lay(layout, rounds, direct)
        visits = _Visits([of_paper.units(one) for one in rounds], rounds)
        for at, one in enumerate(rounds):
            steps += map(_call, visits.begin.get(at, ()))
            messages, rest = of_paper.round(one)
            steps += messages
            steps += map(_call, visits.meanwhile.get(at, ()))
            steps += [_AWAIT] if messages else []
            steps += rest
            most = max(most, len(messages))
        rooms = list(map(max, rooms, of_paper.rooms()))
        before += sum(sizes.get(OUT, ())) * width
    watched = ranks if watched is None else watched
    return _engine.Plan(b"".join(steps), most, *fold, tuple(rooms), watched, note, folder, layout)


def _call(number: int) -> bytes:
    return _STEP.pack(5, 0, 0, 0, number, 0, 0, 0, 0)


class _Visits:
    """Which calls come before each round of a paper, and once its messages are under way."""

    def __init__(self, used: Sequence[set[int]], rounds: Rounds) -> None:
        self.begin: dict[int, list[int]] = {}
        self.meanwhile: dict[int, list[int]] = {}
        for unit in sorted(set().union(*used)):
            those = [at for at, units in enumerate(used) if unit in units]
            busy = [at for at in those if any(step[0] <= RECEIVE for step in rounds[at])]
            self.begin.setdefault(those[0], []).append(2 * unit)
            self.meanwhile.setdefault((busy or those)[0], []).append(2 * unit + 1)


def _uses(rounds: Rounds) -> Counter[tuple[int, int]]:
    """Return how many steps use each (buffer, piece)."""
    places = [where for one in rounds for step in one for where in step[2:]]
    return Counter((buffer, first + i) for buffer, first, count in places for i in range(count))


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
    ) -> None:
        self._ranks, self._number = ranks, number
        self._layout: Layout | None = None
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

    def lay(self, layout: Layout, rounds: Rounds, direct: bool) -> Rounds:
        """Have pieces of a device lie in short buffers; return what is left of the rounds."""
        uses = _uses(rounds)
        if direct:
            own = [
                step
                for one in rounds
                for step in one
                if step[0] == COPY and step[3][0] == IN and uses[OUT, step[2][1]] == 1
            ]
            rounds = [[step for step in one if step not in own] for one in rounds]
            layout.own += [
                (self._at(to), self._at(it), self._length(to)) for _, _, to, it, _ in own
            ]
            uses = _uses(rounds)
        for b in self._lengths.keys() & layout.units.keys():
            lengths = [n if uses[b, i] else 0 for i, n in enumerate(self._lengths[b])]
            self._starts[b] = layout.add(b, self._starts[b], lengths)
        self._layout = layout
        return rounds

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

    def round(self, one: list[Step]) -> tuple[list[bytes], list[bytes]]:
        """Return the messages of a round, and its other steps."""
        if self._sparse:  # a piece that has no part here has had its first
            one = [step for step in one if self._length(step[3] if step[0] == SEND else step[2])]
        messages = [step for step in one if step[0] <= RECEIVE]
        if any(self._length(m[3] if m[0] == SEND else m[2]) > _SHORT for m in messages):
            messages.sort(key=lambda m: m[0] == SEND)  # there is a place for what arrives
        local = [self._packed(step) for step in one if step[0] > RECEIVE]
        return list(map(self._packed, messages)), local

    def rooms(self) -> Iterator[int]:
        """Yield how many bytes the buffers of the plan itself have."""
        for buffer in (TMP, SUM, PART):
            yield sum(self._lengths.get(buffer, ())) if buffer in self._used else 0
