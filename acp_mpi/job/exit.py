"""The last moments of a process: what it says of an error, and its end without MPI."""

from __future__ import annotations

import io
import os
import stat
import sys

from acp_mpi.engine import _engine
from acp_mpi.errors import Error

PATIENCE = 60.0  # s for the end of Python without MPI, which takes long on a busy machine
_READ = 1.0  # s for the readers of what was printed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any


def show(hook: Callable[..., Any], error: BaseException, where: str) -> None:
    """Have `hook` print an exception that was not caught, and `where` that was.

    Python's own prints many pieces, between which others could print; here they are one. Ctrl-C may
    come at any place, and an `Error` says all by its text: such tracebacks end in the program's
    line.
    """
    if isinstance(error, (KeyboardInterrupt, Error)):
        _end_in_the_program(error.__traceback__)
    if where and where not in getattr(error, "__notes__", ()):
        error.add_note(where)
    stream, text = sys.stderr, io.StringIO()
    piecemeal = hook is sys.__excepthook__ and stream is not None
    if piecemeal:  # one of the program's may not come back
        text.isatty = stream.isatty  # type: ignore[method-assign]  # there it has colours
        sys.stderr = text
    try:
        hook(type(error), error, error.__traceback__)
    finally:
        if piecemeal:
            sys.stderr = stream
            stream.write(text.getvalue())


def _end_in_the_program(traceback: TracebackType | None) -> None:
    """Cut off the frames of this library that follow the last one of another."""
    last = None
    while traceback is not None:
        if not traceback.tb_frame.f_globals.get("__name__", "").startswith("acp_mpi."):
            last = traceback
        traceback = traceback.tb_next
    if last is not None:
        last.tb_next = None


def without_mpi(code: int) -> None:
    """Have this process end without MPI_Finalize: it would hang (Open MPI) or assert (MPICH).

    `code` is its exit code if Python has none of its own.
    """
    sys.modules["acp_mpi._deadline"] = _Deadline()  # type: ignore[assignment]
    if not _engine.never_finalize_mpi(code):
        flush()
        os._exit(code)


class _Deadline:
    """Ends this process with its stacks if what a broken MPI has left cannot be taken apart.

    In the table of modules: it goes when all exit hooks have run, before what they have used.
    """

    def __init__(self) -> None:
        import faulthandler

        self._start, self._patience = faulthandler.dump_traceback_later, PATIENCE

    def __del__(self) -> None:
        self._start(self._patience, exit=True, file=2)


def flush() -> None:
    """Bring out what was printed, as far as there are readers."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            continue


def until_read(*descriptors: int) -> bool:
    """Wait at most a second until nothing is left unread in these pipes; return whether it is so.

    The launcher of MPICH may forget what it has not read of a rank that aborts.
    """
    import fcntl
    import termios
    import time

    def unread(descriptor: int) -> bool:
        try:
            pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
            return pipe and any(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
        except OSError:  # it is closed
            return False

    end = time.monotonic() + _READ
    while any(map(unread, descriptors)):
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True
