"""The rank's side of a ring: commands are prepared here, and kernels begin them."""

from __future__ import annotations

import contextlib
from operator import index
from typing import TYPE_CHECKING, Any, ParamSpec, Self

import acp_mpi as acp
from acp_mpi.delegates.frames import COMMAND, FAILED, FIRED, RING_BITS
from acp_mpi.delegates.lines import Line
from acp_mpi.delegates.memory import release
from acp_mpi.delegates.requests import DelegateRequest
from acp_mpi.engine import _engine
from acp_mpi.errors import ClosedError, DeviceError, Error
from acp_mpi.rma import opencl_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import SupportsIndex

    from acp_mpi.delegates.client import Delegate

_P = ParamSpec("_P")
_PAGE = 4096
_MAY = (
    "ping", "load", "save", "commit", "call", "spawn",
    "barrier", "bcast", "reduce", "allreduce", "gather",
)  # fmt: skip


class _Notes(Line):
    """Notes a command in place of sending it."""

    prepares = True

    def __init__(self, rank: int | None) -> None:
        super().__init__(self._note)
        self.rank = rank
        self.said: tuple[Any, ...] = ()

    def _note(self, number: int, kind: int, x: Any) -> None:
        if x[1] is not None:
            raise ValueError("ring: a command of a ring follows nothing; leave after= out")
        self.said = x


class DelegateRing:
    """Slots in which kernels store numbers, each of which begins a command at the delegate.

    `slots` is an array of 8-byte words of this rank, `pointer` is its address for kernels of CUDA,
    `buffer` what kernels of OpenCL get. The n-th firing, from 0 on, is stored in slot
    n % len(slots); the delegate begins what it finds in that order, and makes the slot 0 then. A
    kernel that stores in a slot that is not 0 has replaced a firing, which never comes.
    """

    def __init__(self, delegate: Delegate, line: Line, slots: SupportsIndex, device: Any) -> None:
        count = index(slots)
        if not 1 <= count <= _engine.WATCHED_MOST:
            raise ValueError(f"ring: {slots} slots; a ring has 1 to {_engine.WATCHED_MOST}")
        self._delegate, self._line, self._device = delegate, line, device
        memory = acp.zeros(2 * _PAGE // 8, "u8")
        first = -memory.ctypes.data % _PAGE // 8  # a page of its own: drivers pin pages
        self._page, self.slots = memory[first : first + _PAGE // 8], memory[first : first + count]
        self._buffer = opencl_memory.buffer_over(self._page, device)
        self._commands: dict[int, DelegateRequest] = {}  # that are prepared, with what they keep
        self._kept: list[Any] = []
        self._taken = [0] * count  # firings of each slot, when the ring was disarmed
        self._given = 0  # requests that `next` has returned
        self._come: dict[int, DelegateRequest] = {}  # that it has not
        self._armed = self._closed = False
        with line._changed:
            self._key = FIRED >> RING_BITS | line.ring_count
            line.ring_count += 1
            line.rings[self._key] = self
        self._base = self._key << RING_BITS
        self._ask("open", acp.query_ga(self.slots), count)

    def _ask(self, what: str, *arguments: Any) -> Any:
        said = "ring", None, (what, self._base, *arguments)
        return self._line.begin(COMMAND, said, f"ring: {what}").wait()

    @property
    def armed(self) -> bool:
        """Whether the delegate looks at it."""
        return self._armed

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def pointer(self) -> int:
        """The address at which kernels of CUDA store in `slots`; DeviceError without a driver."""
        return acp.device_pointer(self.slots, self._device or "cuda")

    @property
    def buffer(self) -> Any:
        """The buffer of OpenCL over `slots`, in the context that `ring(device=)` has named."""
        if self._buffer is None:
            raise DeviceError(
                "ring: a buffer is of a context of OpenCL; give that, or a queue: ring(device=)"
            )
        return self._buffer

    def command(
        self,
        k: SupportsIndex,
        maker: Callable[_P, DelegateRequest],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> None:
        """Have the number `k` stand for a command, as `command(1, d.save, "x.npy", x)`.

        `k` is not 0. `maker` is a method of the ring's delegate. Arrays are read, or written, where
        they lie when the command runs; the ring keeps them. ValueError while the ring is armed.
        """
        number, name = index(k), getattr(maker, "__name__", "")
        if not 0 < number < 1 << 64:
            raise ValueError(f"ring.command: {k} is not a number from 1 to 2**64 - 1")
        if getattr(maker, "__self__", None) is not self._delegate or name not in _MAY:
            raise TypeError(
                f"ring.command: {maker!r:.80}; give a method of the ring's delegate, one of "
                f"{', '.join(_MAY)}"
            )
        self._demand("command")
        if self._armed:
            raise ValueError("ring.command: the ring is armed; prepare commands before")
        self._line.wait(lambda: not self._open, None)  # what is under way ends as what it was
        notes = _Notes(self._line.rank)
        noted = getattr(type(self._delegate)(notes), name)(*args, **kwargs)
        self._kept.append(noted._keep)
        self._ask("prepare", number, notes.said)
        self._commands[number] = noted

    def arm(self) -> None:
        """Have the delegate look at the slots; what has been stored there before begins at once."""
        self._demand("arm")
        if not self._armed:
            self._ask("arm")
            self._armed = True

    def disarm(self) -> None:
        """Have the delegate look no more, after a last time; kernels that fire have ended before.

        Requests of `next` whose firing has not come raise an Error.
        """
        if not self._armed:
            return
        self._armed = False
        try:
            self._taken = self._ask("disarm")
        except Error:
            if self._line.loss is None:
                raise
            return  # the requests say that it has died
        with self._line._changed:
            for request in self._open:
                firing = request._number - self._base
                if not self._has_come(firing):
                    text = (
                        f"{request}, in slot {firing % len(self.slots)}, has not come: its kernel "
                        "had not ended before the ring was disarmed, or another firing was stored "
                        "in that slot before the delegate took this one"
                    )
                    self._line._heard(request._number, FAILED, Error(text))

    def next(self) -> DelegateRequest:
        """Return the request of the next firing, which may be still to come.

        The n-th call returns that of the n-th firing; `wait()` returns what its command does, and
        raises an Error for a number that no command has. A request is kept until it is asked for.
        """
        self._demand("next")
        with self._line._changed:
            number = self._base + self._given
            request = self._come.pop(number, None)
            if request is None:
                if self._line.loss is not None:
                    raise self._line.loss
                if not (self._armed or self._has_come(self._given)):
                    raise Error(f"ring.next: firing {self._given} has not come; arm the ring")
                request = self._expect(number)
            self._given += 1
        return request

    def _has_come(self, firing: int) -> bool:
        round, slot = divmod(firing, len(self.slots))
        return round < self._taken[slot]

    def _expect(self, number: int) -> DelegateRequest:
        text = f"firing {number - self._base} of a ring"
        request = DelegateRequest(self._line, number, text, None, self._finish)
        self._line.open[number] = request
        return request

    def _heard(self, number: int) -> DelegateRequest:
        """Return the request of a firing that `next` has not been called for; with the lock."""
        request = self._come[number] = self._expect(number)
        return request

    def _finish(self, keep: Any, said: tuple[int, Any]) -> Any:
        k, answer = said
        noted = self._commands[k]
        return answer if noted._finish is None else noted._finish(noted._keep, answer)

    @property
    def _open(self) -> list[DelegateRequest]:
        requests = list(self._line.open.values())
        return [one for one in requests if one._number >> RING_BITS == self._key]

    def _demand(self, function: str) -> None:
        if self._closed:
            raise ClosedError(f"ring.{function}: the ring is closed; make another with d.ring()")

    def close(self) -> None:
        """Disarm it, wait for what is under way, and raise the first error of a firing.

        Errors that `wait` has raised are not raised again.
        """
        self.end()
        for request in self._line.failed:
            if request._number >> RING_BITS == self._key and not request.claimed:
                request.wait(0.0)

    def end(self) -> None:
        """Close it, and raise nothing."""
        if self._closed:
            return
        self.disarm()
        self._closed = True
        self._line.wait(lambda: not self._open, None)
        if self._line.loss is None:
            with contextlib.suppress(Error):  # it dies
                self._ask("close")
        del self._line.rings[self._key]
        for keep in self._kept:
            release(keep)

    def __enter__(self) -> Self:
        self.arm()
        return self

    def __exit__(self, *ignored: object) -> None:
        self.disarm()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "armed" if self._armed else "not armed"
        return f"<acp_mpi.DelegateRing {len(self.slots)} slots, {state}>"
