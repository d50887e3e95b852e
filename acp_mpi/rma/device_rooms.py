"""Rooms in global memory of the host, through which bytes of device memory go."""

from __future__ import annotations

from acp_mpi.engine import _engine
from acp_mpi.util.lifecycle import on_close, on_reset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BYTES = 1 << 20
SPARE = 8
LONG = 64 << 20  # bytes of a longer one, at most
LONG_SPARE = 2 * LONG  # of all of these
_rooms: list[Any] = []
_long: list[tuple[int, Any]] = []  # bytes and room, the last given back last
_lent: dict[int, int] = {}  # bytes by the ids of those that may come back: none of an ended job


@on_reset
@on_close
def _forget() -> None:
    _rooms.clear()
    _long.clear()
    _lent.clear()


def take(function: str) -> Any:
    """Return a room of `BYTES` bytes, with its address `ga`."""
    try:
        room = _rooms.pop()
    except IndexError:
        room = _engine.allocate(BYTES, 0, function)
    _lent[id(room)] = BYTES
    return room


def take_long(function: str, size: int) -> Any:
    """Return a room of that size or more, likewise."""
    for each in reversed(_long.copy()):
        if each[0] >= size and _taken(each):
            bytes_of_room, room = each
            break
    else:
        bytes_of_room = -(-size // BYTES) * BYTES
        room = _engine.allocate(bytes_of_room, 0, function)
    _lent[id(room)] = bytes_of_room
    return room


def take_any(function: str, size: int) -> Any:
    """Return a room of that size or more, short or long."""
    return take(function) if size <= BYTES else take_long(function, size)


def _taken(each: tuple[int, Any]) -> bool:
    """Take a long room out; return whether no other thread was faster."""
    try:
        _long.remove(each)
    except ValueError:
        return False
    return True


def give(room: Any) -> None:
    """Keep a room for the next one that needs one."""
    size = _lent.pop(id(room), 0)
    if size > BYTES:
        _long.append((size, room))
        while (kept := _long.copy()) and sum(size for size, _ in kept) > LONG_SPARE:
            _taken(kept[0])
    elif size and len(_rooms) < SPARE:
        _rooms.append(room)


class Loan:
    """The bytes of a room, for NumPy; it goes back when no array is over them any more."""

    __slots__ = ("__array_interface__", "_room")

    def __init__(self, function: str, size: int) -> None:
        self._room = take_any(function, size)
        place = _engine.buffer_place(self._room, True)[0]
        shown = {"shape": (size,), "typestr": "|u1", "data": (place, False), "version": 3}
        self.__array_interface__ = shown

    @property
    def ga(self) -> int:
        """The address of its first byte."""
        return int(self._room.ga)

    def __del__(self) -> None:
        give(self._room)
