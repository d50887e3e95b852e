"""Long device memory in collectives: one unit after the other goes through short buffers.

A unit is what one of several folds in a row takes, or a piece of a chain, so all members know them
without asking; each brings its own memory to the host by itself, whatever the others have. While
one is folded or sent, the next one leaves the device, and the last one goes in there.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import accumulate

from acp_mpi.comm.collectives.schedule import IN, OUT
from acp_mpi.engine import _engine
from acp_mpi.rma import device_rooms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from acp_mpi.comm.collectives.buffers import Buffer
    from acp_mpi.rma.device_memory import Side

_SLOTS = 4  # units of a buffer that are in host memory at a time, at most


class Units:
    """The units of a call; `lengths` in bytes. `buffers`: which of IN and OUT are a device's.

    `by_piece`: a unit is a piece, else all pieces of a paper. `given` and `wanted`: the device
    memory of each; of `wanted` what is there is read where `reads`, else it is written.
    """

    def __init__(
        self,
        function: str,
        lengths: Sequence[int],
        given: Side | None,
        wanted: Side | None,
        by_piece: bool = False,
        reads: bool = False,
    ) -> None:
        self._function, self._lengths, self.by_piece = function, lengths, by_piece
        self._ends = list(accumulate(lengths, initial=0))
        self._stride = max(lengths) + 63 & ~63
        self._slots = min(_SLOTS if by_piece else _SLOTS // 2, len(lengths))
        out = wanted if reads else given
        self._out = None if out is None else _Copies(self, out, True)
        self._in = None if wanted is None or reads else _Copies(self, wanted, False)
        pairs = (IN, given), (OUT, wanted)
        self.buffers = tuple(buffer for buffer, side in pairs if side is not None)

    def starts(self, number: int, ends: Sequence[int]) -> list[int]:
        """Return where the pieces of a paper begin; `ends`: where they end in a long buffer."""
        if self.by_piece:
            return [i % self._slots * self._stride for i in range(len(ends))]
        return [number % self._slots * self._stride + end - ends[0] for end in ends]

    def memory(self, buffer: int, plain: Buffer | None) -> Any:
        """Return the short buffer in place of a device's; the memory of one of the host."""
        if buffer not in self.buffers:
            used = plain is not None and plain.device is None
            return plain.memory if used else None  # type: ignore[union-attr]
        copies = self._out if buffer == IN or self._in is None else self._in
        assert copies is not None
        return copies.room

    def __call__(self, number: int) -> None:
        """Do what is due before a unit, or after it."""
        unit, over = divmod(number, 2)
        if over:
            if self._in is not None:
                self._in.start(unit)
            return
        if self._in is not None:
            self._in.wait(unit - self._slots)
        if self._out is not None:
            if not unit:
                self._out.start(unit)
            self._out.wait(unit)
            if unit + 1 < len(self._lengths):
                self._out.start(unit + 1)

    def finish(self) -> None:
        """Wait until all is in the device."""
        if self._in is not None:
            self._in.wait(len(self._lengths))

    def end(self) -> None:
        """Wait for all copies, whatever comes, and let go of the device and of host memory."""
        for copies in (self._out, self._in):
            if copies is not None:
                copies.end()
        self._out = self._in = None  # which know this object

    def size(self) -> int:
        """Return the bytes of a short buffer."""
        return self._slots * self._stride

    def copy(self, side: Side, room: Any, unit: int, out: bool) -> int:
        """Start the copy of a unit; return its handle."""
        block, offset, _, stream = side
        place = block, offset + self._ends[unit], self._lengths[unit], stream
        ga = room.ga + unit % self._slots * self._stride
        return _engine.device_start(self._function, ga, place, out)


class _Copies:
    """Those of one buffer, in the order of its units."""

    def __init__(self, units: Units, side: Side, out: bool) -> None:
        self._units, self._side, self._way = units, side, out
        self._moving: deque[tuple[int, int]] = deque()  # unit, handle
        self.room: Any = device_rooms.take_long(units._function, units.size())

    def start(self, unit: int) -> None:
        self._moving.append((unit, self._units.copy(self._side, self.room, unit, self._way)))

    def wait(self, unit: int) -> None:
        """Wait for those up to this one."""
        while self._moving and self._moving[0][0] <= unit:
            _engine.wait(self._moving[0][1])
            self._moving.popleft()
            if self._way:  # the stream has been there
                self._side = (*self._side[:3], False)

    def end(self) -> None:
        while self._moving:
            with suppress(Exception):
                _engine.wait(self._moving[0][1])
            self._moving.popleft()
        device_rooms.give(self.room)
