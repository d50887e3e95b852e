"""The process that `srun` starts on a node: it starts ranks of a group there, without MPI.

Its input is a line of JSON, and then a line for each signal that is passed on. When the input
ends, with `srun` or with macprun, all that was started ends. Each piece of output has a mark with
its rank before it; a mark with an exit status is the end of a rank.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time

from acp_mpi.launch.macprun import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

MARKS = re.compile(rb"\x1eacp\.(\d+)(?:=(-?\d+))?\x1f(?(2)\n)")
_GRACE = 1.0  # s between asking and killing
_OTHERS_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def request(
    ranks: Iterable[int], command: Iterable[str], directory: str, env: Mapping[str, str]
) -> str:
    """Return what this process is to be told; `env` is added to what the node has."""
    return json.dumps([list(ranks), list(command), directory, dict(env)]) + "\n"


def main() -> int:
    """Start the ranks of the request and serve them to their end."""
    # Slurm signals all processes of a step, so the ranks have them, too.
    for number in _OTHERS_END:
        signal.signal(number, _nothing_to_do)
    with open(0, "rb", buffering=0, closefd=False) as orders:
        ranks, command, directory, env = json.loads(orders.readline())
        node = _Node()
        for rank in ranks:
            node.start(rank, command, directory, env)
        node.serve(orders.fileno())
    return 0


class _Node:
    """What runs here of a group."""

    def __init__(self) -> None:
        self._base = environment.inherited(os.environ)
        self._base.pop("ACP_LIFELINE", None)  # a pipe of macprun's host
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._selector = selectors.DefaultSelector()
        self._kill_at: float | None = None
        self._dead, writer = socket.socketpair()
        for end in (self._dead, writer):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, _nothing_to_do)
        signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)

    def start(self, rank: int, command: list[str], directory: str, env: dict[str, str]) -> None:
        """Start a rank; if that cannot be, it has ended with 127."""
        try:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._base | env | {"ACP_GROUP_RANK": str(rank)},
                cwd=directory,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            where = error.filename if error.filename is not None else command[0]
            _write(2, _marked(rank, os.fsencode(f"{where}: {error.strerror}\n")))
            _write(1, _end(rank, 127))
            return
        self._running[rank] = started
        for pipe, to in ((started.stdout, 1), (started.stderr, 2)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, (rank, to))

    def serve(self, orders: int) -> None:
        """Pass on output and signals until all have ended."""
        self._selector.register(orders, selectors.EVENT_READ, None)
        self._selector.register(self._dead, selectors.EVENT_READ, None)
        while self._running:
            left = None if self._kill_at is None else max(self._kill_at - time.monotonic(), 0.0)
            for key, _ in self._selector.select(left):
                if key.data is not None:
                    self._read(key.fileobj, *key.data)
                elif key.fd == orders:
                    self._obey(orders)
                else:
                    with contextlib.suppress(BlockingIOError):
                        self._dead.recv(4096)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._signal(signal.SIGKILL)
                self._kill_at = time.monotonic() + _GRACE
            self._reap()

    def _obey(self, orders: int) -> None:
        """Pass on the signals that were named; the end of the orders is that of all."""
        words = os.read(orders, 4096).split()
        for word in words:
            self._signal(signal.Signals[f"SIG{word.decode()}"])
        if not words:
            self._selector.unregister(orders)
            self._signal(signal.SIGTERM)
            self._kill_at = time.monotonic() + _GRACE

    def _signal(self, number: signal.Signals) -> None:
        for started in self._running.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(started.pid, number)

    def _reap(self) -> None:
        """Collect the dead, end what they leave in their session, and tell of them."""
        for rank, started in list(self._running.items()):
            if os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()
            for pipe, to in ((started.stdout, 1), (started.stderr, 2)):
                assert pipe is not None
                while not pipe.closed and self._read(pipe, rank, to):
                    pass
                if not pipe.closed:  # another process has it, and is not of the job
                    self._selector.unregister(pipe)
                    pipe.close()
            del self._running[rank]
            _write(1, _end(rank, started.returncode))

    def _read(self, pipe: Any, rank: int, to: int) -> bool:
        """Pass on what is in a pipe; return whether there was anything."""
        try:
            data = os.read(pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(pipe)
            pipe.close()
            return False
        _write(to, _marked(rank, data))
        return True


def _marked(rank: int, data: bytes) -> bytes:
    mark = b"\x1eacp.%d\x1f" % rank
    return b"".join(mark + line for line in data.splitlines(keepends=True))


def _end(rank: int, code: int) -> bytes:
    return b"\x1eacp.%d=%d\x1f\n" % (rank, code)


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # srun has gone, and the orders end
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]


def _nothing_to_do(number: int, frame: object) -> None:
    """Be woken, and live on."""


if __name__ == "__main__":
    sys.exit(main())
