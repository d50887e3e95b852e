"""What an error calls on a communicator of several groups: MPI's handlers, and programs' own."""

from __future__ import annotations

import sys
from _thread import allocate_lock

import mpi4py

import acp_mpi as acp
from acp_mpi.errors import Error
from acp_mpi.spawn.standin.original import MPI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

# The functions of handlers that programs have made: MPI does not say which one is behind a handle.
_functions: dict[int, Callable[[Any, int], object]] = {}
_lock = allocate_lock()
_scratch: Any = None
_BY_RC = {"fatal": MPI.ERRORS_ARE_FATAL, "default": MPI.ERRORS_ARE_FATAL, "abort": MPI.ERRORS_ABORT}


def create(function: Callable[[Any, int], object]) -> Any:
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
