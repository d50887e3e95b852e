"""Device memory in collectives: one unit after the other goes through short buffers of the host.

A unit is what one of several papers in a row takes, or a piece of a chain, so all members know them
without asking; each brings its own memory to the host by itself, whatever the others have. While
one is folded or sent, the next one leaves the device, and the last one goes in there.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from math import inf

from acp_mpi.comm.collectives.schedule import IN, OUT
from acp_mpi.engine import _engine
from acp_mpi.rma import device_rooms
from acp_mpi.rma.device_array import ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from acp_mpi.comm.collectives.buffers import Buffer
    from acp_mpi.rma.device_memory import Side

_DIRECT = 1 << 20  # bytes of an array from which the own piece is worth an address of its own
_SLOTS = 2  # units of a buffer that are in host memory at a time, at most; twice as many pieces


class Layout:
    """Where the units of a plan are: `units` has, of each buffer, the stretches of each unit.

    A stretch is (place in the short buffer, first byte in device memory, bytes). `by_piece`: a unit
    is a piece, else all pieces of a paper. `own`: (first byte there, first byte here, bytes) of
    copies from one device array to the other.
    """

    def __init__(
        self,
        buffers: Sequence[int],
        by_piece: bool,
        papers: Sequence[Mapping[int, Sequence[int]]],
        width: int,
    ) -> None:
        self.by_piece = by_piece
        self.units: dict[int, list[list[tuple[int, int, int]]]] = {each: [] for each in buffers}
        self.own: list[tuple[int, int, int]] = []
        count = max(map(len, papers[0].values())) if by_piece else len(papers)
        self.slots = min(2 * _SLOTS if by_piece else _SLOTS, count)
        self._strides = {
            each: max((max if by_piece else sum)(paper.get(each, (0,))) for paper in papers) * width
            + 63
            & ~63
            for each in buffers
        }

    def add(self, buffer: int, starts: Sequence[int], lengths: Sequence[int]) -> list[int]:
        """Add the pieces of the next paper; return where they begin in the short buffer."""
        units, places, at = self.units[buffer], [], 0
        for i, (start, length) in enumerate(zip(starts, lengths, strict=False)):
            if self.by_piece or not i:
                at = len(units) % self.slots * self._strides[buffer]
                units.append([])
            unit = units[-1]
            if unit and sum(unit[-1][1:]) == start:
                begin, first, size = unit.pop()
                unit.append((begin, first, size + length))
            elif length:
                unit.append((at, start, length))
            places.append(at)
            at += length
        return places

    def size(self, buffer: int) -> int:
        """Return the bytes of a short buffer."""
        return max(self.slots * self._strides[buffer], 1)


class Units:
    """The units of a call. `given` and `wanted`: the device memory of IN and OUT, or None.

    Of `wanted` what is there is read where it `reads`, else it is written. `in_place`: both may be
    the same host memory.
    """

    def __init__(
        self,
        function: str,
        given: Side | None,
        wanted: Side | None,
        reads: bool = False,
        in_place: bool = False,
    ) -> None:
        sides = (IN, given, True), (OUT, wanted, reads)
        self._sides = [(b, side, out) for b, side, out in sides if side is not None]
        self.buffers = tuple(buffer for buffer, *_ in self._sides)
        both = given is not None and wanted is not None and not in_place
        self.direct = both and given[3] is wanted[3] and given[2] >= _DIRECT  # type: ignore[index]
        self._function, self._in_place = function, in_place
        self._copies: dict[int, _Copies] = {}
        self._rooms: list[Any] = []
        self._own: tuple[Any, int, int, int] | None = None
        self._handles: list[int] = []  # of the copy of the own piece

    def begin(self, layout: Layout) -> None:
        """Take host memory, and let the first unit leave the device, behind its stream."""
        for buffer, side, out in self._sides:
            if not (self._rooms and self._in_place and layout.slots == 1):
                self._rooms.append(device_rooms.take_any(self._function, layout.size(buffer)))
            self._copies[buffer] = _Copies(
                self._function, layout, buffer, side, out, self._rooms[-1]
            )
        for copies in self._copies.values():
            copies.start(copies.out)
        if sum(size for *_, size in layout.own):
            self._copy_own(*layout.own[0][:2], sum(size for *_, size in layout.own))

    def _copy_own(self, to: int, first: int, size: int) -> None:
        """Start the copy of the piece that this rank gives itself: it does not leave the device."""
        (_, (here, at, _, stream), _), (_, (there, begin, *_), _) = self._sides
        ga, number = _engine.device_register(there, begin + to, size, 0)
        self._own = there, ga, size, number
        side = here, at + first, size, stream
        self._handles.append(_engine.device_start(self._function, ga, side, True))

    def memory(self, buffer: int, plain: Buffer | None) -> Any:
        """Return the short buffer in place of a device's; the memory of one of the host."""
        if buffer in self._copies:
            return self._copies[buffer].room
        return None if plain is None else plain.memory

    def __call__(self, number: int) -> None:
        """Do what is due before a unit, or while its first messages are under way."""
        unit, meanwhile = divmod(number, 2)
        for copies in self._copies.values():
            copies.meanwhile(unit) if meanwhile else copies.before(unit)

    def finish(self) -> None:
        """Wait until all is in the device."""
        for copies in self._copies.values():
            copies.finish()
        for handle in self._handles:
            _engine.wait(handle)

    def end(self) -> None:
        """Wait for all copies, whatever comes, and let go of the device and of host memory."""
        for copies in self._copies.values():
            copies.end()
        for room in self._rooms:
            device_rooms.give(room)
        if self._own is not None:
            ended(*self._own, None, 0)  # waits for the copy
        self._copies, self._sides, self._rooms, self._own = {}, [], [], None


class _Copies:
    """Those of one buffer, in the order of its units: `out` of the device, or into it."""

    def __init__(
        self, function: str, layout: Layout, buffer: int, side: Side, out: bool, room: Any
    ) -> None:
        self._function, self._units, self._slots = function, layout.units[buffer], layout.slots
        self._side, self.out, self.room = side, out, room
        self._moving: deque[tuple[int, int]] = deque()  # unit, handle
        self._begun = 0  # units

    def start(self, units: int) -> None:
        """Start the copies of the first units that have not begun."""
        block, offset, _, stream = self._side
        while self._begun < min(units, len(self._units)):
            for at, first, size in self._units[self._begun]:
                place = block, offset + first, size, stream
                handle = _engine.device_start(self._function, self.room.ga + at, place, self.out)
                self._moving.append((self._begun, handle))
            self._begun += 1

    def before(self, unit: int) -> None:
        if self.out:
            self.start(unit + 1)
            self.wait(unit)
            self._side = (*self._side[:3], False)  # the stream has been there
        else:
            self.wait(unit - self._slots)

    def meanwhile(self, unit: int) -> None:
        self.start(unit + 2 if self.out else unit)

    def finish(self) -> None:
        if not self.out:
            self.start(len(self._units))
        self.wait()

    def wait(self, last: float = inf) -> None:
        """Wait for the copies of all units up to that one."""
        while self._moving and self._moving[0][0] <= last:
            _engine.wait(self._moving[0][1])
            self._moving.popleft()

    def end(self) -> None:
        while self._moving:
            with suppress(Exception):
                _engine.wait(self._moving[0][1])
            self._moving.popleft()
