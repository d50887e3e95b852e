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
_era = 0  # one more with each end of all addresses


@on_reset
@on_close
def _forget() -> None:
    global _era
    _era += 1
    _rooms.clear()


def take(function: str) -> Any:
    """Return a room of `BYTES` bytes, with its address `ga`."""
    try:
        return _rooms.pop()
    except IndexError:
        return _engine.allocate(BYTES, 0, function)


def give(room: Any) -> None:
    """Keep a room for the next one that needs one."""
    if len(_rooms) < SPARE and not any(room is each for each in _rooms):
        _rooms.append(room)


class Loan:
    """The bytes of a room, for NumPy; it goes back when no array is over them any more."""

    __slots__ = ("__array_interface__", "_era", "_room")

    def __init__(self, function: str, size: int) -> None:
        self._room, self._era = take(function), _era
        place = _engine.buffer_place(self._room, True)[0]
        shown = {"shape": (size,), "typestr": "|u1", "data": (place, False), "version": 3}
        self.__array_interface__ = shown

    @property
    def ga(self) -> int:
        """The address of its first byte."""
        return int(self._room.ga)

    def __del__(self) -> None:
        if self._era == _era:
            give(self._room)
