"""Registration of memory that exists elsewhere (paper 003, section 2.4).

Registration is lazy and batched: nothing is published before the first `query_ga`, and then all
waiting registrations with adjoining memory become one segment. Every call still has a key of its
own, with addresses that end with it.
"""

from __future__ import annotations

import os
from _thread import RLock
from operator import index

from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError, DeviceSide, Error
from acp_mpi.rma.buffers import place_of
from acp_mpi.rma.shapes import color_of
from acp_mpi.util.lifecycle import on_close, on_reset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_waiting: dict[int, AtKey] = {}  # by id, as those below
_published: dict[int, AtKey] = {}  # keeps the buffers of keys without references
_changing = RLock()  # one thread publishes or ends keys at a time
os.register_at_fork(after_in_child=_changing._at_fork_reinit)  # type: ignore[attr-defined]


class AtKey:
    """An address translation key: what `register_memory` returns.

    Ends with `close()`, `unregister_memory(key)` or the end of a `with` block, not when it is
    dropped; the buffer is kept until then.
    """

    def __init__(self, address: int, size: int, color: int, keep: Any) -> None:
        self._address = address
        self._size = size
        self._color = color
        self._keep = keep
        self._ga = 0
        self._ticket: int | None = None
        self._closed = False
        self._block: Any = None  # of device memory, and what follows is where it is there
        self._offset = self._number = 0

    @property
    def closed(self) -> bool:
        """Whether its addresses have ended."""
        return self._closed

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self._size

    @property
    def color(self) -> int:
        """The color in its addresses."""
        return self._color

    def close(self) -> None:
        """End its addresses on every rank; waits for peers that are inside. Idempotent."""
        with _changing:
            if self._closed:
                return
            if not (self._ga and _engine.is_open()):
                self._forget()
                return
            if self._ticket is None:
                self._ticket = _engine.retire(self._ga, self._size)
            ticket = self._ticket
        _engine.quiet(ticket)  # after Ctrl-C here it can be closed again
        if self._block is not None:
            _engine.device_drop(self._block, self._number)
            self._block = None
        self._forget()

    def _forget(self) -> None:
        self._closed = True
        if self._block is not None and self._ga:
            _engine.device_drop(self._block, self._number)
        self._keep = self._block = None
        _waiting.pop(id(self), None)
        _published.pop(id(self), None)

    def __enter__(self) -> AtKey:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"at {self._ga:#x}" if self._ga else "not queried"
        return f"<acp_mpi key for {self._size} bytes, {state}>"


def register_memory(buffer: Any, color: int = 0) -> AtKey:
    """Make a contiguous buffer global; `query_ga` of the key gives its address.

    Local. Keeps the buffer alive until the key is closed. `color` (0 to 3) is part of the
    addresses. Raises ValueError for an empty, read-only or non-contiguous buffer. Memory of a
    device is given by DLPack or the CUDA array interface; DeviceError if its driver is not there.
    """
    _engine.demand("register_memory")
    color = color_of(color, "register_memory")
    block, offset = None, 0
    try:
        address, size, keep = place_of(buffer, "register_memory")
    except DeviceSide as side:
        block, offset, size, _ = side.args
        address, keep = block.address + offset, buffer
    _engine.demand("register_memory")  # Python code of the arguments may have finalized
    if size == 0:
        raise ValueError("register_memory: the buffer is empty; there is nothing to address")
    key = AtKey(address, size, color, keep)
    key._block, key._offset = block, offset
    _published[id(key)] = key
    if block is None:
        _waiting[id(key)] = key
    return key


def unregister_memory(key: AtKey) -> None:
    """End the addresses of `key` on every rank (paper 003, table 2)."""
    if not isinstance(key, AtKey):
        raise TypeError(f"unregister_memory: {type(key).__name__} is not a key of register_memory")
    key.close()


def _publish(wanted: AtKey) -> None:
    """Publish all that waits, adjoining memory of one color as one segment, unless `wanted` is.

    A key waits until it has its address: what fails, or Ctrl-C ends, the next call tries again.
    """
    with _changing:
        if wanted._ga or wanted.closed:  # another thread has come first
            return
        if wanted._block is not None:
            wanted._ga, wanted._number = _engine.device_register(
                wanted._block, wanted._offset, wanted._size, wanted._color
            )
            return
        batches = _adjoining(sorted(_waiting.values(), key=lambda k: (k._color, k._address)))
        for batch in batches:
            try:
                _register(batch)
            except (Error, ValueError):
                if batch == [wanted]:
                    raise
                if len(batch) > 1:  # together they may be too long, or one is refused
                    batches.extend([key] for key in batch)


def _adjoining(keys: list[AtKey]) -> list[list[AtKey]]:
    batches: list[list[AtKey]] = []
    end = None
    for key in keys:
        if end == (key._color, key._address):
            batches[-1].append(key)
        else:
            batches.append([key])
        end = key._color, key._address + key._size
    return batches


def _register(batch: list[AtKey]) -> None:
    low, last = batch[0]._address, batch[-1]
    ga = _engine.register(low, last._address + last._size - low, last._color)
    for key in batch:
        key._ga = ga + (key._address - low)
        _waiting.pop(id(key), None)


def query_ga(key: Any, offset: int = 0, *, address: int | None = None, view: Any = None) -> int:
    """Return the global address of a byte of registered memory (paper 003, table 2).

    The byte is at `offset` of the key's buffer, or at the virtual `address`, or where the array
    `view` begins. An array of `acp.empty` may stand for the key: its address lives as long as
    the array. Raises AddressError outside the memory, or if the key is closed.
    """
    if view is not None:
        address = place_of(view, "query_ga", writable=False)[0]
    if hasattr(key, "_side"):  # a DeviceArray
        return int(key.ga) + _inside(key.ga, key.nbytes, offset, None, "array")
    if not isinstance(key, AtKey):
        begin, size, _ = place_of(key, "query_ga", writable=False)
        return _array_ga(key, begin, size) + _inside(begin, size, offset, address, "array")
    offset = _inside(key._address, key._size, offset, address, "key")
    if not key._ga:
        _publish(key)
    if key.closed:
        raise AddressError(f"query_ga: {key!r} is closed; register the memory again")
    return key._ga + offset


def _inside(begin: int, size: int, offset: int, address: int | None, whose: str) -> int:
    """Return the offset of a byte, which may be given by its virtual address."""
    if address is not None:
        offset = _integer(address, "an address") - begin
    elif not (offset := _integer(offset, "an offset")):
        return 0  # of an empty array, too
    if not 0 <= offset < size:
        raise AddressError(
            f"query_ga: byte {offset} is outside of the {size} bytes of the {whose}; give one of "
            f"0 to {size - 1}"
        )
    return offset


def _integer(x: Any, what: str) -> int:
    try:
        return index(x)
    except TypeError:
        raise TypeError(
            f"query_ga: {what} must be an integer, not {type(x).__name__} {x!r}; give a number of "
            "bytes"
        ) from None


def _array_ga(array: Any, begin: int, size: int) -> int:
    ga = int(_engine.address_of(begin, size))
    if not ga:
        raise AddressError(
            f"query_ga: {type(array).__name__} at {begin:#x} is not global memory; make it with "
            "acp.empty, or give the key of acp.register_memory"
        )
    return ga


@on_reset
@on_close
def _end_all() -> None:
    for key in list(_published.values()):
        key._forget()
