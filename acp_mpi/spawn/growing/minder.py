"""A process that starts groups for another, hands their output on, and says how they end.

Its standard input is a socket: what to start comes there as a line of JSON, then "joined"; what
ends is told there. If the other side closes it before, the groups are ended. After that they live
on without whoever started them.
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
from collections import deque
from typing import Any

from acp_mpi.spawn.macprun import guard

_LAST_LINES = 20
_LONGEST = 1 << 16  # bytes that are kept of a group's output
_GRACE = 2.0  # s for launchers to end what they started


class _Group:
    """What is known of a group: what runs of it, its last words."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.pipes = 0
        self.last: deque[bytes] = deque()
        self.kept = 0

    def hear(self, data: bytes) -> None:
        self.last.append(data)
        self.kept += len(data)
        while self.kept - len(self.last[0]) > _LONGEST:
            self.kept -= len(self.last.popleft())

    def last_lines(self) -> str:
        return "\n".join(b"".join(self.last).decode(errors="replace").splitlines()[-_LAST_LINES:])


class Minder:
    """Runs the groups of one call."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._selector = selectors.DefaultSelector()
        self._selector.register(line, selectors.EVENT_READ, self._listen)
        self._heard = b""
        self._joined = self._deserted = False
        self._groups: list[_Group] = []

    def run(self, groups: list[dict[str, Any]]) -> None:
        """Start all, and return when all have ended, or nobody wants them any more."""
        guard.adopt_orphans()
        self._groups = [_Group() for _ in groups]
        for number, group in enumerate(groups):
            for start in group["starts"]:
                self._start(number, start)
        while any(group.running or group.pipes for group in self._groups):
            if self._deserted and not self._joined:
                guard.kill_family(_GRACE)
                return
            for key, _ in self._selector.select():
                key.data()

    def _start(self, number: int, start: dict[str, Any]) -> None:
        group = self._groups[number]
        try:
            process = subprocess.Popen(
                start["command"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=start["env"],
                cwd=start["directory"],
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            where = error.filename if error.filename is not None else start["command"][0]
            self._end(number, 127, f"{where}: {error.strerror}")
            return
        assert process.stdout is not None
        assert process.stderr is not None
        for pipe, to in ((process.stdout, 1), (process.stderr, 2)):
            os.set_blocking(pipe.fileno(), False)
            group.pipes += 1
            self._selector.register(
                pipe, selectors.EVENT_READ, lambda p=pipe, t=to: self._hand_on(number, p, t)
            )
        group.running.add(process.pid)
        descriptor = os.pidfd_open(process.pid)
        self._selector.register(
            descriptor, selectors.EVENT_READ, lambda: self._reap(number, process, descriptor)
        )

    def _hand_on(self, number: int, pipe: Any, to: int) -> bool:
        try:
            data = os.read(pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(pipe)
            pipe.close()
            self._groups[number].pipes -= 1
            return False
        self._groups[number].hear(data)
        with contextlib.suppress(OSError):  # whoever read it has gone; the group goes on
            view = memoryview(data)
            while view:
                view = view[os.write(to, view) :]
        return True

    def _reap(self, number: int, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        code = process.wait()
        for key in list(self._selector.get_map().values()):  # its last words before its end
            if key.fileobj in (process.stdout, process.stderr):
                while key.data():
                    pass
        self._groups[number].running.discard(process.pid)
        reason = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
        self._end(number, code, reason)

    def _end(self, number: int, code: int, reason: str) -> None:
        word = {"group": number, "code": code, "reason": reason}
        word["output"] = self._groups[number].last_lines()
        with contextlib.suppress(OSError):
            self._line.sendall(json.dumps(word).encode() + b"\n")

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            if data := self._line.recv(64):
                self._heard += data
                self._joined = self._joined or b"joined\n" in self._heard
                return
        self._selector.unregister(self._line)
        self._deserted = True


def main() -> None:
    """Run as a process."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    line = socket.socket(fileno=os.dup(0))
    with line.makefile("rb") as words:
        groups = json.loads(words.readline())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    Minder(line).run(groups)
