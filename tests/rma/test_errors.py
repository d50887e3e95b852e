"""Every error of the interface, on every road: class, function, value, next step."""

import ctypes
import mmap
import sys

import numpy as np
import pytest
from support import STRANGE_ADDRESSES, case, finish, refused, right, shared, stale_address, starter

import acp_mpi as acp

pytestmark = pytest.mark.mpi

BUFFER = bytearray(8)
ATOMICS = [f"{word}{size}" for word in ("swap", "add", "xor", "or", "and") for size in (4, 8)]

# Everything that takes a global address, as a function of one.
USES = {
    "copy": lambda ga: finish(acp.copy(starter(acp.rank()), ga, 8)),
    "copy to": lambda ga: finish(acp.copy(ga, starter(acp.rank()), 8)),
    "copy_many": lambda ga: finish(acp.copy_many([starter(acp.rank())], [ga], 8)),
    "put": lambda ga: acp.put(ga, BUFFER),
    "put flag": lambda ga: acp.put(starter(acp.rank()), BUFFER, flag=(ga, 1)),
    "get": lambda ga: acp.get(ga, BUFFER),
    "iput": lambda ga: finish(acp.iput(ga, BUFFER)),
    "iget": lambda ga: finish(acp.iget(ga, BUFFER)),
    "view": lambda ga: acp.view(ga, 8, np.uint8),
    "query_address": acp.query_address,
    "wait_until": lambda ga: acp.wait_until(ga, "==", 0),
    "remote": lambda ga: acp.remote(ga, 8, np.uint8)[:],
    "add8 result": lambda ga: finish(acp.add8(ga, starter(acp.rank()), 1)),
    "cas4": lambda ga: finish(acp.cas4(acp.GA_NULL, ga, 0, 1)),
    "fetch_cas8": lambda ga: acp.fetch_cas8(ga, 0, 1),
    "fetch_add8_many": lambda ga: acp.fetch_add8_many([ga], 1),
    **{
        name: lambda ga, name=name: finish(getattr(acp, name)(acp.GA_NULL, ga, 1))
        for name in ATOMICS
    },
    **{
        f"fetch_{name}": lambda ga, name=name: getattr(acp, f"fetch_{name}")(ga, 1)
        for name in ATOMICS
    },
}
NULL_MEANS_DROP = "add8 result"
# What the message calls a use: an error that comes late, at complete, names the command.
NAMES = {
    "copy to": "copy",
    "copy_many": "copy_many|copy",
    "iput": "iput|copy",
    "iget": "iget|copy",
    "put flag": "put",
    "add8 result": "add8",
    "remote": "remote|get",
}


def refuses(error, ga, *values, but=None):
    """Expect `error` of every use of an address, with the use's name and these values."""
    for use, call in USES.items():
        if use != but:
            with case(use), refused(error, NAMES.get(use, use), *values):
                call(ga)


@pytest.mark.parametrize("what", STRANGE_ADDRESSES)
def test_an_address_of_nothing_is_refused(what):
    ga = STRANGE_ADDRESSES[what]
    error = (acp.AddressError, acp.RankError)
    refuses(error, ga, f"{ga:#x}" if ga else "null", but=None if ga else NULL_MEANS_DROP)


def test_a_stale_address_is_refused():
    for rank in range(acp.procs()):
        ga = stale_address(rank)
        refuses(acp.AddressError, ga, f"{ga:#x}")


def test_bytes_beyond_the_end_of_a_region_are_refused():
    _, places = shared(4096)
    for ga in places:
        refuses(acp.AddressError, ga + 4096, f"{ga + 4096:#x}")


def test_a_transfer_that_runs_past_the_end_is_refused_whole():
    array, places = shared(4096)
    for ga in places:
        with refused(acp.AddressError, "put", f"{ga + 4000:#x}", 200):
            acp.put(ga + 4000, bytes([1]) * 200)
    acp.sync()
    assert not array.any()


def test_when_a_long_transfer_has_failed_nothing_of_it_is_under_way():
    array, places = shared(200_000, np.uint8)
    long = acp.zeros(1_500_000, np.uint8)  # in parts: the first fit
    for ga in places:
        with pytest.raises(acp.AddressError, match=r"past the end"):
            acp.put(ga, bytes(long.size))
        with pytest.raises(acp.AddressError, match=r"past the end"):
            finish(acp.copy(ga, acp.query_ga(long), long.size))
    acp.sync()
    array.fill(7)
    acp.sync()
    assert (array == 7).all()


def test_when_a_part_of_a_remote_array_is_refused_nothing_of_it_is_under_way():
    bad = [stale_address(rank) for rank in range(acp.procs())][right()]
    acp.sync()
    # Each row is on the next rank, the last one on none; the error of the first may come late.
    rows = acp.remote(bad, (acp.procs() + 1, 2**42), np.uint8)
    with refused(acp.Error, "get"):
        rows[:, 0]
    acp.complete()  # no error was left


@pytest.mark.parametrize("size", [2**40, 2**62])
def test_a_size_larger_than_any_region_is_refused(size):
    for rank in range(acp.procs()):
        with refused(acp.AddressError, "copy", size):
            finish(acp.copy(starter(rank), starter(rank), size))


# What is no address, no size, no value --------------------------------------------------------


@pytest.mark.parametrize("wrong", [2.0**40, np.float64(2**40), "0x10", None, [64]], ids=repr)
def test_what_is_no_integer_is_no_address(wrong):
    for use, call in USES.items():
        with case(use), pytest.raises(TypeError):
            call(wrong)


def test_a_float_address_is_refused_with_the_reason_it_came_about():
    array = np.array([starter(acp.rank())]) + np.array([8], np.uint64)  # int64 and uint64: float64
    with pytest.raises(TypeError, match=r"(?s)get: .*float64.*int64 and uint64"):
        acp.get(array[0], BUFFER)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_numpy_integers_are_addresses(kind):
    acp.get(kind(starter(right())), BUFFER)
    acp.complete(acp.copy(kind(starter(acp.rank())), kind(starter(right())), kind(8)))
    assert acp.query_rank(kind(starter(right()))) == right()


@pytest.mark.parametrize("ga", [-1, 2**63, 2**64, 10**30])
def test_integers_that_cannot_be_addresses_are_refused(ga):
    for use in ("copy", "put", "get", "fetch_add8", "query_address", "view"):
        with pytest.raises(acp.AddressError, match=f"{use}: .*{ga}"):
            USES[use](ga)


@pytest.mark.parametrize("size", [-1, 2**63, 10**30])
def test_sizes_that_cannot_be_are_refused(size):
    with pytest.raises(ValueError, match=f"copy: .*{size}"):
        acp.copy(starter(acp.rank()), starter(acp.rank()), size)
    with pytest.raises(TypeError, match="copy"):
        acp.copy(starter(acp.rank()), starter(acp.rank()), 8.0)


def test_values_are_integers():
    with pytest.raises(TypeError, match=r"fetch_add8: .*1\.5"):
        acp.fetch_add8(starter(acp.rank()), 1.5)


@pytest.mark.parametrize("rank", [-1, -5, 99, 2**40])
def test_a_rank_that_does_not_exist_is_refused(rank):
    with pytest.raises(acp.RankError, match=f"query_starter_ga: .*{rank}"):
        acp.query_starter_ga(rank)


# Buffers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "buffer",
    [b"12345678", np.broadcast_to(np.uint8(0), 8), memoryview(b"12345678")],
    ids=["bytes", "ndarray", "view"],
)
def test_a_read_only_destination_is_refused(buffer):
    for call in (acp.get, acp.iget):
        with refused(ValueError, call.__name__):
            call(starter(right()), buffer)


@pytest.mark.parametrize("thing", [17, "text", None, object()], ids=repr)
def test_what_is_no_buffer_is_refused(thing):
    for call in (acp.put, acp.get, acp.iput, acp.iget):
        with pytest.raises(TypeError, match=f"{call.__name__}: "):
            call(starter(right()), thing)
    with pytest.raises(TypeError, match="register_memory: "):
        acp.register_memory(thing)


def test_a_buffer_that_was_released_is_refused_with_the_reason():
    view, memory = memoryview(bytearray(8)), mmap.mmap(-1, 8)
    view.release()
    memory.close()
    for thing, why in ((view, "released"), (memory, "closed")):
        for call in (acp.put, acp.get, acp.iput, acp.iget):
            with refused(ValueError, call.__name__, why):
                call(starter(right()), thing)
        with refused(ValueError, "register_memory", why):
            acp.register_memory(thing)


def test_objects_are_no_bytes():
    for call in (acp.put, acp.get):
        with pytest.raises(TypeError, match=f"{call.__name__}: "):
            call(starter(right()), np.array([None, 1], object))
    for thing in (np.array([None, 1], object), (ctypes.py_object * 2)(None, 1)):
        with pytest.raises(TypeError, match=r"register_memory: .*Python objects"):
            acp.register_memory(thing)


class DeviceArray:
    """Memory of an accelerator, as libraries show it."""

    __cuda_array_interface__ = {  # noqa: RUF012
        "shape": (8,),
        "typestr": "|u1",
        "data": (64, False),
        "version": 3,
    }


def test_device_memory_without_a_driver_is_an_error_that_says_so():
    with pytest.raises(acp.DeviceError, match=r"put: .*acp\.devices"):
        acp.put(starter(right()), DeviceArray())
    with pytest.raises(acp.DeviceError, match=r"register_memory: .*acp\.devices"):
        acp.register_memory(DeviceArray())


class ArrayInterface:
    """Something that shows its memory by NumPy's protocol only."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


class Exporter:
    """A class whose `__buffer__` gives other memory each time, and which knows who uses it."""

    def __init__(self, *memories):
        self.memories = iter(memories)
        self.users = 0

    def __buffer__(self, flags):
        self.users += 1
        return memoryview(next(self.memories))

    def __release_buffer__(self, view):
        self.users -= 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have no __buffer__ before")
@pytest.mark.parametrize("size", [8, 200_000])
def test_what_a_class_gives_as_its_buffer_is_used_and_given_back(size):
    _, places = shared(size + 8)
    acp.sync()
    ga, data = places[right()] + 8, bytes([acp.rank() + 1]) * size
    for put in (
        acp.put,
        lambda ga, given: acp.wait(acp.iput(ga, given)),
        lambda ga, given: acp.put(ga, given, flag=(ga - 8, 1)),
    ):
        given, sink = Exporter(data), bytearray(size)
        acp.put(ga, bytes(size))
        put(ga, given)
        taken = Exporter(sink)
        acp.get(ga, taken)
        again = Exporter(sink2 := bytearray(size))
        acp.wait(acp.iget(ga, again))
        assert sink == sink2 == data
        acp.complete()
        assert (given.users, taken.users, again.users) == (0, 0, 0)
    acp.sync()


def test_the_array_interface_alone_makes_a_buffer():
    source, sink = np.arange(4, dtype=np.int64), np.zeros(4, np.int64)
    acp.put(starter(acp.rank()), ArrayInterface(source))
    acp.get(starter(acp.rank()), ArrayInterface(sink))
    assert np.array_equal(sink, source)


def test_registration_refuses_what_is_not_contiguous_or_read_only():
    for wrong in (np.zeros((4, 4))[:, 1], np.zeros((4, 4))[::2], b"read only"):
        with refused(ValueError, "register_memory"):
            acp.register_memory(wrong)


def test_iput_refuses_a_buffer_that_is_not_contiguous():
    for call in (acp.iput, acp.iget):
        with pytest.raises(ValueError, match=rf"{call.__name__}: .*use {call.__name__[1:]}, or"):
            call(starter(right()), np.zeros((4, 4))[:, 1])


@pytest.mark.parametrize("color", [-1, 4, 99])
def test_a_color_that_does_not_exist_is_refused(color):
    with pytest.raises(ValueError, match=f"register_memory: .*{color}"):
        acp.query_ga(acp.register_memory(bytearray(8), color))
    with pytest.raises(ValueError, match=f"empty: .*{color}"):
        acp.empty(8, np.uint8, color=color)


@pytest.mark.parametrize("color", [1.0, "1", None], ids=repr)
def test_a_color_is_an_integer(color):
    with refused(TypeError, "register_memory", repr(color)):
        acp.register_memory(bytearray(8), color)
    with refused(TypeError, "empty", repr(color)):
        acp.empty(8, np.uint8, color=color)


@pytest.mark.parametrize("flag", [5, (5,), (5, 6, 7)], ids=repr)
def test_a_flag_is_an_address_and_a_value(flag):
    with pytest.raises(TypeError, match="put: flag="):
        acp.put(starter(right()), BUFFER, flag=flag)


@pytest.mark.parametrize("timeout", ["soon", [1], float("nan"), -1], ids=repr)
def test_a_timeout_is_a_number_of_seconds(timeout):
    calls = {
        "complete": lambda: acp.complete(timeout=timeout),
        "wait": lambda: acp.wait(acp.HANDLE_NULL, timeout=timeout),
        "sync": lambda: acp.sync(timeout=timeout),
        "barrier": lambda: acp.barrier([acp.rank()], timeout=timeout),
        "lookup": lambda: acp.lookup("anything", timeout=timeout),
        "wait_until": lambda: acp.wait_until(starter(acp.rank()), "==", 0, timeout=timeout),
    }
    for name, call in calls.items():
        with case(name), pytest.raises(ValueError, match=f"{name}: the timeout"):
            call()


def test_memory_of_a_mapping_can_be_registered():
    with mmap.mmap(-1, 4096) as memory, acp.register_memory(memory) as key:
        acp.put(acp.query_ga(key), b"mapped")
        assert memory[:6] == b"mapped"
        key.close()


# The limit ------------------------------------------------------------------------------------


def test_an_array_beyond_the_limit_is_refused_before_anything_is_touched():
    for make in (acp.empty, acp.zeros):
        with refused(acp.HeapFullError, make.__name__, 2**45):
            make(2**45, np.uint8)
    with pytest.raises(MemoryError):
        acp.empty(2**39, np.uint8)
    with pytest.raises((ValueError, MemoryError)):
        acp.empty(2**60, np.float64)
    acp.zeros(10)
