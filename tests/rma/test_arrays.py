"""Arrays of global memory, and where their bytes are."""

import gc

import numpy as np
import pytest
from support import case, fetch, refused, right, stale_everywhere, starter

import acp_mpi as acp

pytestmark = pytest.mark.mpi


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
