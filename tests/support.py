"""What collective tests share: memory on all ranks, patterns, refusals."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import acp_mpi as acp

if "NODE_FOR_EACH_RANK" in os.environ:
    ROAD = "nodes"
elif "ACROSS_HOSTS" in os.environ:  # the next rank is on another host, those after it may not be
    ROAD = "hosts"
else:
    ROAD = os.environ.get("ACP_PATH") or "any"
SLOW_ROAD = ROAD != "any"  # operations on other ranks take microseconds, not nanoseconds
SHARE = {"matrix": 3, "all": 1, "campaign": 1}.get(os.environ.get("TESTS_MODE", ""), 6)
CAN_LOAD = ROAD in ("any", "owner")  # a rank can load and store the global memory of another

EACH_SEQUENCE = pytest.mark.parametrize("kind", [acp.Vector, acp.Deque], ids=["vector", "deque"])

STRANGE_ADDRESSES = {
    "null": 0,
    "all bits": 2**63 - 8,
    "no such rank": (10**6 + 1) << 42 | 64,
    "the first page of nobody": 64,
}


@contextlib.contextmanager
def case(*what: object) -> Iterator[None]:
    """Name the case of a table that fails: a test for each, with its two meetings, costs more."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case {', '.join(map(str, what))}")
        raise


def tries(count: int) -> int:
    """Return how often to try what is random: `count` times in `make test-all`.

    A third of that in `make test-matrix`, a sixth in `make test`; a fifth of it on slow roads.
    """
    return max(count // SHARE // (5 if SLOW_ROAD else 1), 2)


def alone(rank: int = 0) -> bool:
    """Return whether this rank acts; the others wait at the end of the test."""
    return acp.rank() == rank % acp.procs()


def only(rank: int) -> bool:
    """Meet; then return whether this rank is the one to act."""
    acp.sync()
    return alone(rank)


def starter(rank: int, offset: int = 0) -> int:
    """Return the address of a byte of a rank's starter memory."""
    return acp.query_starter_ga(rank) + offset


def right() -> int:
    """Return the next rank, around the end."""
    return (acp.rank() + 1) % acp.procs()


# Memory that peers may use until all ranks have met at the end of the test.
_until_the_end: list[Any] = []


def release() -> None:
    """Let go of what a test has shared; after the ranks have met."""
    for thing in _until_the_end:
        if isinstance(thing, acp.AtKey):
            thing.close()
    _until_the_end.clear()


def shared(shape: Any, dtype: Any = np.uint8) -> tuple[np.ndarray, list[int]]:
    """Make a zeroed array of global memory on every rank; return it and all addresses."""
    array = acp.zeros(shape, dtype)
    _until_the_end.append(array)
    return array, acp.allgather(acp.query_ga(array))


def registered(shape: Any, dtype: Any = np.uint8) -> tuple[Any, np.ndarray, list[int]]:
    """Register ordinary zeroed memory on every rank; return key, array, all addresses."""
    array = np.zeros(shape, dtype)
    key = acp.register_memory(array)
    _until_the_end.append(key)
    return key, array, acp.allgather(acp.query_ga(key))


def stale_address(rank: int) -> int:
    """Return an address on `rank` whose array is gone. Collective."""
    ga = None
    if acp.rank() == rank:
        array = acp.zeros(4096, np.uint8)
        ga = acp.query_ga(array)
        del array
    return acp.bcast(ga, root=rank)


def stale_everywhere(ga: int) -> None:
    """Check that no rank can use the address that this rank had. Collective."""
    for old in acp.allgather(ga):
        with pytest.raises(acp.AddressError):
            fetch(old, 1)


def pattern(size: int, seed: int = 0) -> np.ndarray:
    """Return bytes that begin anew after a prime number of them, different for each seed."""
    index = np.arange(min(size, 65521), dtype=np.uint32)
    return np.resize(((index * 2654435761 + seed * 40503) >> 13).astype(np.uint8), size)


def fetch(ga: int, size: int) -> bytes:
    """Return `size` bytes at a global address."""
    data = bytearray(size)
    acp.get(ga, data)
    return bytes(data)


def store(ga: int, data: Any) -> None:
    """Write bytes, or an array, at a global address."""
    acp.put(ga, data)


def word(ga: int, size: int = 8) -> int:
    """Return the unsigned word at a global address."""
    return int.from_bytes(fetch(ga, size), "little")


def finish(handle: int) -> None:
    """Complete an operation and, by the rules of handles, all before it."""
    acp.complete(handle)


@contextlib.contextmanager
def refused(error: Any, function: str, *values: object) -> Iterator[None]:
    """Expect `error` with a message of the house: function, values, and after "; " what to do.

    `function` may be several names, separated by a bar.
    """
    with pytest.raises(error) as caught:
        yield
    text = str(caught.value)
    assert text.partition(":")[0] in function.split("|"), text
    for value in values:
        assert str(value) in text, f"{value} is not in: {text}"
    assert "; " in text, f"no next step in: {text}"


def hear_late() -> None:
    """Meet all: who was through with a call that others found wrong hears of it here."""
    with contextlib.suppress(acp.Error):
        acp.sync()
