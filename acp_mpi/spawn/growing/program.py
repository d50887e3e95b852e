"""A program of this Python, run by a process that is forked and not started anew.

What a start of Python and mpi4py takes, the template that it is forked from has done: libraries of
MPI are in memory, and modules that the program would load, too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from importlib.machinery import BuiltinImporter, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, TracebackType
    from typing import Any, NoReturn

_STDERR = 2
_ROOM = 4096  # bytes for a command line where others see it
# What a program of mpi4py loads in any case. MPI itself is left to it: how it begins is its choice.
_LOADED = (
    "pickle", "socket", "threading", "typing", "acp_mpi.runtime", "acp_mpi.mpi_group",
    "acp_mpi.rma.window", "acp_mpi.spawn.hook", "acp_mpi.comm.collectives.request",
    "acp_mpi.spawn.rendezvous.connector",
)  # fmt: skip
# Words of ACP_ are the job's; any other may have had its effect when the template began.
_OURS = "ACP_"

is_loaded = False


class BecomeError(BaseException):
    """Raised in a process that is to be a program, so that it leaves all that it was doing."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.command, self.env = command, env


def can_be_forked(command: Sequence[str], executable: str) -> bool:
    """Return whether a command is this Python with code, or with a file of it, and no options."""
    if len(command) < 2 or command[0] != executable:
        return False
    return len(command) > 2 if command[1] == "-c" else command[1].endswith(".py")


def would_be(env: Mapping[str, str]) -> bool:
    """Return whether this is a template, which found what a program with this environment would."""
    return is_loaded and _others(env) == _others(os.environ)


def _others(env: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in env.items() if not name.startswith(_OURS)}


def load() -> None:
    """Make a template of this process; what cannot be loaded is left to the programs."""
    global is_loaded
    from importlib import import_module, util

    try:
        util.find_spec("mpi4py.MPI")  # looks for libraries of MPI, and so has them loaded
        for name in _LOADED:
            import_module(name)
    except (ImportError, RuntimeError, OSError):
        return
    is_loaded = True


def run(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Run a program as Python does, but for its last steps, to which this process returns."""
    # The template's, whose objects no longer use them.
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > _STDERR:
            with contextlib.suppress(OSError):  # that of the list itself
                os.close(descriptor)
    os.environ.clear()
    os.environ.update(env)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    _show(command)
    sys.orig_argv[:] = command
    if env.get("ACP_SPAWN") == "1":
        from acp_mpi.spawn import hook

        hook.install()
    code, names = _code(command[2:]) if command[1] == "-c" else _file(command[1:])
    try:
        exec(code, names)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        _show_error(error, error.__traceback__ and error.__traceback__.tb_next)


def _code(words: Sequence[str]) -> tuple[CodeType, dict[str, Any]]:
    text, *arguments = words
    sys.argv[:] = ["-c", *arguments]
    names = _names(__loader__=BuiltinImporter)
    _begin_path("")
    return _compiled(text, "<string>"), names


def _file(words: Sequence[str]) -> tuple[CodeType, dict[str, Any]]:
    name = words[0]
    path = os.path.join(os.getcwd(), name)
    sys.argv[:] = words
    try:
        with open(name, "rb") as file:
            text = file.read()
    except OSError as error:
        said = f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}"
        sys.stderr.write(f"{sys.executable}: {said}\n")
        sys.exit(2)
    names = _names(__loader__=SourceFileLoader("__main__", path), __file__=path, __cached__=None)
    _begin_path(os.path.dirname(os.path.realpath(name)))
    return _compiled(text, path), names


def _compiled(text: str | bytes, path: str) -> CodeType:
    try:
        return compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        _show_error(error, None)


def _show_error(error: BaseException, trace: TracebackType | None) -> NoReturn:
    """End as Python does, and show nothing of this module."""
    error.__traceback__ = trace
    sys.excepthook(type(error), error, trace)
    sys.exit(1)


def _names(**more: Any) -> dict[str, Any]:
    """Return the names of a new __main__."""
    names = vars(sys.modules["__main__"])
    names.clear()
    begun = {"__name__": "__main__", "__doc__": None, "__package__": None, "__spec__": None}
    names.update(begun, __annotations__={}, __builtins__=sys.modules["builtins"], **more)
    return names


def _begin_path(first: str) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, first)


def room() -> str:
    """Return a word for the command line of a template, so long that others fit over it."""
    return " " * _ROOM


def _show(command: Sequence[str]) -> None:
    """Have others see the command line of the program."""
    import ctypes

    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # of the command line in this process's memory
    title = b"\0".join(map(os.fsencode, command))[: end - start - 1]
    ctypes.memmove(start, title.ljust(end - start, b"\0"), end - start)
