"""A process that starts groups for another, hands their output on, and says how they end.

Programs to start come on a socket, then "joined"; ends are reported there. If the other side closes
it before, the groups are ended. After that they live on without the process that started them.
"""

from __future__ import annotations

import _socket
import os
import select

from acp_mpi.launch.macprun import family
from acp_mpi.launch.macprun.leavings import Leavings
from acp_mpi.spawn.groups import launching, wire_format
from acp_mpi.util import _system, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LAST_LINES = 20
_LONGEST = 1 << 16  # bytes that are kept of a group's output
_GRACE = 2.0  # s for launchers to end what they started


class _Group:
    """A group: its processes, and its last words."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.leavings: dict[int, Leavings] = {}  # by launcher, or rank without
        self.pipes = 0
        self.last: list[bytes] = []
        self.kept = 0

    def hear(self, data: bytes) -> None:
        self.last.append(data)
        self.kept += len(data)
        while self.kept - len(self.last[0]) > _LONGEST:
            self.kept -= len(self.last.pop(0))

    def last_lines(self) -> str:
        return "\n".join(b"".join(self.last).decode(errors="replace").splitlines()[-_LAST_LINES:])


class Minder:
    """Runs the groups of one call."""

    def __init__(self, line: _socket.socket) -> None:
        self._line = line
        self._poll = select.poll()
        self._actions: dict[int, Callable[[], object]] = {}
        self._watch(line.fileno(), self._listen)
        self._heard = b""
        self._joined = self._deserted = False
        self._groups: list[_Group] = []

    def run(self, groups: list[list[dict[str, Any]]]) -> None:
        """Start all, and return when all have ended, or are not wanted any more."""
        _system.adopt_orphans()
        self._groups = [_Group() for _ in groups]
        for number, group in enumerate(groups):
            for start in group:
                self._start(number, start)
        while any(group.running or group.pipes for group in self._groups):
            if self._deserted and not self._joined:
                self._end_all()
                return
            for descriptor, _ in self._poll.poll():
                if action := self._actions.get(descriptor):
                    action()

    def _end_all(self) -> None:
        self._look()
        family.kill_family(_GRACE)
        for group in self._groups:
            for leavings in group.leavings.values():
                leavings.remove()

    def _look(self) -> None:
        for group in self._groups:
            for pid, leavings in group.leavings.items():
                leavings.look(processes.family(pid))

    def _watch(self, descriptor: int, action: Callable[[], object]) -> None:
        self._actions[descriptor] = action
        self._poll.register(descriptor, select.POLLIN)

    def _forget(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        del self._actions[descriptor]

    def _start(self, number: int, start: dict[str, Any]) -> None:
        group = self._groups[number]
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            pid = launching.launch(
                start["command"], start["env"], start["directory"], out_end, err_end
            )
        except OSError as error:
            os.close(out)
            os.close(err)
            self._end(number, 127, f"{error.filename}: {error.strerror}")
            return
        finally:
            os.close(out_end)
            os.close(err_end)
        for pipe, to in ((out, 1), (err, 2)):
            os.set_blocking(pipe, False)
            group.pipes += 1
            self._watch(pipe, lambda pipe=pipe, to=to: self._hand_on(number, pipe, to))  # type: ignore[misc]
        group.running.add(pid)
        if start["mpi"]:
            group.leavings[pid] = Leavings(start["env"])
        descriptor = processes.end_of(pid)
        self._watch(descriptor, lambda: self._reap(number, pid, descriptor, (out, err)))

    def _hand_on(self, number: int, pipe: int, to: int) -> bool:
        try:
            data = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self._forget(pipe)
            os.close(pipe)
            self._groups[number].pipes -= 1
            return False
        self._groups[number].hear(data)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(to, view) :]
        except OSError:  # the reader has gone; the group goes on
            pass
        return True

    def _reap(self, number: int, pid: int, descriptor: int, pipes: tuple[int, int]) -> None:
        self._forget(descriptor)
        os.close(descriptor)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for pipe in pipes:  # its last words before its end
            if action := self._actions.get(pipe):
                while action():
                    pass
        group = self._groups[number]
        group.running.discard(pid)
        if pid in group.leavings:
            group.leavings.pop(pid).remove()
        self._end(number, code, processes.outcome(code)[1])

    def _end(self, number: int, code: int, reason: str) -> None:
        word = {"group": number, "code": code, "reason": reason}
        word["output"] = self._groups[number].last_lines()
        try:
            self._line.sendall(wire_format.framed(word))
        except OSError:  # no reader
            pass

    def _listen(self) -> None:
        try:
            data = self._line.recv(64)
        except OSError:
            data = b""
        if not data:
            self._forget(self._line.fileno())
            self._deserted = True
            return
        self._heard += data
        if not self._joined and b"joined\n" in self._heard:
            self._joined = True
            self._look()


def run(line: int, out: int, err: int) -> None:
    """Run in a process of its own: `line` is the socket, and output goes to `out` and `err`."""
    for descriptor, number in ((out, 1), (err, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    talk = _socket.socket(fileno=line)
    heard: bytes = b""
    orders: list[Any] = []
    while not orders:
        data = talk.recv(1 << 20)
        if not data:
            return  # the process that asked has ended
        orders, heard = wire_format.parted(heard + data)
    Minder(talk).run(orders[0])
