"""The starter of this process: one other process, which makes all those that start groups.

It takes as long to begin as all that this process does meanwhile: it is begun first, and nothing
that takes time is loaded here.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import sys
from _thread import allocate_lock
from array import array

from acp_mpi.job.rendezvous.connection import Connection
from acp_mpi.launch.macprun import environment
from acp_mpi.util import lifecycle

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
else:
    import _signal as signal  # what signal makes of it takes time to load

_PROGRAM = "from acp_mpi.spawn.groups.fork_server import main; main()"

_lock = allocate_lock()
_starter: _Starter | None = None


class _Starter:
    """A process of no terminal and no launcher."""

    def __init__(self) -> None:
        self._line, other = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        with Connection(fileno=other.detach()) as other:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-c", _PROGRAM],
                environment.inherited(os.environ),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, other.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                ],
                setpgroup=0,  # Ctrl-C, and what a launcher tells its ranks, are not for it
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them
            )

    def ask(self, kind: bytes, given: list[int]) -> None:
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", given))
        self._line.sendmsg([kind], [rights])

    def end(self) -> None:
        self._line.close()
        with contextlib.suppress(ChildProcessError):  # the program has waited for all its children
            if not os.waitpid(self.pid, os.WNOHANG)[0]:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)


def begin() -> None:
    """Have a starter, which gets ready while this process goes on."""
    global _starter
    with _lock:
        if _starter is None:
            _starter = _Starter()


@lifecycle.on_close
def _end() -> None:
    """Have no starter when the job has ended: what it has made lives on."""
    global _starter
    with _lock:
        if _starter is not None:
            _starter.end()
            _starter = None


def make(kind: bytes, *given: int) -> Connection:
    """Make a process of a kind, and return the socket by which it gets its orders.

    The server gets duplicates of the descriptors `given`.
    """
    global _starter
    ours, theirs = (Connection(fileno=end.detach()) for end in _socket.socketpair())
    with theirs:
        begin()
        descriptors = [theirs.fileno(), *given]
        with _lock:
            assert _starter is not None
            try:
                _starter.ask(kind, descriptors)
            except (BrokenPipeError, ConnectionResetError):  # it was killed: there can be another
                _starter.end()
                _starter = _Starter()
                _starter.ask(kind, descriptors)
    return ours


@contextlib.contextmanager
def output() -> Iterator[list[int]]:
    """Lend duplicates of this process's output and errors, /dev/null for those that are closed."""
    found = []
    try:
        for number in (1, 2):
            try:
                found.append(os.dup(number))
            except OSError:
                found.append(os.open(os.devnull, os.O_WRONLY))
        yield found
    finally:
        for descriptor in found:
            os.close(descriptor)
