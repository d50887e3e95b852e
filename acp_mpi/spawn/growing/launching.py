"""How a process that is small, and has one thread, starts a program."""

from __future__ import annotations

import os
import signal

from acp_mpi.spawn.growing import program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

# What the process itself, or Python, ignores; a program may want them.
_RESTORED = (
    signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ,
)  # fmt: skip


def launch(
    command: Sequence[str],
    env: Mapping[str, str],
    directory: str,
    out: int,
    err: int,
    forked: bool,
) -> int:
    """Start a program in a session of its own, and return its process number.

    `forked`: it is not started anew, but BecomeError is raised in the process that is to be it.
    It reads nothing, and writes to `out` and `err`. Raises OSError, whose `filename` is what was
    not found or could not be run.
    """
    fault, end = os.pipe()
    pid = os.fork()
    if not pid:
        _begin(directory, out, err, end)
        if forked:
            os.close(fault)
            os.close(end)
            raise program.BecomeError(command, env)
        _run(command, env, end)
    os.close(end)
    with open(fault, "rb") as told:
        number, _, name = told.read().partition(b" ")
    if not number:
        return pid
    os.waitpid(pid, 0)
    raise OSError(int(number), os.strerror(int(number)), os.fsdecode(name))


def _begin(directory: str, out: int, err: int, end: int) -> None:
    """Give a process what a program finds."""
    os.setsid()
    for number in _RESTORED:
        signal.signal(number, signal.SIG_DFL)
    for descriptor, standard in ((out, 1), (err, 2)):
        os.dup2(descriptor, standard)
    try:
        os.chdir(directory)
    except OSError as error:
        _fail(error, directory, end)


def _run(command: Sequence[str], env: Mapping[str, str], end: int) -> NoReturn:
    try:
        os.execvpe(command[0], [*command], env)
    except OSError as error:
        _fail(error, command[0], end)


def _fail(error: OSError, name: str, end: int) -> NoReturn:
    os.write(end, b"%d %s" % (error.errno or 0, os.fsencode(name)))
    os._exit(127)
