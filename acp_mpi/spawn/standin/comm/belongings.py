"""Attributes, name, hints and error handler of a communicator of several groups."""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from abc import ABC, abstractmethod

import mpi4py

import acp_mpi as acp
from acp_mpi.errors import Error
from acp_mpi.spawn.standin.comm.strangers import program
from acp_mpi.spawn.standin.family import MPI, fail
from acp_mpi.spawn.standin.p2p.requests import Request
from acp_mpi.spawn.standin.p2p.work import Done
from acp_mpi.util import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


# The functions of handlers that programs have made: MPI does not say which one is behind a handle.
_functions: dict[int, Callable[[Any, int], object]] = {}
_lock = allocate_lock()
_scratch: Any = None
_BY_RC = {"fatal": MPI.ERRORS_ARE_FATAL, "default": MPI.ERRORS_ARE_FATAL, "abort": MPI.ERRORS_ABORT}


def create_errhandler(function: Callable[[Any, int], object]) -> Any:
    """Return a handler that calls a function with the communicator and the error."""
    made = MPI.Comm.Create_errhandler(function)
    _functions[MPI._handleof(made)] = function
    return made


def _one_more(handler: Any) -> Any:
    """Return a handler once more, for one more to free it: a communicator of MPI's counts that."""
    global _scratch
    with _lock:
        if _scratch is None:
            _scratch = MPI.COMM_SELF.Dup()
            _scratch.Set_errhandler(MPI.ERRORS_RETURN)
        _scratch.Set_errhandler(handler)
        try:
            return _scratch.Get_errhandler()
        finally:
            _scratch.Set_errhandler(MPI.ERRORS_RETURN)


def told(error: BaseException) -> int:
    """Print what a function that MPI calls has raised; return the code that MPI gets for it."""
    import traceback  # which a program without errors need not load

    traceback.print_exception(error)
    return int(error.Get_error_code() if isinstance(error, MPI.Exception) else MPI.ERR_OTHER)


class Errors:
    """The error handler of a communicator: what `mpi4py.rc.errors` says, until another is set."""

    def __init__(self, shown: Callable[[], Any], abort: Callable[[int], NoReturn]) -> None:
        self._shown, self._abort = shown, abort
        self._handler: Any = _BY_RC.get(mpi4py.rc.errors, MPI.ERRORS_RETURN)
        self._counted = False  # MPI's own need not be freed

    def get(self) -> Any:
        """Return the handler, for the caller to free."""
        return _one_more(self._handler)

    def set(self, handler: Any) -> None:
        """Have errors call this handler."""
        kept = _one_more(handler)
        self.clear()
        self._handler, self._counted = kept, True

    def clear(self) -> None:
        """Give the handler back; errors are exceptions."""
        handler, counted = self._handler, self._counted
        self._handler, self._counted = MPI.ERRORS_RETURN, False
        if counted:
            handler.Free()

    def failed(self, error: BaseException) -> None:
        """Call the handler for what a call is about to raise, unless that is none of MPI's errors.

        Ctrl-C is not one, nor what an object raises where it is unpacked.
        """
        if isinstance(error, MPI.Exception):
            self.call(error.Get_error_code(), error)
        elif isinstance(error, Error):
            self.call(MPI.ERR_OTHER, error)

    def call(self, code: int, error: BaseException | None = None) -> None:
        """Call the handler; one that ends the program does not return."""
        if self._handler == MPI.ERRORS_RETURN:
            return
        function = _functions.get(MPI._handleof(self._handler))
        if function is None:
            said = str(error) if error else MPI.Get_error_string(code)
            print(f"rank {acp.rank()} of the job: a fatal error: {said}", file=sys.stderr)
            self._abort(code)
        try:
            function(self._shown(), code)
        except BaseException as raised:  # as in mpi4py: what MPI calls cannot raise
            told(raised)
            print("the function of an error handler raised this exception", file=sys.stderr)
            self._abort(1)


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

    UNIVERSE_SIZE is missing without a launcher: MPICH looks for one of its own, and ours need none.
    To MPI all that were spawned together run one program.
    """
    if keyval == MPI.UNIVERSE_SIZE and not host.launched_by_mpi(os.environ):
        return (None,)
    if keyval == MPI.APPNUM and (number := program()) is not None:
        return (number,)
    return None


class Attributes:
    """The attributes of a communicator."""

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


class Belongings(ABC):
    """The belongings of a communicator; messages and collectives do not look at them."""

    def __init__(self) -> None:
        self.name = ""
        self.attributes = Attributes(self.shown)
        self.errors = Errors(self.shown, self.Abort)
        self.locks: dict[Any, Any] = {}
        self._hints: dict[str, str] = {}
        self._buffer: Any = None

    @abstractmethod
    def shown(self) -> Any:
        """Return a communicator that this is behind."""

    @abstractmethod
    def Abort(self, errorcode: int = 0) -> NoReturn: ...

    def give_to(self, other: Belongings) -> None:
        """Give a duplicate what it is to have, too."""
        self.attributes.copy_to(other.attributes)
        other._hints = dict(self._hints)

    def Get_attr(self, keyval: int) -> Any:
        return self.attributes.get(keyval)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        self.attributes.set(keyval, attrval)

    def Delete_attr(self, keyval: int) -> None:
        self.attributes.delete(keyval)

    def Get_name(self) -> str:
        return self.name

    def Set_name(self, name: Any) -> None:
        if isinstance(name, bytes):
            name = name.decode()
        if not isinstance(name, str):
            raise TypeError(f"Set_name: {name!r} is not a string")
        self.name = name

    def Get_errhandler(self) -> Any:
        return self.errors.get()

    def Set_errhandler(self, errhandler: Any) -> None:
        self.errors.set(errhandler)

    def Call_errhandler(self, errorcode: int) -> None:
        self.errors.call(errorcode)

    def Get_info(self) -> Any:
        return MPI.Info.Create(self._hints)

    def Set_info(self, info: Any) -> None:
        if info != MPI.INFO_NULL:
            self._hints.update(info.items())

    info = property(Get_info, lambda self, info: self.Set_info(info))

    # Messages do not need the buffers that MPI wants for Bsend.

    def Attach_buffer(self, buf: Any) -> None:
        self._buffer = buf

    def Detach_buffer(self) -> Any:
        buffer, self._buffer = self._buffer, None
        return buffer

    def Flush_buffer(self) -> None:  # noqa: B027
        pass

    def Iflush_buffer(self) -> Any:
        return Request._of(Done())
