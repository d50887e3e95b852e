"""The way to a delegate and back: channels to its process, or calls where it is threads."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import acp_mpi as acp
from acp_mpi.delegates.ends import Ends
from acp_mpi.delegates.frames import COMMAND, COPIED, FAILED, RING_BITS, SHORT_FOLD, TAG
from acp_mpi.delegates.requests import DelegateRequest
from acp_mpi.engine import _engine
from acp_mpi.errors import Error, PeerLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from acp_mpi.delegates.ring import DelegateRing


_TAKEN = 0.001  # seconds that a thread has for handing on an answer that it has taken


class Line:
    """What is common to both: the commands under way."""

    rank: int | None = None
    prepares = False  # commands are noted for a kernel, not sent

    def __init__(self, say: Callable[[int, int, Any], None]) -> None:
        self._say = say
        self._changed = threading.Condition()
        self._sleepers = 0  # threads that wait for that
        self._numbers = itertools.count()
        self.open: dict[int, DelegateRequest] = {}
        self.failed: list[DelegateRequest] = []  # nobody may have waited for them
        self.rings: dict[int, DelegateRing] = {}  # by the upper bits of their firings' numbers
        self.ring_count = 0  # so far
        self._question: DelegateRequest | None = None  # whom a command waits for
        self.loss: Error | None = None

    @property
    def coming(self) -> acp.Request[Any] | None:
        """What a wait for an answer waits for; None: no message."""
        return None

    def begin(
        self,
        kind: int,
        what: Any,
        text: str,
        keep: Any = None,
        finish: Callable[[Any, Any], Any] | None = None,
    ) -> DelegateRequest:
        """Say `what`, a command or a planned fold; what cannot be sent keeps nothing."""
        number = next(self._numbers)
        request = DelegateRequest(self, number, text, keep, finish)
        try:
            if self.loss is not None:
                raise self.loss
            self.open[number] = request
            self._say(number, kind, what)
        except BaseException as error:
            with self._changed:
                if number in self.open and isinstance(error, PeerLostError):
                    self._lose(error)
                    return request
                self.open.pop(number, None)
            request.drop()
            raise
        return request

    def wait(self, over: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for an answer by which `over` is true; return whether that came in time."""
        seconds = None if timeout is None else _engine.seconds_of(timeout, "wait")
        end = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            while not over():
                left = None if end is None else max(end - time.monotonic(), 0.0)
                if not self._await_answer(left):
                    return over()
        return True

    def why_not_done(self, number: int, timeout: float | None) -> str:
        """Return whom a command waits for, if the delegate says so in that time, a second at most.

        It begins with a comma; "" where there is nothing to say.
        """
        if not timeout or (self._question is not None and not self._question._over):
            return ""  # it does not answer
        with contextlib.suppress(Error):
            self._question = question = self.begin(COMMAND, ("about", None, (number,)), "about")
            question._claimed = True
            if self.wait(lambda: question._over, min(timeout, 1.0)) and question._result:
                return f", {question._result}"
        return ""

    def _await_answer(self, left: float | None) -> bool:
        """Wait for any answer, with the lock; return whether one may have come in time."""
        return left != 0.0 and self._sleep(left)

    def _sleep(self, left: float | None = None) -> bool:
        self._sleepers += 1
        try:
            return self._changed.wait(left)
        finally:
            self._sleepers -= 1

    def _tell(self) -> None:
        """Wake threads that wait, with the lock."""
        if self._sleepers:
            self._changed.notify_all()

    def _heard(self, number: int, kind: int, x: Any) -> None:
        request = self.open.get(number)
        if request is None and (ring := self.rings.get(number >> RING_BITS)):
            request = ring._heard(number)
        if request is None:
            return
        request._copied = True
        if kind == COPIED:
            return
        del self.open[number]
        if kind == FAILED:
            request._take(None, x)
            self.failed = [*(one for one in self.failed if not one.claimed), request]
        else:
            request._take(x, None)

    def _lose(self, error: Error) -> None:
        """All that is under way fails."""
        self.loss = self.loss or error
        while self.open:
            _, request = self.open.popitem()
            text = f"{request}: the delegate, rank {self.rank}, has died"
            request._take(None, PeerLostError(text))
            self.failed.append(request)
        self._tell()

    def close(self) -> None:
        """End it; nothing is under way."""
        raise NotImplementedError


class Channels(Line):
    """To a process. Whichever thread waits first takes the answers in for all."""

    def __init__(self, rank: int) -> None:
        self._ends = Ends(rank)
        super().__init__(self._ends.say)
        self.rank = rank
        self._reads = self._shared = False
        acp.send((_engine.rank(), list(map(os.path.abspath, sys.path))), dest=rank, tag=TAG)

    @property
    def coming(self) -> acp.Request[Any] | None:
        """The next answer; a thread that reads shares that from the next one on."""
        with self._changed:
            while self._reads and self._ends.coming is None:
                if not self._shared:
                    self._shared = True
                    self._say(next(self._numbers), COMMAND, ("ping", None, ()))
                self._sleep()
            return self._ends.expect()

    def _await_answer(self, left: float | None) -> bool:
        if self._reads:
            coming = self._ends.coming
            if left == 0.0 and coming is not None and coming.done:
                left = _TAKEN  # that thread has it, and tells as soon as it gets Python's lock
            return super()._await_answer(left)
        self._reads = True
        self._changed.release()
        said: tuple[int, int, Any] | None = None
        loss: Error | None = None
        try:
            said = self._ends.hear(left)
        except TimeoutError:
            return False
        except Error as error:
            loss = error
        finally:
            self._changed.acquire()
            self._reads = False
            if self._shared:
                self._ends.expect()
                self._shared = False
            self._tell()
        if said is not None:
            self._heard(*said)
        if loss is not None:
            self._lose(loss)
        return True

    def close(self) -> None:
        """Close the channels."""
        self._ends.close()


class Threads(Line):
    """To threads of this process."""

    def __init__(self, memory: int) -> None:
        from acp_mpi.delegates.server import Server

        super().__init__(self._take)
        self._server = Server(memory)

    def _take(self, number: int, kind: int, x: Any) -> None:
        take = self._server.fold if kind == SHORT_FOLD else self._server.command
        take(self, number, x)

    def answer(self, number: int, kind: int, x: Any) -> None:
        """Take an answer of the server in."""
        with self._changed:
            self._heard(number, kind, x)
            self._tell()

    def close(self) -> None:
        """Have the threads end."""
        self._server.drain()
