"""Global memory: registration, addresses, arrays; table 2 of seed 003."""

import contextlib
import gc
import mmap
import pickle

import numpy as np
import pytest
from support import (
    CAN_LOAD,
    case,
    fetch,
    pattern,
    refused,
    registered,
    right,
    shared,
    starter,
    store,
)

import acp_mpi as acp
from acp_mpi.engine import _engine

pytestmark = pytest.mark.mpi

NORESERVE = 0x4000  # mmap names it from Python 3.13 on
TOO_LONG = 2 << 40  # bytes; more than a rank has addresses for


def stale_everywhere(ga):
    """Check that no rank can use the address that this rank had. Collective."""
    for old in acp.allgather(ga):
        with pytest.raises(acp.AddressError):
            fetch(old, 1)


# Registration ---------------------------------------------------------------------------------


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


# Arrays of global memory ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [np.uint8, np.int16, "<f4", np.complex128, "M8[s]", [("a", "i4"), ("b", "f8", 3)]],
    ids=str,
)
@pytest.mark.parametrize("shape", [5, (3,), (2, 3, 4), ()], ids=str)
def test_empty_and_zeros_make_ordinary_arrays(shape, dtype):
    expected = np.zeros(shape, dtype)
    for make in (acp.empty, acp.zeros):
        array = make(shape, dtype)
        assert (array.shape, array.dtype) == (expected.shape, expected.dtype)
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert array.flags.aligned
    assert array.tobytes() == expected.tobytes()


def test_zeros_are_zero_where_other_arrays_were():
    for _ in range(20):
        acp.empty(50_000, np.uint8).fill(255)
        assert not acp.zeros(50_000, np.uint8).any()


@pytest.mark.parametrize("wrong", ["nope", 5])
def test_what_is_no_type_is_refused_by_name(wrong):
    ga = acp.query_starter_ga(acp.rank())
    for call, name in (
        (lambda: acp.view(ga, 1, wrong), "view"), (lambda: acp.empty(1, wrong), "empty"),
        (lambda: acp.zeros(1, wrong), "zeros"), (lambda: acp.remote(ga, 1, wrong), "remote"),
    ):  # fmt: skip
        with refused(TypeError, name, repr(wrong)):
            call()


def test_objects_cannot_live_in_global_memory():
    here = acp.query_ga(acp.zeros(8))
    for make in (acp.empty, lambda *what: acp.view(here, *what),
                 lambda *what: acp.remote(here, *what)):  # fmt: skip
        with pytest.raises(TypeError, match="holds Python objects"):
            make(2, object)


@pytest.mark.parametrize("shape", [2.9, "12", (1, 2.0), None, [[1]]])
def test_a_shape_is_a_number_or_several(shape):
    here = acp.query_ga(acp.zeros(8))
    for make in (
        acp.zeros,
        lambda shape: acp.view(here, shape),
        lambda shape: acp.remote(here, shape),
    ):
        with pytest.raises(TypeError, match="is not a shape"):
            make(shape)
    with refused(ValueError, "view", -1):
        acp.view(here, (2, -1))


def makers():
    here = starter(acp.rank())
    return {
        "empty": acp.empty,
        "zeros": acp.zeros,
        "view": lambda *what: acp.view(here, *what),
        "remote": lambda *what: acp.remote(here, *what),
    }


@pytest.mark.parametrize("kind", [str, bytes, "S", "U"])
def test_text_without_a_length_has_one_character_as_in_numpy(kind):
    for make in makers().values():
        assert make(3, kind).dtype == np.empty(3, kind).dtype
    array = acp.zeros(2, kind)
    array[1] = "x"
    there = acp.remote(acp.query_ga(array), 2, kind)
    there[0] = "y"
    assert array.tolist() == there[:].tolist() == np.array(["y", "x"], kind).tolist()


@pytest.mark.parametrize("shape", [2**70, (2**70, 0), (0, 2**63), (2**40, 2**40)], ids=str)
def test_a_shape_larger_than_any_region_is_refused(shape):
    for name, make in makers().items():
        with case(name), pytest.raises(ValueError, match=rf"{name}: .*1 TiB"):
            make(shape)


@pytest.mark.parametrize("kind", ["foo", 5, [("a",)]], ids=repr)
def test_a_type_of_elements_that_numpy_does_not_know_is_refused(kind):
    for name, make in makers().items():
        with refused(TypeError, name, repr(kind)):
            make(3, kind)


def test_part_of_an_array_has_an_address():
    array = acp.zeros((10, 10), np.float64)
    assert acp.query_ga(array[3:]) == acp.query_ga(array) + 3 * 80
    assert acp.query_ga(array[2, 5:]) == acp.query_ga(array) + 200
    assert acp.query_ga(array, view=array[2]) == acp.query_ga(array) + 160
    assert acp.query_ga(array, address=array.ctypes.data + 24) == acp.query_ga(array) + 24
    assert acp.query_ga(array, np.int64(799)) == acp.query_ga(array) + 799
    for outside in ({"view": np.zeros(3)}, {"offset": 800}, {"address": array.ctypes.data - 1}):
        with refused(acp.AddressError, "query_ga"):
            acp.query_ga(array, **outside)


@pytest.mark.parametrize("wrong", [1.5, "8", [8]], ids=repr)
def test_an_offset_and_an_address_of_a_byte_are_integers(wrong):
    with acp.register_memory(bytearray(16)) as key:
        for memory in (key, acp.zeros(2)):
            for place in ("offset", "address"):
                with refused(TypeError, "query_ga", repr(wrong)):
                    acp.query_ga(memory, **{place: wrong})


@pytest.mark.parametrize("shape", [0, (3, 0)])
def test_an_array_without_elements_has_an_address(shape):
    """As the part of a rank that has nothing to do: no other rank need know."""
    empty = acp.zeros(shape)
    places = acp.allgather(acp.query_ga(empty))
    assert len(set(places)) == acp.procs()
    assert acp.query_rank(places[right()]) == right()
    acp.put(places[right()], np.empty(shape))
    assert acp.remote(places[right()], shape)[...].shape == empty.shape
    acp.sync()


def test_an_ordinary_array_has_no_address_and_the_error_says_what_to_do():
    with refused(acp.AddressError, "query_ga"):
        acp.query_ga(np.zeros(3))


def test_a_dropped_array_s_address_is_stale_on_every_rank():
    array = acp.zeros(100_000)
    ga, part = acp.query_ga(array), array[5:10]
    acp.sync()
    del array
    gc.collect()
    acp.sync()
    fetch(acp.allgather(ga)[right()], 8)  # a part keeps the whole
    acp.sync()
    del part
    gc.collect()
    acp.sync()
    stale_everywhere(ga)


# Reaching memory ------------------------------------------------------------------------------


def test_own_memory_can_be_viewed_and_has_a_machine_address():
    array, _ = shared((4, 4), np.int32)
    ga = acp.query_ga(array)
    view = acp.view(ga + 16, (3, 4), np.int32)
    view[0, 0] = 4711
    assert array[1, 0] == 4711
    assert acp.query_address(ga + 4) == array.ctypes.data + 4


def test_a_peer_s_global_memory_can_be_viewed_on_the_same_node():
    array, places = shared(100, np.int64)
    ga = places[right()]
    if not CAN_LOAD and acp.procs() > 1:
        for call in (acp.query_address, lambda ga: acp.view(ga, 100, np.int64)):
            with pytest.raises(acp.AddressError, match=f"rank {right()}"):
                call(ga)
    else:
        assert acp.query_address(ga)
        acp.view(ga, 100, np.int64)[7] = acp.rank() + 1
        acp.sync()
        assert array[7] == (acp.rank() - 1) % acp.procs() + 1


def test_a_peer_s_registered_memory_cannot_be_viewed_and_the_error_names_empty():
    _, _, places = registered(100)
    if acp.procs() > 1:
        with pytest.raises(acp.AddressError, match=r"acp\.empty"):
            acp.view(places[right()], (100,), np.uint8)


def test_remote_arrays_get_and_put_by_slices():
    array, places = shared((6, 5), np.float64)
    array[:] = np.arange(30).reshape(6, 5) + 100 * acp.rank()
    expected = np.arange(30).reshape(6, 5) + 100.0 * right()
    acp.sync()
    there = acp.remote(places[right()], (6, 5), np.float64)
    assert (there.shape, there.dtype) == ((6, 5), np.float64)
    for index in (
        np.s_[:],
        np.s_[2],
        np.s_[-1],
        np.s_[1:4],
        np.s_[2, 3],
        np.s_[:, 1],
        np.s_[::2, ::3],
        np.s_[4:1:-1],
        np.s_[..., 0],
    ):
        assert np.array_equal(there[index], expected[index]), index
    with pytest.raises(IndexError):
        there[6]
    acp.sync()
    for value, index in enumerate((np.s_[-1], np.s_[1:3, 2], np.s_[0, 0], np.s_[::2, 4])):
        there[index] = value
        expected[index] = value
    acp.sync()
    back = acp.remote(acp.query_ga(array), (6, 5), np.float64)
    assert np.array_equal(back[:], array)
    assert np.array_equal(there[:], expected)


def test_assignment_to_a_remote_array_drops_leading_dimensions_of_one_as_numpy_does():
    array, places = shared((3, 4), np.float64)
    acp.sync()
    there, expected = acp.remote(places[right()], (3, 4)), np.zeros((3, 4))
    for key, value in (
        (1, np.arange(4)[None]),
        ((0, ...), np.ones((1, 1, 4))),
        ((slice(1, 3), 0), np.array([[[5, 6]]])),
    ):
        there[key] = value
        expected[key] = value
    assert np.array_equal(there[:], expected)
    for value in (np.zeros((2, 4)), np.zeros((1, 3))):
        with pytest.raises(ValueError, match=r"\(4,\), the part of the remote array"):
            there[1] = value
    acp.sync()
    assert np.array_equal(array, expected)


def test_the_elements_of_arrays_of_arrays_are_those_within():
    of_pairs = np.dtype((np.float64, 2))
    array, places = shared((3, 4), of_pairs)
    array[:] = np.arange(24).reshape(3, 4, 2) + 100 * acp.rank()
    acp.sync()
    there = acp.remote(places[right()], (3, 4), of_pairs)
    assert (there.shape, there.dtype, array.shape) == ((3, 4, 2), np.float64, (3, 4, 2))
    assert np.array_equal(there[1:, ::2], np.arange(24).reshape(3, 4, 2)[1:, ::2] + 100 * right())
    acp.sync()


def test_a_remote_array_takes_no_index_arrays():
    """They would select a copy of nothing, anywhere in this process's memory."""
    array, places = shared(1000, np.float64)
    array[:] = acp.rank() + 1
    there = acp.remote(places[right()], 1000)
    acp.sync()
    for index in (
        np.array([3, 5]),
        [3, 5],
        np.ones(1000, bool),
        np.True_,
        1.0,
        (np.array([1]), None),
    ):
        with pytest.raises(TypeError, match="integers and slices"):
            there[index]
        with pytest.raises(TypeError, match="integers and slices"):
            there[index] = -1
    assert there[np.array(3)] == there[np.uint8(3)] == right() + 1
    acp.sync()
    assert (array == acp.rank() + 1).all()


def test_remote_arrays_travel_by_pickle():
    array, places = shared((3, 4), np.int32)
    array[:] = acp.rank()
    acp.sync()
    for rank, there in enumerate(acp.allgather(acp.remote(places[acp.rank()], (3, 4), np.int32))):
        assert (there.ga, there.shape, there.dtype) == (places[rank], (3, 4), np.int32)
        assert (there[:] == rank).all()
    huge = acp.remote(places[0], (1 << 40,))
    assert len(pickle.dumps(huge)) < 1000
    acp.sync()
