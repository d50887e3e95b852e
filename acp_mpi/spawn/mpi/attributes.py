"""Attributes of communicators of several groups, and the keys that all communicators share."""

from __future__ import annotations

import os

from acp_mpi import host
from acp_mpi.spawn.mpi.addresses import fail
from acp_mpi.spawn.mpi.original import MPI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The functions of keys that the program has made; those of other libraries MPI alone knows.
_functions: dict[int, tuple[Any, Any]] = {}
_OF_THE_WORLD = (
    "TAG_UB", "HOST", "IO", "WTIME_IS_GLOBAL", "UNIVERSE_SIZE", "APPNUM", "LASTUSEDCODE",
)  # fmt: skip


def create_keyval(copy_fn: Any = None, delete_fn: Any = None, nopython: bool = False) -> int:
    """Return a key for attributes of any communicator."""
    keyval: int = MPI.Comm.Create_keyval(copy_fn, delete_fn, nopython)
    _functions[keyval] = copy_fn, delete_fn
    return keyval


def has_answer(keyval: int) -> bool:
    """Return whether MPI may be asked for an attribute.

    There is no UNIVERSE_SIZE without a launcher: MPICH looks for one of its own to ask, and ours
    need none.
    """
    return keyval != MPI.UNIVERSE_SIZE or host.launched_by_mpi(os.environ)


class Attributes:
    """What programs hang on a communicator."""

    def __init__(self, shown: Callable[[], Any]) -> None:
        self._values: dict[int, Any] = {}
        self._shown = shown  # the communicator, for the functions of the keys

    def get(self, keyval: int) -> Any:
        """Return an attribute, or None."""
        if keyval in (getattr(MPI, name, None) for name in _OF_THE_WORLD):
            return MPI.COMM_WORLD.Get_attr(keyval) if has_answer(keyval) else None
        if keyval not in _functions:
            fail(MPI.ERR_KEYVAL)
        return self._values.get(keyval)

    def set(self, keyval: int, value: Any) -> None:
        """Hang an attribute on the communicator."""
        if keyval not in _functions:
            fail(MPI.ERR_KEYVAL)
        if keyval in self._values:
            self._dropped(keyval)
        self._values[keyval] = value

    def delete(self, keyval: int) -> None:
        """Take an attribute away."""
        if keyval not in self._values:
            fail(MPI.ERR_KEYVAL)
        self._dropped(keyval)

    def _dropped(self, keyval: int) -> None:
        value = self._values.pop(keyval)
        delete = _functions[keyval][1]
        if delete is not None:
            delete(self._shown(), keyval, value)

    def clear(self) -> None:
        """Take all away, the last first."""
        for keyval in reversed(list(self._values)):
            self._dropped(keyval)

    def copy_to(self, other: Attributes) -> None:
        """Give a duplicate what the functions of the keys say."""
        for keyval, value in self._values.items():
            copy = _functions[keyval][0]
            if copy is None or copy is False:
                continue
            copied = value if copy is True else copy(self._shown(), keyval, value)
            if copied is not NotImplemented:
                other._values[keyval] = copied
