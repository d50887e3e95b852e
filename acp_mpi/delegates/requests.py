"""Commands that are under way, as the rank sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import acp_mpi as acp
from acp_mpi.delegates.memory import release

if TYPE_CHECKING:
    from collections.abc import Callable

    from acp_mpi.delegates.lines import Line


def fill(out: Any, answer: bytes) -> Any:
    """Bring a result to an array of the host; return that."""
    import numpy

    out[...] = numpy.ndarray(out.shape, out.dtype, answer)
    return out


def filled(arrays: tuple[Any, Any], answer: bytes | None) -> Any:
    """Return the second of two plain arrays, filled by the answer, if that brings the result."""
    out = arrays[1]
    if answer is not None:
        out[...] = type(out)(out.shape, out.dtype, answer)
    return out


class DelegateRequest(acp.Request[Any]):
    """A command of a delegate that is under way; `wait()` gives its result."""

    __slots__ = (
        "_claimed", "_copied", "_error", "_finish", "_keep", "_line", "_number", "_over", "_result",
        "_text",
    )  # fmt: skip

    def __init__(
        self,
        line: Line,
        number: int,
        text: str,
        keep: Any,
        finish: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        self._line, self._number, self._text, self._keep = line, number, text, keep
        self._finish = finish  # makes the result of what was kept and the answer
        self._copied = self._over = self._claimed = False
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Return whether it is over, well or not; never waits."""
        return self._over or self._line.wait(lambda: self._over, 0.0)

    @property
    def claimed(self) -> bool:
        """Return whether `wait` or `test` has handed its result, or its error, out."""
        return self._claimed

    def parts(self) -> list[acp.Request[Any]]:
        """Return the requests of messages that it waits for."""
        coming = self._line.coming
        return [] if self._over or coming is None else [coming]

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until it is done and return its result.

        Raises what went wrong at the delegate, PeerLostError if that has died, TimeoutError after
        `timeout` seconds: it goes on then.
        """
        if not (self._over or self._line.wait(lambda: self._over, timeout)):
            why = self._line.why_not_done(self._number, timeout)
            raise TimeoutError(f"{self}: not done within {timeout} s{why}; it goes on")
        self._claimed = True
        if self._error is not None:
            raise self._error
        return self._result

    def test(self) -> bool:
        """Return whether it is done; raises what went wrong."""
        if self.done:
            self.wait(0.0)
        return self._over

    def copied(self, timeout: float | None = None) -> None:
        """Wait until what is to be written may change: the delegate has a copy, or has written it.

        Errors as of `wait`.
        """
        if not self._line.wait(lambda: self._copied or self._over, timeout):
            raise TimeoutError(f"{self}: not copied within {timeout} s; it goes on")
        if self._error is not None:
            self.wait(0.0)

    def cancel(self) -> bool:
        """Return False: a command is not taken back."""
        return False

    def drop(self) -> None:
        """Let go of the memory: it has not begun."""
        release(self._keep)

    def _take(self, result: Any, error: BaseException | None) -> None:
        """Take the outcome in, and let go of the memory."""
        release(self._keep)
        if self._finish is not None and error is None:
            try:
                result = self._finish(self._keep, result)
            except Exception as caught:
                error = caught
        self._keep = self._finish = None
        self._result, self._error, self._over = result, error, True

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<acp_mpi.DelegateRequest {self}, {'done' if self._over else 'pending'}>"
