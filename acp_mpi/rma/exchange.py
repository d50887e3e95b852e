"""How addresses and small objects get around a job: names, bcast, allgather.

Objects are pickled into global memory of the rank that offers them; only their address and length
travel through the job's name service or the ranks' post words.
"""

from __future__ import annotations

import _pickle as pickle  # all that `pickle` adds takes 0.2 MB and 5 ms
import os
import struct
import time
from _thread import RLock, allocate_lock, start_new_thread

from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError, Error, PeerLostError
from acp_mpi.util.lifecycle import on_close, on_refresh, on_reset
from acp_mpi.util.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, SupportsIndex

_PROTOCOL = 5
_PAIR = struct.Struct("<QQ")
_EXCHANGE = 1  # barriers of the library's own collectives
_MEETINGS = 2  # in each: when all offer, and when all have read

# One thread publishes at a time: the last value that its keeper got is the name's.
_publishing = RLock()
os.register_at_fork(after_in_child=_publishing._at_fork_reinit)  # type: ignore[attr-defined]
_behind = allocate_lock()  # while another thread ends what Ctrl-C has ended for its caller
os.register_at_fork(after_in_child=_behind._at_fork_reinit)  # type: ignore[attr-defined]
_missed: set[int] = set()  # ranks with an accepted loss: another rank keeps their names


def _block_of(x: Any) -> Any:
    data = pickle.dumps(x, _PROTOCOL)
    block = _engine.allocate(len(data))
    memoryview(block)[:] = data
    return block


def _object_at(ga: int, size: int) -> Any:
    data = bytearray(size)
    _engine.get(ga, data)
    return pickle.loads(data)


def _key(name: str, function: str) -> tuple[int, int]:
    if not isinstance(name, str):
        raise TypeError(f"{function}: a name is a str, not {type(name).__name__}")
    return _PAIR.unpack(_engine.sha256(name.encode())[:16])


def publish(name: str, x: Any, *, replace: bool = False) -> None:
    """Make object `x` available to every rank under `name`.

    Local: it does not wait. `x` is pickled; addresses are ints. Kept until `withdraw`, `reset` or
    `finalize`, or this rank is lost. A later one of this rank replaces it; ValueError if another
    rank that lives has published the name, unless `replace`.
    """
    _engine.demand("publish")
    key = _key(name, "publish")
    try:
        block = _block_of(x)
    except (pickle.PicklingError, AttributeError, TypeError) as reason:
        raise TypeError(
            f"publish: {x!r:.60} cannot be pickled ({reason}); publish what can, or an address"
        ) from reason
    with _publishing:
        whose = _engine.name_publish(*key, block, bool(replace))
    if whose is not None:
        raise ValueError(
            f"publish: rank {whose} has published {name!r:.60}; take another name, or give "
            "replace=True"
        )


def withdraw(name: str) -> None:
    """Take back what this rank has published under `name`: nothing of it is left.

    Local. KeyError if no rank has published it, ValueError if another rank has.
    """
    _engine.demand("withdraw")
    key = _key(name, "withdraw")
    with _publishing:
        whose = _engine.name_withdraw(*key)
    if whose is None:
        return
    if whose < 0:
        raise KeyError(f"withdraw: nobody has published {name!r:.60}, or not any more")
    raise ValueError(
        f"withdraw: rank {whose} has published {name!r:.60}; have that rank withdraw it, or "
        "publish it with replace=True"
    )


def lookup(name: str, timeout: float | None = None) -> Any:
    """Return the object that some rank has published under `name`; waits until one has.

    TimeoutError after `timeout` seconds; PeerLostError if the rank that offers it has died.
    """
    _engine.demand("lookup")
    low, high = _key(name, "lookup")
    begin, left = time.monotonic(), timeout
    while True:
        try:
            ga, size = _engine.name_lookup(low, high, left)
        except TimeoutError:
            raise TimeoutError(
                f"lookup: nobody has published {name!r:.60} within {timeout} s; give more time, or "
                "look at who is to publish it"
            ) from None
        try:
            return _object_at(ga, size)
        except AddressError:
            # The name was replaced while this look was under way.
            if timeout is not None:
                left = max(begin + timeout - time.monotonic(), 0.0)
            if _engine.name_lookup(low, high, left) == (ga, size):
                raise


@on_refresh
def _publish_again() -> None:
    """Give the names of this rank to the ranks that keep them in place of lost ones."""
    lost = set(_engine.lost_ranks(accepted=True))
    if lost == _missed:
        return
    with _publishing:
        try:
            _engine.name_publish_again()
        except PeerLostError:  # one more, which the next refresh accepts
            return
        _missed.update(lost)


class _Refusal(Record):
    """The offer of a rank in place of an object that it cannot give."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _refused(function: str, error: BaseException) -> Any:
    """Return what stands for the refused object: the others are on their way, and would wait."""
    here = _engine.rank()
    why = str(error) or type(error).__name__
    return _block_of(_Refusal(f"{function}: rank {here} has left it: {why}"))


def _post(block: Any) -> None:
    """Offer a block to all, or, with None, nothing any more."""
    words = _PAIR.pack(block.ga, len(block)) if block is not None else bytes(_PAIR.size)
    _engine.put(_engine.post_ga(_engine.rank()), words)


def _posted(function: str, rank: SupportsIndex) -> Any:
    words = bytearray(_PAIR.size)
    _engine.get(_engine.post_ga(rank), words)
    ga, size = _PAIR.unpack(words)
    if not ga:
        raise Error(
            f"{function}: rank {rank} offers nothing: all ranks must call the same, and name the "
            "same root"
        )
    found = _object_at(ga, size)
    if isinstance(found, _Refusal):
        raise Error(found.text)
    return found


def _exchange(function: str, offered: Callable[[], Any], read: Callable[[], None]) -> None:
    """Offer a block, or nothing, and read what others offer: between two barriers.

    Ctrl-C ends it here, but the others have counted on this rank: it meets them all the same.
    """
    block: Any = None
    met: list[str] = []
    with _behind:
        pass
    try:
        block = offered()
        if block is not None:
            _post(block)
        _engine.meet(function, _EXCHANGE, met)
        read()
        _engine.meet(function, _EXCHANGE, met)
    except BaseException as error:
        if isinstance(error, Error) or len(met) == _MEETINGS:
            _post(None)
        else:
            _behind.acquire()
            block = block or _refused(function, error)
            start_new_thread(_catch_up, (function, block, _MEETINGS - len(met)))
        raise
    if block is not None:
        _post(None)  # it goes


def _catch_up(function: str, block: Any, meetings: int) -> None:
    try:
        if meetings == _MEETINGS:
            _post(block)
        for _ in range(meetings):
            _engine.meet(function, _EXCHANGE)
        _post(None)
    except Error:  # a rank has died, or the job is over
        pass
    finally:
        _behind.release()


def allgather(obj: Any, function: str = "allgather") -> list[Any]:
    """Return the objects of all ranks that `sync` means, in rank order. Collective; pickled."""
    _engine.demand(function)
    result: list[Any] = []
    error = None

    def offered() -> Any:
        nonlocal error
        try:
            return _block_of(obj)
        except Exception as reason:
            error = reason
            return _refused(function, reason)

    def read() -> None:
        nonlocal error
        here = _engine.rank()
        lost = set(_engine.lost_ranks())
        for rank in _engine.together():
            try:
                found = obj if rank == here else None if rank in lost else _posted(function, rank)
                result.append(found)
            except Exception as reason:
                error = error or reason

    _exchange(function, offered, read)
    if error is not None:
        raise error
    return result


on_reset(_missed.clear)
on_close(_missed.clear)
