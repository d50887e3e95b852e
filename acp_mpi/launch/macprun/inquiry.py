"""Questions to ranks on other hosts about what they do, at the addresses of their links.

Their progress threads answer, whatever the programs do, and they learn nothing of the process that
asks but that it knows the secret of the job.
"""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import handshake
from acp_mpi.job.rendezvous.row import endpoints
from acp_mpi.job.rendezvous.secret import job_id
from acp_mpi.job.rendezvous.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from acp_mpi.job.rendezvous.visitor import Talk

_PATIENCE = 2.0  # s for each of them
_AT_A_TIME = 256  # connections


class Doing(NamedTuple):
    """The state of a rank: an index of `membership.DOING`, and the rank that it waits for."""

    rank: int
    what: int
    whom: int | None
    notice: int
    """A word for onlookers: where the registry is, if the job has one."""


class _Call:
    """A connection to one address of the process in `slot`."""

    def __init__(self, slot: int, address: tuple[str, int]) -> None:
        self.slot = slot
        self.until = time.monotonic() + _PATIENCE
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        self.visitor = Visitor(sock, address[0])
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            sock.close()
            raise OSError(code, "connect")


class Inquiry:
    """Questions to the processes of a job, by slot; `host` is the key of the host that asks."""

    def __init__(self, secret: bytes, rows: Mapping[int, bytes], host: int) -> None:
        self._secret, self._job = secret, job_id(secret)
        self._calls = deque(
            (slot, address) for slot, row in rows.items() for address in endpoints(row, host)
        )
        self._open: dict[_Call, None] = {}  # the first to be given up stands first
        self._selector = selectors.DefaultSelector()
        self.answers: dict[int, Doing] = {}
        self.absent = {slot for slot, _ in self._calls}
        """Ranks without a listener at their address: they have left, or ended."""

    def run(self) -> None:
        """Wait for the answers, 2 s for each; a few hundred are asked at a time."""
        with self._selector:
            while self._calls or self._open:
                while self._calls and len(self._open) < _AT_A_TIME:
                    self._begin(*self._calls.popleft())
                if self._open:
                    self._turn()

    def _begin(self, slot: int, address: tuple[str, int]) -> None:
        if slot in self.answers:
            return
        try:
            call = _Call(slot, address)
        except OSError as reason:
            self._fail(slot, reason)
            return
        self._open[call] = None
        self._selector.register(call.visitor, selectors.EVENT_WRITE, call)
        self._go_on(call, lambda: call.visitor.begin(self._talk(slot)))

    def _turn(self) -> None:
        first = next(iter(self._open))
        for key, _ in self._selector.select(max(0.0, first.until - time.monotonic())):
            self._go_on(key.data, key.data.visitor.turn)
        now = time.monotonic()
        for call in list(self._open):
            if call.slot in self.answers:
                self._end(call)
            elif call.until <= now:
                self._fail(call.slot, TimeoutError())
                self._end(call)

    def _go_on(self, call: _Call, step: Callable[[], object]) -> None:
        """Take a step of the talk; one that returns False is the last."""
        try:
            if step() is not False:
                self._selector.modify(call.visitor, call.visitor.events, call)
                return
        except (OSError, EOFError, ValueError, Error) as reason:
            self._fail(call.slot, reason)
        self._end(call)

    def _talk(self, slot: int) -> Talk:
        opened = _engine.Handshake(
            self._secret,
            self._job,
            handshake.NO_SLOT,
            handshake.ANY,
            role=handshake.Role.LINK,
            want=slot,
        )
        steps = handshake.steps(opened)
        out, size = next(steps)
        try:
            while True:
                answer = (yield out, size) if size else b""
                more, size = steps.send(answer)
                out = more if answer else out + more
        except StopIteration:
            pass
        question = _engine.doing_question(opened)
        answer = yield out + question, len(question)
        self.answers[slot] = Doing(*_engine.doing_answer(opened, answer))

    def _fail(self, slot: int, reason: Exception) -> None:
        if not isinstance(reason, ConnectionRefusedError):
            self.absent.discard(slot)

    def _end(self, call: _Call) -> None:
        del self._open[call]
        self._selector.unregister(call.visitor)
        call.visitor.close()
