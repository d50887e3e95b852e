"""The starter of this process: one other process, which makes all those that start groups."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading

from acp_mpi import rooms
from acp_mpi.spawn.growing.program import room
from acp_mpi.spawn.growing.starter import TEMPLATE
from acp_mpi.spawn.macprun import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# As a Python of programs, which may be forked from it: with no option, and nothing of this folder.
_PROGRAM = """
import sys
if not sys.flags.safe_path:
    del sys.path[0]
from acp_mpi.spawn.growing.starter import main
main()
"""
_LAST_WORDS = 1 << 16  # bytes
_OFTEN = 2  # calls that start programs of Python until there is a template for the next

_lock = threading.Lock()
_starter: _Starter | None = None


class _Starter:
    """A process of no terminal and no launcher."""

    def __init__(self) -> None:
        self._programs = 0
        self._line, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said, output = os.pipe()  # of the kind that programs have
        os.set_blocking(self._said, False)
        with other, open(output, "wb") as pipe:
            line = other.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(line), room()],
                stdin=subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                env=environment.inherited(os.environ),
                pass_fds=(line,),
                start_new_session=True,
            )

    def ask(self, kind: bytes, given: list[int]) -> None:
        socket.send_fds(self._line, [kind], given)

    def expect_program(self) -> None:
        self._programs += 1
        if self._programs == _OFTEN:
            self.ask(TEMPLATE, [])

    def last_words(self) -> str:
        with contextlib.suppress(BlockingIOError):
            return os.read(self._said, _LAST_WORDS).decode(errors="replace")
        return ""

    def end(self) -> None:
        self._line.close()
        os.close(self._said)
        self.process.kill()
        self.process.wait()


def begin() -> None:
    """Have a starter, which gets ready while this process goes on."""
    global _starter
    with _lock:
        if _starter is None:
            _starter = _Starter()


@rooms.on_close
def _end() -> None:
    """Have no starter when the job has ended: what it has made lives on."""
    global _starter
    with _lock:
        if _starter is not None:
            _starter.end()
            _starter = None


def make(kind: bytes, *given: int, programs: bool = False) -> socket.socket:
    """Make a process of a kind, and return the socket by which it hears what to do.

    It gets duplicates of the descriptors `given`. `programs`: it is to start some that could be
    forked from a template.
    """
    global _starter
    ours, theirs = socket.socketpair()
    with theirs:
        begin()
        descriptors = [theirs.fileno(), *given]
        with _lock:
            assert _starter is not None
            try:
                if programs:
                    _starter.expect_program()
                _starter.ask(kind, descriptors)
            except (BrokenPipeError, ConnectionResetError):  # it was killed: there can be another
                _starter.end()
                _starter = _Starter()
                _starter.ask(kind, descriptors)
    return ours


def last_words() -> str:
    """Return what the starter has said: errors, for otherwise it says nothing."""
    with _lock:
        return "" if _starter is None else _starter.last_words()


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
