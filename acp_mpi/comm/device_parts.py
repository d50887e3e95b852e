"""Long messages of device memory: in parts, each on its way while the next one leaves the device.

The message itself has no bytes; its header says how the array looks, and the parts follow the
header, under its number. An empty part says that no more come. Both ends need host memory for a few
parts only; those that a receiver does not want yet are kept as any other message.
"""

from __future__ import annotations

import pickle
from _thread import start_new_thread
from collections import deque
from contextlib import suppress
from math import prod
from time import monotonic

from acp_mpi.engine import _engine
from acp_mpi.errors import Error, TruncationError
from acp_mpi.rma import device_rooms
from acp_mpi.rma.device_memory import found, look_of, overlap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_PART = device_rooms.BYTES  # at most
_AHEAD = 3  # parts that are received, or leave the device, at a time
_LOOK = 0.001  # seconds between two looks at what has come, where both directions have parts


class _Rooms:
    """Rooms for the parts of one message, and copies of the device from or to them."""

    def __init__(self, function: str, side: Any, out: bool, slot: int = 1) -> None:
        self._function, self.side, self._out = function, side, out
        self._part = _PART // slot * slot  # bytes of each but the last
        self._moving: deque[tuple[int, Any, int]] = deque()  # handle, room, bytes

    def move(self, room: Any, at: int, size: int) -> None:
        """Start a copy of bytes of the device out to a room, or in from there."""
        block, offset, _, stream = self.side
        side = block, offset + at, size, stream
        handle = _engine.device_start(self._function, room.ga, side, self._out)
        self._moving.append((handle, room, size))

    def begin(self, at: int) -> None:
        """Let a part go out to a room of its own."""
        room = device_rooms.take(self._function)
        self.move(room, at, min(self._part, self.side[2] - at))

    def each(self) -> Iterator[tuple[Any, int]]:
        """Yield all parts in their rooms, whose bytes go out: each while the next one does.

        The first has been begun; the others need not wait for the stream, as that has been there.
        """
        _engine.wait(self._moving[0][0])
        self.side = (*self.side[:3], False)
        for at in range(self._part, self.side[2], self._part):
            self.begin(at)
            yield self.moved(1)  # type: ignore[misc]
        yield self.moved()  # type: ignore[misc]

    def moved(self, ahead: int = 0) -> tuple[Any, int] | None:
        """Wait for the oldest copy, and return its room and size; None: no more than `ahead`."""
        if len(self._moving) <= ahead:
            return None
        handle, room, size = self._moving[0]
        _engine.wait(handle)
        self._moving.popleft()
        return room, size

    back = staticmethod(device_rooms.give)

    def end(self) -> None:
        """Wait for all copies, whatever comes."""
        while self._moving:
            with suppress(Exception):
                _engine.wait(self._moving[0][0])
            self._moving.popleft()


def leaving(x: Any, function: str, slot: int = 1) -> _Rooms:
    """Let the first part of device memory go out, behind its stream as it is now.

    `slot`: bytes of which parts are multiples.
    """
    rooms = _Rooms(function, found(x, function), True, slot)
    rooms.begin(0)
    return rooms


class Leaving:
    """A message that is sent in parts."""

    def __init__(self, x: Any, function: str) -> None:
        self.dtype, self.shape = look_of(x, function)
        self.size = prod(self.shape) * self.dtype.itemsize
        self.failure: Exception | None = None  # of the thread that `start` has begun
        self._function, self._x = function, x
        self.header = pickle.dumps((self.dtype, self.shape, _PART), 5)

    def go(
        self, head: Any, place: tuple[int, int, int], timeout: float | None, meanwhile: Any
    ) -> None:
        """Send the parts behind the header, to (rank, number, context).

        `head`: the request of the message itself, or None; `meanwhile` takes what comes in parts.
        """
        self._rest(self._first(place), head, place, timeout, meanwhile)

    def start(self, head: Any, place: tuple[int, int, int], told: tuple[int, int, int]) -> None:
        """Have a thread do what `go` does, and then send a message without bytes to `told`."""
        rooms = self._first(place)

        def run() -> None:
            try:
                self._rest(rooms, head, place, None, None)
            except Exception as error:
                self.failure = error
            del rooms.side  # the program may free its memory once it is told
            with suppress(Exception):  # the job may have ended
                _engine.transfer_isend(self._function, b"", *told)

        try:
            start_new_thread(run, ())
        except BaseException:
            self._broken(rooms, place)
            raise

    def _first(self, place: tuple[int, int, int]) -> _Rooms:
        try:
            return leaving(self._x, self._function)
        except BaseException:
            self._broken(None, place)
            raise

    def _broken(self, rooms: _Rooms | None, place: tuple[int, int, int]) -> None:
        if rooms is not None:
            rooms.end()
        with suppress(Error):
            _engine.transfer_isend(self._function, b"", *place)

    def _rest(self, rooms: _Rooms, head: Any, place: Any, timeout: Any, meanwhile: Any) -> None:
        if meanwhile is not None and overlap(rooms.side, meanwhile.side):
            meanwhile = None  # what comes may take the place of what has left
        going: deque[tuple[Any, Any]] = deque([(head, None)] if head is not None else [])
        until = None if timeout is None else monotonic() + timeout

        def settle(most: int) -> None:
            while len(going) > most:
                request, room = going[0]
                left = None if until is None else max(until - monotonic(), 0)
                if meanwhile is None:
                    request.wait(left)
                elif not request.done and (left is None or left > 0):
                    meanwhile()
                    with suppress(TimeoutError):
                        request.wait(_LOOK if left is None else min(left, _LOOK))
                    continue
                request.wait(0)
                going.popleft()
                if room is not None:
                    device_rooms.give(room)

        try:
            for room, size in rooms.each():
                request = _engine.transfer_isend(self._function, memoryview(room)[:size], *place)
                if request is None:
                    device_rooms.give(room)
                else:
                    going.append((request, room))
                settle(_AHEAD)
                if meanwhile is not None:
                    meanwhile()
            settle(0)
        except BaseException:
            self._broken(rooms, place)
            raise


class _Host:
    """Memory of the host to which parts come; what is behind its end is dropped."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def room(self, at: int, size: int) -> Any:
        return self._view[at : at + size] if at + size <= len(self._view) else bytearray(size)

    def taken(self, room: Any, at: int, size: int) -> None:
        if isinstance(room, bytearray) and at < len(self._view):
            self._view[at:] = room[: len(self._view) - at]

    def finish(self) -> None:
        """Do nothing: they are there."""

    def had(self, size: int) -> bytes:
        """Return the first bytes."""
        return bytes(self._view[:size])

    def restore(self, kept: bytes) -> None:
        """Store the first bytes anew."""
        self._view[: len(kept)] = kept[: len(self._view)]


class _Device:
    """Device memory to which parts come, likewise."""

    def __init__(self, function: str, side: tuple[Any, int, int, Any]) -> None:
        self._rooms, self._size = _Rooms(function, side, False), side[2]
        self._function, self._side = function, side

    def room(self, at: int, size: int) -> Any:
        if (moved := self._rooms.moved(_AHEAD)) is not None:
            device_rooms.give(moved[0])
        return memoryview(device_rooms.take(self._function))[:size]

    def taken(self, room: Any, at: int, size: int) -> None:
        size = min(size, self._size - at)
        if size > 0:
            self._rooms.move(room.obj, at, size)
        else:
            device_rooms.give(room.obj)

    def finish(self) -> None:
        while (moved := self._rooms.moved()) is not None:
            device_rooms.give(moved[0])

    def _each(self, size: int, out: bool) -> Iterator[tuple[memoryview, int]]:
        """Yield a room for each part of the first bytes: when it has them, or to be filled."""
        room = device_rooms.take(self._function)
        block, offset, _, stream = self._side
        for at in range(0, min(size, self._size), _PART):
            side = block, offset + at, min(_PART, size - at, self._size - at), stream
            if out:
                _engine.device_move(self._function, room.ga, side, True)
            yield memoryview(room)[: side[2]], at
            if not out:
                _engine.device_move(self._function, room.ga, side, False)
        device_rooms.give(room)

    def had(self, size: int) -> bytes:
        """Return the first bytes."""
        self._rooms.end()
        return b"".join(bytes(room) for room, _ in self._each(size, True))

    def restore(self, kept: bytes) -> None:
        """Store the first bytes anew."""
        for room, at in self._each(len(kept), False):
            room[:] = kept[at : at + len(room)]


class Filling:
    """A message of a channel whose pieces go to device memory, through one room at a time."""

    def __init__(self, function: str, side: tuple[Any, int, int, Any], size: int) -> None:
        self._device, self._size = _Device(function, side), size
        self._at = self._has = 0  # bytes that are on their way to the device, and in the room
        self._room: Any = None

    def __len__(self) -> int:
        return self._size

    def add(self, piece: memoryview) -> None:
        """Take the next bytes."""
        while piece:
            if self._room is None:
                self._room = self._device.room(self._at, min(_PART, self._size - self._at))
            some = piece[: len(self._room) - self._has]
            self._room[self._has : self._has + len(some)] = some
            self._has, piece = self._has + len(some), piece[len(some) :]
            if self._has == len(self._room):
                self._go_on()

    def _go_on(self) -> None:
        room, size, self._room = self._room, self._has, None
        self._device.taken(room, self._at, size)
        self._at, self._has = self._at + size, 0

    def finish(self) -> None:
        """Wait until all are in their place."""
        self._device.finish()

    def kept(self) -> bytearray:
        """Return a message of this size in memory of the host, with what has come."""
        if self._room is not None:
            self._go_on()
        whole = bytearray(self._size)
        had = self._device.had(self._at)
        whole[: len(had)] = had
        return whole


class Arriving:
    """A message that comes in parts. Where Ctrl-C ends a call, the next one has all of it."""

    def __init__(
        self, header: tuple[Any, Any, int], source: int, number: int, context: int
    ) -> None:
        self.dtype, self.shape, self._part = header
        self.size = prod(self.shape) * self.dtype.itemsize
        self._from = source, number, context
        self._at = self._asked = 0  # bytes that are in their place, and that are waited for
        self._posted: deque[tuple[Any, Any, int, int]] = deque()  # request, room, first byte, bytes
        self._kept = b""  # what an earlier call had
        self._failure: Error | None = None
        self._sink: Any = None
        self.array: Any = None

    def bring(self, function: str, place: Any, wait: bool = True) -> None:
        """Have all parts come to `place`: bytes, device memory, or None: a new array.

        What there is no room for is dropped. Error if the sender's call has failed. Without `wait`
        those that are here.
        """
        try:
            self._begin(function, place)
            while self._at < self.size and self._failure is None:
                self._ask(function)
                if not (wait or self._posted[0][0].done):
                    return
                self._take(function)
            self._sink.finish()
        except Error as reason:  # of the device: the rest is dropped
            with suppress(Error):
                self._sink.had(0)  # copies out of rooms end
            self._failure, self._sink = reason, _Host(memoryview(b""))
            while self._at < self.size and self._posted:
                self._ask(function)
                self._take(function)
        except BaseException:
            self.leave(function)
            raise
        if wait and self._failure is not None:
            raise self._failure

    def _begin(self, function: str, place: Any) -> None:
        if self._sink is not None:
            return
        if place is None:
            import numpy

            self.array = numpy.empty(self.shape, self.dtype)
            place = memoryview(self.array.reshape(-1).view("u1"))
        self._sink = _Device(function, place) if isinstance(place, tuple) else _Host(place)
        self._sink.restore(self._kept)

    def leave(self, function: str) -> None:
        """Wait for what is on its way to memory that is its caller's again, and keep all."""
        while self._posted:
            with suppress(BaseException):  # each Ctrl-C meanwhile
                self._take(function)
        if self._sink is not None:
            self._kept, self._sink = self._sink.had(self._at), None
            if len(self._kept) < self._at:
                self._failure = TruncationError(
                    f"{function}: the message from rank {self._from[0]} has {self.size} bytes and "
                    "came when a receive into a shorter buffer was interrupted; the rest is gone"
                )

    def _ask(self, function: str) -> None:
        while self._asked < self.size and len(self._posted) < _AHEAD:
            at, size = self._asked, min(self._part, self.size - self._asked)
            room = self._sink.room(at, size)
            request = _engine.transfer_irecv(function, room, *self._from)
            self._posted.append((request, room, at, size))
            self._asked += size

    def _take(self, function: str) -> None:
        """Wait for the oldest part; after an empty one nothing comes."""
        request, room, at, size = self._posted[0]
        try:
            request.wait()
            if request.status.size != size:
                raise Error(
                    f"{function}: the message from rank {self._from[0]} ended after {at} of "
                    f"{self.size} bytes: the send there has failed, or was interrupted"
                )
        except Error as reason:
            self._failure = reason
            for other, *_ in self._posted:
                other.cancel()
            self._posted.clear()
            return
        self._sink.taken(room, at, size)
        self._at = at + size
        self._posted.popleft()
