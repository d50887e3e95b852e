"""Attributes of communicators of several groups, and the keys that all communicators share."""

from __future__ import annotations

import os

from acp_mpi.spawn.standin.comm.strangers import program
from acp_mpi.spawn.standin.original import MPI, fail
from acp_mpi.spawn.standin.types.errhandlers import told
from acp_mpi.util import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Keys that the program has made, by their numbers; those of other libraries MPI alone knows.
_keys: dict[int, _Key] = {}
_OF_THE_WORLD = (
    "TAG_UB", "HOST", "IO", "WTIME_IS_GLOBAL", "UNIVERSE_SIZE", "APPNUM", "LASTUSEDCODE",
)  # fmt: skip


class _Key:
    """A key and its functions. MPI gives the number of one that was freed to another one."""

    def __init__(self, keyval: int, copy: Any, delete: Any) -> None:
        self.keyval, self.copy = keyval, copy
        self.delete = None if isinstance(delete, bool) else delete  # mpi4py takes these for none


def _key(keyval: int) -> _Key:
    if keyval not in _keys:
        fail(MPI.ERR_KEYVAL)
    return _keys[keyval]


def create_keyval(copy_fn: Any = None, delete_fn: Any = None, nopython: bool = False) -> int:
    """Return a key for attributes of any communicator."""
    keyval: int = MPI.Comm.Create_keyval(copy_fn, delete_fn, nopython)
    _keys[keyval] = _Key(keyval, copy_fn, delete_fn)
    return keyval


def free_keyval(keyval: int) -> int:
    """Give a key back; what hangs by it stays until its communicator goes."""
    invalid: int = MPI.Comm.Free_keyval(keyval)
    _keys.pop(keyval, None)
    return invalid


def own_answer(keyval: int) -> tuple[int | None] | None:
    """Return what MPI does not know, and is not asked for, in a tuple; None: it is to be asked.

    There is no UNIVERSE_SIZE without a launcher: MPICH looks for one of its own to ask, and ours
    need none. To MPI all that were spawned together run one program.
    """
    if keyval == MPI.UNIVERSE_SIZE and not host.launched_by_mpi(os.environ):
        return (None,)
    if keyval == MPI.APPNUM and (number := program()) is not None:
        return (number,)
    return None


class Attributes:
    """What programs hang on a communicator."""

    def __init__(self, shown: Callable[[], Any]) -> None:
        self._values: dict[_Key, Any] = {}
        self._shown = shown  # the communicator, for the functions of the keys

    def get(self, keyval: int) -> Any:
        """Return an attribute, or None."""
        if keyval in (getattr(MPI, name, None) for name in _OF_THE_WORLD):
            known = own_answer(keyval)
            return MPI.COMM_WORLD.Get_attr(keyval) if known is None else known[0]
        return self._values.get(_key(keyval))

    def set(self, keyval: int, value: Any) -> None:
        """Hang an attribute on the communicator."""
        key = _key(keyval)
        if key in self._values:
            self._dropped(key)
        self._values[key] = value

    def delete(self, keyval: int) -> None:
        """Take an attribute away."""
        key = _key(keyval)
        if key not in self._values:
            fail(MPI.ERR_KEYVAL)
        if (code := self._dropped(key)) != MPI.SUCCESS:
            fail(code)

    def _dropped(self, key: _Key) -> int:
        """Take an attribute away; return how its function has ended."""
        value = self._values.pop(key)
        if key.delete is None:
            return int(MPI.SUCCESS)
        try:
            key.delete(self._shown(), key.keyval, value)
        except BaseException as error:
            return told(error)
        return int(MPI.SUCCESS)

    def clear(self) -> None:
        """Take all away, the last first."""
        for key in reversed(list(self._values)):
            self._dropped(key)

    def copy_to(self, other: Attributes) -> None:
        """Give a duplicate what the functions of the keys say."""
        for key, value in self._values.items():
            copy = key.copy
            if copy is None or copy is False:
                continue
            try:
                copied = value if copy is True else copy(self._shown(), key.keyval, value)
            except BaseException as error:
                fail(told(error))
            if copied is not NotImplemented:
                other._values[key] = copied
