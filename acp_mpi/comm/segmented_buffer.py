"""Segmented buffers: memory of one rank that another one fills, segment by segment, in order.

The ends know of each other, and say what is full and what is released, by a channel whose messages
have no bytes; the bytes of a segment are put to where they belong before its message is sent.
"""

from _thread import RLock
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import index
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload
from typing import SupportsIndex as Int

from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError, ClosedError, EndOfChannel, Error
from acp_mpi.rma.buffers import place_of
from acp_mpi.rma.registration import AtKey, query_ga, register_memory

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

T = TypeVar("T")
S = TypeVar("S", bound="generic")


class SegmentedBuffer(Generic[T]):
    """A buffer in `segments` parts that rank `to` has, too, and gets from here; or `source` fills.

    Local; only the two ranks create one. The k-th that one creates for the other meets the k-th of
    that; ValueError on both at the first use unless the numbers of segments and their bytes are
    the same. The source fills segments in order and calls `ack`: their bytes travel to their place
    in the destination's buffer; the destination uses them and calls `ready`. `buffer` is in C
    order, its first axis divisible by `segments`; that of the destination is writable. Global
    memory (`acp.empty`) at the destination is written straight. RankError for the own rank.
    """

    @overload
    def __init__(
        self: "SegmentedBuffer[NDArray[S]]", buffer: "NDArray[S]", segments: Int, *, to: Int
    ) -> None: ...
    @overload
    def __init__(
        self: "SegmentedBuffer[NDArray[S]]", buffer: "NDArray[S]", segments: Int, *, source: Int
    ) -> None: ...
    @overload
    def __init__(
        self: "SegmentedBuffer[memoryview]", buffer: Any, segments: Int, *, to: Int
    ) -> None: ...
    @overload
    def __init__(
        self: "SegmentedBuffer[memoryview]", buffer: Any, segments: Int, *, source: Int
    ) -> None: ...
    def __init__(
        self, buffer: Any, segments: Int, *, to: Int | None = None, source: Int | None = None
    ) -> None:
        self._key: AtKey | None = None
        _engine.demand("SegmentedBuffer")
        ends = _ends(to, source)
        sends = source is None
        self.segments = _number(segments, "SegmentedBuffer: a number of segments")
        size = place_of(buffer, "SegmentedBuffer", writable=not sends)[1]
        self._rows, self._step = _rows(buffer, self.segments, size)
        if not sends:
            self._key = register_memory(buffer)
        self._bytes = size // self.segments
        self._lock = RLock()  # two threads on one end are served one after the other
        self._unsure = False  # an interrupted transfer may still be under way
        try:
            ga = query_ga(self._key) if self._key else 0
            self._channel = _engine.SegmentChannel(*ends, self.segments, self._bytes, ga)
        except BaseException:
            self._end_key()
            raise

    # --- what it is

    @property
    def peer(self) -> int:
        """The rank of the other end."""
        return self._channel.peer

    @property
    def sends(self) -> bool:
        """Whether this end is the source."""
        return self._channel.sends

    @property
    def connected(self) -> bool:
        """True once both ends know each other, until this one is closed."""
        return self._channel.connected and not self.closed

    @property
    def closed(self) -> bool:
        """True once this end is closed, by `close`, `reset` or `finalize`."""
        return self._channel.closed

    @property
    def head(self) -> int:
        """Segments that the destination has released, since the begin; `% segments` is the next."""
        return self._channel.ends()[0]

    @property
    def tail(self) -> int:
        """Segments that the source has acked, since the begin; `% segments` is the next."""
        return self._channel.ends()[1]

    @property
    def sent(self) -> int:
        """Segments whose bytes are at the destination; at the source, and equal to `tail` there."""
        self._channel.demand_end("sent", True)
        return self.tail

    def __repr__(self) -> str:
        head, tail = self._channel.ends()
        state = "closed" if self.closed else "open" if self.connected else "not connected"
        return (
            f"<acp_mpi.SegmentedBuffer {'to' if self.sends else 'from'} rank {self.peer}, "
            f"{tail - head} of {self.segments} segments of {self._bytes} bytes full, {state}>"
        )

    def __reduce__(self) -> Any:
        raise TypeError(
            "SegmentedBuffer: an end belongs to its process and cannot be pickled; create one on "
            "each of the two ranks"
        )

    # --- calls of both ends

    def connect(self, timeout: float | None = None) -> None:
        """Wait until the other rank has created its end; other calls that wait do so, too.

        TimeoutError after `timeout` seconds, ValueError if the ends differ, PeerLostError.
        """
        self._channel.await_other("connect", timeout)

    def close(self) -> None:
        """Close this end. Idempotent. No byte comes into the destination's buffer afterwards.

        What the source has acked is still received. Waits at most for a transfer under way.
        """
        self._channel.close()
        self._end_key()

    disconnect = close

    def __enter__(self) -> "SegmentedBuffer[T]":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_channel"):
            self._channel.close()
        self._end_key()

    # --- the source

    def isready(self) -> bool:
        """Return whether a segment is free; ClosedError or PeerLostError if none will be."""
        return self._is(self.wait_ready)

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait, asleep, until a segment is free: the one at `tail` may be filled.

        TimeoutError after `timeout` seconds, ClosedError when the destination has closed,
        PeerLostError when it has died.
        """
        self._channel.demand_end("wait_ready", True)
        self._channel.await_segment("wait_ready", timeout)

    def wait_empty(self, timeout: float | None = None) -> None:
        """Wait, asleep, until the destination has released all that was acked; as `wait_ready`."""
        self._channel.demand_end("wait_empty", True)
        self._channel.await_empty("wait_empty", timeout)

    def ack(self, count: Int = 1) -> None:
        """Send the next `count` segments, from `tail` on; they are there when it returns.

        Does not wait for the destination: Error if fewer are free, or it is not connected yet.
        ClosedError, PeerLostError as of `wait_ready`. After Ctrl-C `tail` says how many are acked;
        those behind are not seen, and may be sent again.
        """
        self._channel.demand_end("ack", True)
        self._check("ack")
        with self._lock:
            head, tail = self._channel.ends()
            target = self._channel.target()
            if not target and not self.closed:
                raise Error(
                    f"ack: rank {self.peer} has not created its end yet; call connect() or "
                    "wait_ready() before"
                )
            n = self._count("ack", count, self.segments - (tail - head), "free")
            self._move(target, tail % self.segments, n)
            self._channel.publish("ack", n)

    @contextmanager
    def fill(self, timeout: float | None = None) -> Iterator[T]:
        """Return a context whose variable is the next free segment; leaving it is `ack`.

        Waits as `wait_ready`; an exception inside sends nothing.
        """
        self.wait_ready(timeout)
        yield self._segment(self.tail)
        self.ack()

    # --- the destination

    def isacked(self) -> bool:
        """Return whether a segment is full; EndOfChannel or PeerLostError if none will be."""
        return self._is(self.wait_acked)

    def wait_acked(self, timeout: float | None = None) -> None:
        """Wait, asleep, until a segment is full: the one at `head` may be used.

        TimeoutError after `timeout` seconds; EndOfChannel when the source has closed and all is
        released, PeerLostError when it has died, after all that it had acked.
        """
        self._channel.demand_end("wait_acked", False)
        self._channel.await_segment("wait_acked", timeout)

    def ready(self, count: Int = 1) -> None:
        """Release the oldest `count` full segments: the source may overwrite them.

        Error if fewer are full. After Ctrl-C `head` says how many are released.
        """
        self._channel.demand_end("ready", False)
        self._check("ready")
        with self._lock:
            head, tail = self._channel.ends()
            n = self._count("ready", count, tail - head, "full")
            self._channel.release("ready", n)

    def __iter__(self) -> Iterator[T]:
        """Yield full segments until the source has closed; each is released by the next step."""
        self._channel.demand_end("iter", False)
        while True:
            try:
                self._channel.await_segment("next", None)
            except EndOfChannel:
                return
            yield self._segment(self.head)
            self.ready()

    # --- inside

    def _check(self, function: str) -> None:
        """Raise what ends this end, but not that it has nothing to do."""
        with suppress(TimeoutError, EndOfChannel):
            self._channel.await_segment(function, 0)

    def _is(self, wait: Any) -> bool:
        try:
            wait(0)
        except TimeoutError:
            return False
        return True

    def _count(self, function: str, count: Int, possible: int, what: str) -> int:
        n = _number(count, f"{function}: a number of segments")
        if n > self.segments:
            raise ValueError(f"{function}: {n} segments, and there are {self.segments}")
        if n > possible:
            raise Error(f"{function}: {n} segments, and {possible} of {self.segments} are {what}")
        return n

    def _segment(self, number: int) -> T:
        begin = number % self.segments * self._step
        segment: T = self._rows[begin : begin + self._step]
        return segment

    def _move(self, target: int, first: int, count: int) -> None:
        """Put segments to their places: up to the last one, and on from the first."""
        if self._unsure:
            _engine.complete()
            self._unsure = False
        end = first + count
        try:
            for begin, stop in (first, min(end, self.segments)), (0, end - self.segments):
                if begin < stop:
                    rows = self._rows[begin * self._step : stop * self._step]
                    _engine.put(target + begin * self._bytes, rows)
        except AddressError as error:
            text = f"ack: rank {self.peer} has closed its end, and takes nothing more"
            raise ClosedError(f"{text}; close this one, too") from error
        except BaseException:
            self._unsure = True
            raise

    def _end_key(self) -> None:
        if self._key is not None and _engine.is_open():
            self._key.close()


def _ends(to: Int | None, source: Int | None) -> tuple[Any, Any]:
    """Return the ranks of source and destination."""
    if (to is None) == (source is None):
        raise TypeError(
            "SegmentedBuffer: give to=rank, to send segments there, or source=rank, to get them"
        )
    here = _engine.rank()
    return (here, to) if source is None else (source, here)


def _number(x: Int, what: str) -> int:
    try:
        n = index(x)
    except TypeError:
        raise TypeError(f"{what} is an integer, not {type(x).__name__} {x!r:.60}") from None
    if n < 1:
        raise ValueError(f"{what} is 1 or more, not {n}")
    return n


def _rows(buffer: Any, segments: int, size: int) -> tuple[Any, int]:
    """Return `buffer` as what slices give segments of, and the length of one."""
    if not hasattr(buffer, "shape") or isinstance(buffer, memoryview):
        buffer = memoryview(buffer)
        if buffer.ndim != 1:
            import numpy

            buffer = numpy.asarray(buffer)
    rows = buffer.shape[0] if buffer.shape else 0
    if not size or not rows or rows % segments:
        raise ValueError(
            f"SegmentedBuffer: the first axis has {rows} elements, {size} bytes in all; it must be "
            f"divisible by {segments} segments"
        )
    return buffer, rows // segments
