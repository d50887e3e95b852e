"""Release of memory: it waits for peers that are inside, and leaves the process as it was."""

import gc
import os

import numpy as np
import pytest
from support import SLOW_ROAD, fetch, shared

import acp_mpi as acp

pytestmark = pytest.mark.mpi

PAGE = os.sysconf("SC_PAGE_SIZE")
OLD, NEW = 0x11, 0xEE
ROUNDS = 5


def pages_touched() -> int:
    """Return bytes of memory that this process has touched, its own and shared."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def grows(action, rounds: int) -> int:
    """Return the bytes that `rounds` more of an action cost once it has run a while."""
    for _ in range(rounds // 4):
        action()
    gc.collect()
    before = pages_touched()
    for _ in range(rounds):
        action()
    gc.collect()
    return pages_touched() - before


def register_use_release():
    array = np.empty(3000, np.uint8)
    with acp.register_memory(array) as key:
        acp.put(acp.query_ga(key), b"x")


def make_use_drop():
    array = acp.empty(300_000, np.uint8)
    acp.put(acp.query_ga(array) + 299_999, b"x")


def make_use_drop_large():
    acp.empty(8 << 20, np.uint8)[::PAGE] = 1


@pytest.mark.parametrize(
    ("action", "rounds"),
    [(register_use_release, 4000), (make_use_drop, 2000), (make_use_drop_large, 20)],
)
def test_repeated_use_and_release_leaves_memory_as_it_was(action, rounds):
    assert grows(action, rounds) < 4 << 20


def test_many_registrations_at_once_come_and_go():
    buffers = [bytearray([i % 256]) * 64 for i in range(500)]
    keys = [acp.register_memory(buffer) for buffer in buffers]
    places = [acp.query_ga(key) for key in keys]
    everywhere = acp.allgather(places)
    for i in range(acp.rank(), 500, 7):
        for others in everywhere:
            assert fetch(others[i], 64) == bytes([i % 256]) * 64
    acp.sync()
    for key in keys[::2]:
        key.close()
    acp.sync()
    for others in everywhere:
        with pytest.raises(acp.AddressError):
            fetch(others[100], 1)
        assert fetch(others[101], 64) == bytes([101]) * 64
    acp.sync()
    for key in keys:
        key.close()


def read_until_stale(ga: int, size: int, started: int) -> None:
    """Read again and again; what arrives was there before the release, always."""
    data = bytearray(size)
    with pytest.raises(acp.AddressError):  # noqa: PT012
        while True:
            acp.get(ga, data)
            assert data.count(OLD) == size, "a read saw memory after its release"
            acp.fetch_add8(started, 1)


@pytest.mark.parametrize("size", [64, 100_000, 3 << 20])
def test_unregistering_waits_for_peers_that_are_inside(size):
    counter, counters = shared(1, np.uint64)
    for owner in [rank for rank in range(acp.procs()) for _ in range(ROUNDS)]:
        counter[0] = 0
        array, key = None, None
        if acp.rank() == owner:
            array = np.full(size, OLD, np.uint8)
            key = acp.register_memory(array)
        ga = acp.bcast(acp.query_ga(key) if key else None, root=owner)
        if key:
            if acp.procs() > 1:
                acp.wait_until(counters[owner], ">=", acp.procs() - 1)
            key.close()
            array.fill(NEW)
        else:
            read_until_stale(ga, size, counters[owner])
        acp.sync()


@pytest.mark.parametrize("size", [64, 3 << 20])
def test_dropping_an_array_waits_for_peers_that_are_inside(size):
    counter, counters = shared(1, np.uint64)
    for owner in [rank for rank in range(acp.procs()) for _ in range(ROUNDS)]:
        counter[0] = 0
        array = None
        if acp.rank() == owner:
            array = acp.empty(size, np.uint8, window=False)  # a window asks no owner (decision 9)
            array.fill(OLD)
        ga = acp.bcast(acp.query_ga(array) if array is not None else None, root=owner)
        if array is not None:
            if acp.procs() > 1:
                acp.wait_until(counters[owner], ">=", acp.procs() - 1)
            del array
            rubbish = [acp.empty(size, np.uint8) for _ in range(2)]
            for piece in rubbish:
                piece.fill(NEW)
        else:
            read_until_stale(ga, size, counters[owner])
        acp.sync()


def test_released_addresses_are_not_reused_soon():
    seen = set()
    for _ in range(200 if SLOW_ROAD else 2000):
        array = acp.empty(100, np.uint8)
        seen.add(acp.query_ga(array))
    assert len(seen) == (200 if SLOW_ROAD else 2000)
