"""Rooms in global memory of the host, through which bytes of device memory go."""

from __future__ import annotations

from acp_mpi.engine import _engine
from acp_mpi.util.lifecycle import on_close, on_reset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BYTES = 1 << 20
SPARE = 8
_rooms: list[Any] = []
_lent: set[int] = set()  # the ids of those that may come back: none of a job that has ended


@on_reset
@on_close
def _forget() -> None:
    _rooms.clear()
    _lent.clear()


def take(function: str) -> Any:
    """Return a room of `BYTES` bytes, with its address `ga`."""
    try:
        room = _rooms.pop()
    except IndexError:
        room = _engine.allocate(BYTES, 0, function)
    _lent.add(id(room))
    return room


def give(room: Any) -> None:
    """Keep a room for the next one that needs one."""
    if id(room) in _lent:
        _lent.discard(id(room))
        if len(_rooms) < SPARE:
            _rooms.append(room)


class Loan:
    """The bytes of a room, for NumPy; it goes back when no array is over them any more."""

    __slots__ = ("__array_interface__", "_room")

    def __init__(self, function: str, size: int) -> None:
        self._room = take(function)
        place = _engine.buffer_place(self._room, True)[0]
        shown = {"shape": (size,), "typestr": "|u1", "data": (place, False), "version": 3}
        self.__array_interface__ = shown

    @property
    def ga(self) -> int:
        """The address of its first byte."""
        return int(self._room.ga)

    def __del__(self) -> None:
        give(self._room)
