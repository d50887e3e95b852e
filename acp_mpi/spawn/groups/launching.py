"""How a process that is small, and has one thread, starts a program."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
    from typing import NoReturn
else:
    import _signal as signal  # what signal makes of it takes time to load

# Signals that the process itself, or Python, ignores; a program may want them.
_RESTORED = (
    signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ,
)  # fmt: skip


def launch(
    command: Sequence[str],
    env: Mapping[str, str],
    directory: str,
    out: int,
    err: int,
) -> int:
    """Start a program in a session of its own, and return its process number.

    The program reads nothing, and writes to `out` and `err`. Raises OSError, with the path that was
    not found or could not be run as `filename`.
    """
    fault, end = os.pipe()
    pid = os.fork()
    if not pid:
        _run(command, env, directory, out, err, end)
    os.close(end)
    with open(fault, "rb") as told:
        number, _, name = told.read().partition(b" ")
    if not number:
        return pid
    os.waitpid(pid, 0)
    raise OSError(int(number), os.strerror(int(number)), os.fsdecode(name))


def _run(
    command: Sequence[str],
    env: Mapping[str, str],
    directory: str,
    out: int,
    err: int,
    end: int,
) -> NoReturn:
    name = directory
    try:
        os.setsid()
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        for descriptor, standard in ((out, 1), (err, 2)):
            os.dup2(descriptor, standard)
        os.chdir(directory)
        name = command[0]
        os.execvpe(command[0], [*command], env)
    except OSError as error:
        os.write(end, b"%d %s" % (error.errno or 0, os.fsencode(name)))
    finally:
        os._exit(127)
