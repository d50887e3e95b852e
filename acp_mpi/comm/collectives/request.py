"""A collective that goes on by itself, and how it is asked."""

from __future__ import annotations

import time
from _thread import allocate_lock, start_new_thread
from contextlib import contextmanager, suppress
from sys import getrefcount

from acp_mpi.engine._engine import Request, seconds_of
from acp_mpi.util.lifecycle import on_close, on_reset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any

    from acp_mpi.engine import _engine

_running: set[CollectiveRequest] = set()  # their memory must stay, also when they are dropped
_begun = 0  # since the last sweep
_SWEEP = 16  # and one more for each that was left


def _last(listed: list[Any]) -> tuple[Any, int]:
    """Take the last; how many references it has beside the list's."""
    one = listed.pop()
    return one, getrefcount(one)


_lone = {object()}
_DROPPED = _last([*_lone])[1]  # without other references; releases of Python count differently


def _sweep() -> None:
    """Let go of those that have ended, and take those further that have been dropped."""
    global _begun
    listed = list(_running)  # where this calls Python another thread may begin one
    while listed:
        one, references = _last(listed)
        if references <= _DROPPED:
            with suppress(Exception):  # not wanted
                one.test()
            one._error = None  # which would hold it
        if not one._under_way():
            _running.discard(one)
    _begun = -len(_running)


class CollectiveRequest(Request["Any"]):
    """A collective that `iallreduce` and the like begin: `wait()` gives its result, `test()` says
    whether it is there.

    Messages go on while this process computes, and a thread copies the parts of device memory. Only
    what Python must do, functions as operations and the second half of a collective of objects,
    waits for `wait` or `test`.
    """

    def __init__(self, flow: Generator[_engine.Collective, None, Any]) -> None:
        self._flow = flow
        self._result: Any = None
        self._error: BaseException | None = None
        self._current: _engine.Collective | None = None
        self._turn = allocate_lock()  # of the thread that drives it
        self._claimed = False
        self._go_on()
        if self._under_way():
            _running.add(self)
        global _begun
        _begun += 1
        if _begun > _SWEEP:
            _sweep()

    def _go_on(self) -> None:
        try:
            self._current = next(self._flow)
            self._current.release()
            if self._current.call is not None:  # of device memory
                start_new_thread(self._drive, ())
        except StopIteration as end:
            self._current = None
            self._result = end.value
        except BaseException as error:
            self._current = None
            self._error = error
            raise

    def _drive(self) -> None:
        with self._turn, suppress(BaseException):
            self._finish(None)

    def _under_way(self) -> bool:
        return self._current is not None

    @property
    def done(self) -> bool:
        """Return whether it is over, well or not; never waits."""
        try:
            return self._look()
        except Exception:
            return True  # `wait` raises it

    @property
    def claimed(self) -> bool:
        """Return whether `wait`, `waitany` or `test` has handed its result out."""
        return self._claimed

    def parts(self) -> list[Request[Any]]:
        """Return the requests of messages that it waits for: it has none of its own."""
        return []

    @contextmanager
    def held(self) -> Iterator[_engine.Collective | None]:
        """Lend the native collective, which no other then ends; None if another thread has it."""
        if not self._turn.acquire(blocking=False):
            yield None
            return
        try:
            yield self._current
        finally:
            self._turn.release()

    def test(self) -> bool:
        """Return whether it is done; raises why it has failed."""
        try:
            over = self._look()
        except BaseException:
            self._claimed = self._error is not None
            raise
        self._claimed |= over
        return over

    def _look(self) -> bool:
        if not self._turn.acquire(blocking=False):
            return False
        try:
            while self._current is not None:
                try:
                    if not self._current.test():
                        return False
                except BaseException as error:
                    self._failed(error)
                    raise
                self._go_on()
            return self._ended()
        finally:
            self._turn.release()

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until it is done and return its result.

        TimeoutError after `timeout` seconds, and it goes on; PeerLostError if a rank that it needs
        has died.
        """
        seconds = seconds_of(timeout, "wait")
        end = None if seconds is None else time.monotonic() + seconds
        if not self._turn.acquire(timeout=-1 if seconds is None else seconds):
            raise TimeoutError(
                f"{self}: timeout= passed without a result; give more time, or none at all"
            )
        try:
            self._finish(end)
            self._claimed = self._ended()
        except BaseException:  # its error is handed out, too, unless it goes on
            self._claimed = self._error is not None
            raise
        finally:
            self._turn.release()
        return self._result

    def _finish(self, end: float | None) -> None:
        while self._current is not None:
            try:
                self._current.wait(None if end is None else max(end - time.monotonic(), 0.0))
            except BaseException as error:
                if self._current.done:
                    self._failed(error)
                raise
            self._go_on()

    def _failed(self, error: BaseException) -> None:
        with suppress(BaseException):  # the parts to come end, too
            self._flow.throw(error)
        self._error = error
        self._current = None
        _running.discard(self)

    def _ended(self) -> bool:
        _running.discard(self)
        if self._error is not None:
            raise self._error
        return True

    def cancel(self) -> bool:
        """Return False: what others have begun with this rank is not taken back."""
        return False

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return f"<acp_mpi collective, {'under way' if self._under_way() else 'done'}>"


@on_reset
@on_close
def _forget() -> None:
    _running.clear()
