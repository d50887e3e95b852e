"""Ordinary memory that all may reach, and addresses; table 2 of paper 003."""

import contextlib
import gc
import mmap

import numpy as np
import pytest
from support import (
    fetch,
    pattern,
    refused,
    registered,
    right,
    shared,
    stale_everywhere,
    starter,
    store,
)

import acp_mpi as acp
from acp_mpi.engine import _engine

pytestmark = pytest.mark.mpi

NORESERVE = 0x4000  # mmap names it from Python 3.13 on
TOO_LONG = 2 << 40  # bytes; more than a rank has addresses for


def test_registered_memory_is_read_and_written_by_all_ranks():
    _, array, places = registered(1000)
    array[:] = pattern(1000, acp.rank())
    acp.sync()
    for rank, ga in enumerate(places):
        assert fetch(ga, 1000) == pattern(1000, rank).tobytes()
    acp.sync()
    store(places[right()] + 10, b"from the left")
    acp.sync()
    assert array[10:23].tobytes() == b"from the left"


@pytest.mark.parametrize(
    "buffer",
    [bytearray(64), np.zeros(8), memoryview(bytearray(64))],
    ids=["bytearray", "ndarray", "memoryview"],
)
def test_any_buffer_can_be_registered(buffer):
    with acp.register_memory(buffer) as key:
        store(acp.query_ga(key) + 8, b"abc")
        assert bytes(memoryview(buffer).cast("B")[8:11]) == b"abc"


def test_query_ga_takes_an_offset_a_machine_address_or_a_view():
    array = np.arange(100, dtype=np.int64)
    with acp.register_memory(array) as key:
        ga = acp.query_ga(key)
        assert acp.query_ga(key, 80) == ga + 80
        assert acp.query_ga(key, address=array.ctypes.data + 16) == ga + 16
        assert acp.query_ga(key, view=array[3:5]) == ga + 24
        for outside in (
            {"offset": 801},
            {"offset": -1},
            {"address": array.ctypes.data - 1},
            {"view": np.zeros(1)},
        ):
            with pytest.raises(acp.AddressError, match="query_ga"):
                acp.query_ga(key, **outside)


def test_an_address_knows_its_rank_and_color():
    assert (acp.query_rank(acp.GA_NULL), acp.query_color(acp.GA_NULL)) == (-1, -1)
    for rank in range(acp.procs()):
        assert (acp.query_rank(starter(rank)), acp.query_color(starter(rank))) == (rank, 0)
    with acp.register_memory(bytearray(8), color=3) as key:
        ga = acp.query_ga(key)
        assert (acp.query_rank(ga), acp.query_color(ga)) == (acp.rank(), 3)


def test_the_same_bytes_may_have_an_address_of_every_color():
    buffer = bytearray(64)
    keys = [acp.register_memory(buffer, color) for color in range(acp.colors())]
    everywhere = acp.allgather([acp.query_ga(key) for key in keys])
    for color, ga in enumerate(everywhere[right()]):
        assert acp.query_color(ga) == color
        store(ga + color, bytes([color + 1]))
    acp.sync()
    assert buffer[:4] == bytes([1, 2, 3, 4])
    acp.sync()
    keys[0].close()
    acp.sync()
    assert fetch(everywhere[right()][1], 4) == bytes([1, 2, 3, 4])
    acp.sync()
    for key in keys:
        key.close()


def test_closing_a_key_ends_its_addresses_on_every_rank():
    key, array, places = registered(100)
    store(places[right()], b"x")
    acp.sync()
    key.close()
    assert key.closed
    key.close()
    acp.sync()
    stale_everywhere(places[acp.rank()])
    assert array[0] == ord("x")


def test_the_ways_to_unregister_are_the_same():
    for way in (
        acp.unregister_memory,
        lambda key: key.close(),
        lambda key: key.__exit__(*[None] * 3),
    ):
        key = acp.register_memory(bytearray(8))
        ga = acp.query_ga(key)
        fetch(ga, 8)
        way(key)
        with pytest.raises(acp.AddressError):
            fetch(ga, 8)
        with refused(acp.AddressError, "query_ga"):
            acp.query_ga(key)


def test_dropping_a_key_does_not_unregister():
    ga = acp.query_ga(acp.register_memory(bytearray(b"kept alive")))
    gc.collect()
    acp.sync()
    for other in acp.allgather(ga):
        assert fetch(other, 10) == b"kept alive"


def test_a_key_shows_its_address_in_hex():
    with acp.register_memory(bytearray(8)) as key:
        assert f"{acp.query_ga(key):#x}" in repr(key)


def test_adjoining_registrations_have_keys_of_their_own():
    array = pattern(8192)
    first, second = (acp.register_memory(part) for part in (array[:4096], array[4096:]))
    addresses = acp.allgather((acp.query_ga(first), acp.query_ga(second)))
    for low, high in addresses:
        assert fetch(low, 4096) == array[:4096].tobytes()
        assert fetch(high, 4096) == array[4096:].tobytes()
    acp.sync()
    first.close()
    acp.sync()
    for low, high in addresses:
        with pytest.raises(acp.AddressError):
            fetch(low, 1)
        assert fetch(high, 4096) == array[4096:].tobytes()
    acp.sync()
    second.close()


def test_a_registration_that_is_refused_does_not_hold_up_the_others():
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
    buffer = memoryview(mmap.mmap(-1, TOO_LONG, flags=flags))
    low, long, other = (acp.register_memory(b) for b in (buffer[:8], buffer[8:], bytearray(8)))
    with pytest.raises((ValueError, acp.HeapFullError), match="query_ga"):
        acp.query_ga(long)
    for key in (other, low):  # the memory of `low` and `long` adjoins
        assert fetch(acp.query_ga(key), 8) == bytes(8)
    with pytest.raises((ValueError, acp.HeapFullError), match="query_ga"):
        acp.query_ga(long)
    for key in (low, long, other):
        key.close()


def test_an_interrupted_query_leaves_all_keys_usable(monkeypatch):
    with contextlib.ExitStack() as stack:
        keys = [
            stack.enter_context(acp.register_memory(bytearray(b"%d" % color), color))
            for color in range(acp.colors())
        ]
        register = _engine.register

        def ctrl_c(place, size, color):
            if color == 2:
                raise KeyboardInterrupt
            return register(place, size, color)

        with monkeypatch.context() as patch:
            patch.setattr(_engine, "register", ctrl_c)
            with pytest.raises(KeyboardInterrupt):
                acp.query_ga(keys[3])
        for color, key in enumerate(keys):
            assert fetch(acp.query_ga(key), 1) == b"%d" % color


def test_a_second_address_of_global_memory_dies_with_its_key():
    array, places = shared(5000)
    key = acp.register_memory(array, color=1)
    second = acp.query_ga(key)
    assert second != acp.query_ga(array)
    seconds = acp.allgather(second)
    store(seconds[right()], b"both")
    acp.sync()
    assert array[:4].tobytes() == b"both"
    acp.sync()
    key.close()
    acp.sync()
    stale_everywhere(second)
    assert fetch(places[right()], 4) == b"both"
