"""The starter of this process: one other process, which makes all those that start groups."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading

from acp_mpi.launch.macprun import environment
from acp_mpi.util import lifecycle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM = "from acp_mpi.spawn.groups.fork_server import main; main()"

_lock = threading.Lock()
_starter: _Starter | None = None


class _Starter:
    """A process of no terminal and no launcher."""

    def __init__(self) -> None:
        self._line, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                env=environment.inherited(os.environ),
                start_new_session=True,
            )

    def ask(self, kind: bytes, given: list[int]) -> None:
        socket.send_fds(self._line, [kind], given)

    def end(self) -> None:
        self._line.close()
        self.process.kill()
        self.process.wait()


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


def make(kind: bytes, *given: int) -> socket.socket:
    """Make a process of a kind, and return the socket by which it gets its orders.

    The server gets duplicates of the descriptors `given`.
    """
    global _starter
    ours, theirs = socket.socketpair()
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
