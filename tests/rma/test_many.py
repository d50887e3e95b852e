"""Many operations in one call: arrays of addresses, sizes and values."""

import array
import ctypes

import numpy as np
import pytest
from support import (
    SLOW_ROAD,
    case,
    finish,
    pattern,
    refused,
    right,
    shared,
    stale_address,
    starter,
)

import acp_mpi as acp

pytestmark = pytest.mark.mpi

COUNT = 500 if SLOW_ROAD else 50_000


def addresses(ga, count, stride=8, dtype=np.uint64):
    return ga + stride * np.arange(count, dtype=dtype)


# Copies ---------------------------------------------------------------------------------------


def test_one_call_gathers_scattered_words_of_all_ranks():
    source, places = shared(COUNT, np.uint64)
    source[:] = np.arange(COUNT, dtype=np.uint64) * acp.procs() + acp.rank()
    result, own = shared(COUNT, np.uint64)
    acp.sync()
    index = np.random.default_rng(acp.rank()).permutation(COUNT)
    owner = index % acp.procs()
    srcs = np.array(places, np.uint64)[owner] + 8 * index.astype(np.uint64)
    acp.complete(acp.copy_many(addresses(own[acp.rank()], COUNT), srcs, 8))
    assert np.array_equal(result, index * acp.procs() + owner)


def test_one_call_moves_rows_of_different_sizes_between_other_ranks():
    source, places = shared((50, 1000))
    sink, sinks = shared((50, 1000))
    source[:] = pattern(50_000, acp.rank()).reshape(50, 1000)
    sizes = np.arange(50) * 20
    acp.sync()
    acp.complete(
        acp.copy_many(
            addresses(sinks[(right() + 1) % acp.procs()], 50, 1000),
            addresses(places[right()], 50, 1000),
            sizes,
        )
    )
    acp.sync()
    expected = pattern(50_000, (acp.rank() - 1) % acp.procs()).reshape(50, 1000)
    for row, size in enumerate(sizes):
        assert np.array_equal(sink[row, :size], expected[row, :size])
        assert not sink[row, size:].any()


def test_scalars_stand_for_every_element():
    sink, places = shared(100, np.uint64)
    source = acp.zeros(1, np.uint64)
    source[0] = 7
    acp.complete(acp.copy_many(addresses(places[right()], 100), acp.query_ga(source), 8))
    acp.sync()
    assert (sink == 7).all()


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.int64,
        lambda x: array.array("q", x.tolist()),
        lambda x: np.repeat(x, 3)[::3],
        lambda x: x[::-1][::-1],
    ],
    ids=["list", "tuple", "int64", "array", "strided", "reversed"],
)
def test_arrays_may_be_of_any_integer_kind_and_stride(make):
    sink, places = shared(10, np.uint64)
    source, own = shared(10, np.uint64)
    source[:] = np.arange(10) + 1
    dsts, srcs = addresses(places[right()], 10), addresses(own[acp.rank()], 10)
    if make is np.int64:
        dsts, srcs = dsts.astype(np.int64), srcs.astype(np.int64)
    else:
        dsts, srcs = make(dsts), make(srcs)
    acp.complete(acp.copy_many(dsts, srcs, 8))
    acp.sync()
    assert np.array_equal(sink, source)


def packed_fields(values):
    """Words that are not aligned, as the fields of packed records are."""
    records = np.zeros(len(values), [("mark", "u1"), ("word", "u8")])
    records["word"] = values
    return records["word"]


def words_of_ctypes(values):
    return (ctypes.c_uint64 * len(values))(*map(int, values))


@pytest.mark.parametrize("make", [packed_fields, words_of_ctypes])
def test_words_that_name_their_byte_order_are_integers_of_8_bytes(make):
    words, places = shared(4, np.uint64)
    words[:] = 1, 2, 3, 4
    acp.sync()
    gas = make(addresses(places[right()], 4))
    assert acp.fetch_add8_many(gas, make([5, 6, 7, 8])).tolist() == [1, 2, 3, 4]
    back, own = shared(4, np.uint64)
    acp.complete(acp.copy_many(make(addresses(own[acp.rank()], 4)), gas, make([8] * 4)))
    assert back.tolist() == [6, 8, 10, 12]
    acp.sync()


def test_words_of_the_other_byte_order_are_refused():
    with pytest.raises(TypeError, match=r"fetch_add8_many: .*'>[lq]'"):
        acp.fetch_add8_many(np.array([starter(right())], ">i8"), 0)


def test_an_array_without_dimensions_is_a_scalar():
    words, places = shared(3, np.uint64)
    acp.sync()
    gas = addresses(places[right()], 3)
    assert acp.fetch_add8_many(gas, np.array(5)).tolist() == [0, 0, 0]
    assert acp.fetch_add8_many(np.array(gas[0]), [1]).tolist() == [5]
    assert acp.fetch_add8_many(np.array(gas[1]), np.array(1)).tolist() == [5]
    acp.sync()
    assert words.tolist() == [6, 6, 5]


def test_no_elements_are_no_operation():
    nothing = np.zeros(0, np.uint64)
    acp.complete(acp.copy_many(nothing, nothing, 8))
    assert len(acp.fetch_add8_many(nothing, 1)) == 0


@pytest.mark.parametrize("sizes", [-8, [8, -8], np.array([8, 0, -8])[::2]])
def test_a_negative_size_is_refused_as_one(sizes):
    at = starter(right())
    with pytest.raises(ValueError, match=r"copy_many: the size -8 of element [01] is negative"):
        acp.copy_many([at, at], starter(acp.rank(), 64), sizes)


def test_long_rows_and_short_ones_go_in_one_call():
    width = 100_000 if SLOW_ROAD else 1_000_000
    source, places = shared((5, width))
    sink, sinks = shared((5, width))
    source[:] = pattern(5 * width, acp.rank()).reshape(5, width)
    sizes = [width, 8, width, 100, width]
    acp.sync()
    rows = np.arange(5, dtype=np.uint64) * width
    acp.complete(acp.copy_many(sinks[right()] + rows, places[acp.rank()] + rows, sizes))
    acp.sync()
    expected = pattern(5 * width, (acp.rank() - 1) % acp.procs()).reshape(5, width)
    for row, (size, mine) in enumerate(zip(sizes, sink, strict=True)):
        assert np.array_equal(mine[:size], expected[row][:size])
        assert not mine[size:].any()


def test_order_holds_for_all_elements_of_a_call():
    sink, places = shared(200, np.uint64)
    values, own = shared(2, np.uint64)
    values[:] = 1, 2
    acp.sync()
    for first, then in ((0, 1), (1, 0)):
        before = acp.copy_many(addresses(places[right()], 200), own[acp.rank()] + 8 * first, 8)
        after = own[acp.rank()] + 8 * then
        acp.complete(acp.copy_many(addresses(places[right()], 200), after, 8, order=before))
        acp.sync()
        assert (sink == values[then]).all()
        acp.sync()


# Atomics --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 8])
def test_fetch_add_many_returns_the_values_before(size):
    words, places = shared(COUNT, f"u{size}")
    words[:] = np.arange(COUNT)
    acp.sync()
    gas = addresses(places[right()], COUNT, size)
    call = getattr(acp, f"fetch_add{size}_many")
    before = call(gas, np.arange(COUNT, dtype=np.int64))
    assert np.array_equal(before, np.arange(COUNT))
    assert (call(gas, 0) == 2 * np.arange(COUNT)).all()


def test_one_word_named_many_times_counts_every_time():
    counter, places = shared(1, np.uint64)
    drawn = acp.fetch_add8_many(np.full(COUNT, places[0], np.uint64), 1)
    everyone = acp.allgather(drawn)
    assert np.array_equal(np.sort(np.concatenate(everyone)), np.arange(COUNT * acp.procs()))
    assert acp.rank() or counter[0] == COUNT * acp.procs()


@pytest.mark.parametrize(
    ("operation", "values", "after"),
    [
        ("swap", 5, [5, 5, 5]),
        ("xor", 3, [3 ^ 1, 3 ^ 2, 0]),
        ("or", 4, [5, 6, 7]),
        ("and", [1, 1, 1], [1, 0, 1]),
    ],
)
@pytest.mark.parametrize("size", [4, 8])
def test_every_atomic_has_a_form_for_many(operation, values, after, size):
    words, places = shared(3, f"u{size}")
    words[:] = 1, 2, 3
    acp.sync()
    gas = addresses(places[right()], 3, size)
    before = getattr(acp, f"fetch_{operation}{size}_many")(gas, values)
    assert before.tolist() == [1, 2, 3]
    acp.sync()
    assert words.tolist() == after


@pytest.mark.parametrize("size", [4, 8])
def test_compare_and_swap_many_takes_what_it_expects_and_what_it_sets(size):
    words, places = shared(4, f"u{size}")
    words[:] = 1, 2, 3, 4
    acp.sync()
    gas = addresses(places[right()], 4, size)
    before = getattr(acp, f"fetch_cas{size}_many")(gas, [1, 0, 3, 0], 9)
    assert before.tolist() == [1, 2, 3, 4]
    acp.sync()
    assert words.tolist() == [9, 2, 9, 4]


# Refusals -------------------------------------------------------------------------------------


def test_a_bad_address_is_named_with_its_index_and_nothing_is_started():
    sink, places = shared(10, np.uint64)
    dsts = addresses(places[acp.rank()], 10)
    dsts[6] = 0
    source = starter(acp.rank())
    with pytest.raises(acp.AddressError, match="copy_many: ") as caught:
        acp.copy_many(dsts, source, 8)
    assert any("element 6" in note for note in caught.value.__notes__)
    assert not sink.any()


def test_a_bad_address_of_another_rank_is_an_error_of_the_whole_call():
    ga = stale_address(acp.procs() - 1)
    with pytest.raises(acp.AddressError, match="copy"):
        finish(acp.copy_many([starter(acp.rank()), starter(acp.rank(), 8)], [ga, ga], 8))
    with pytest.raises(acp.AddressError, match="fetch_add8_many"):
        acp.fetch_add8_many([ga, ga], 1)


def test_arrays_of_floats_are_refused_with_the_reason():
    wrong = addresses(starter(acp.rank()), 3).astype(np.float64)
    with pytest.raises(TypeError, match=r"copy_many: .*'d'"):
        acp.copy_many(wrong, wrong, 8)
    with pytest.raises(TypeError, match="fetch_add8_many"):
        acp.fetch_add8_many(wrong, 1)


@pytest.mark.parametrize("wrong", [None, "text", 1.5, {1}, np.zeros(2, "M8[s]")], ids=repr)
def test_what_is_neither_a_number_nor_an_array_is_refused(wrong):
    for call in (acp.copy_many, acp.fetch_cas8_many):
        for place in range(3):
            given = [starter(acp.rank()), starter(acp.rank(), 8), 8]
            given[place] = wrong
            with case(place), pytest.raises(TypeError, match=f"{call.__name__}: .* must be"):
                call(*given)


def test_arrays_of_different_length_are_refused():
    gas = addresses(starter(acp.rank()), 4)
    with pytest.raises(ValueError, match=r"copy_many: .*4 and 3"):
        acp.copy_many(gas, gas[:3], 8)
    with pytest.raises(ValueError, match=r"fetch_add8_many: .*4 and 3"):
        acp.fetch_add8_many(gas, [1, 2, 3])


def test_misaligned_words_are_refused():
    with refused(acp.AlignmentError, "fetch_add8_many"):
        acp.fetch_add8_many([starter(acp.rank(), 8), starter(acp.rank(), 12)], 1)
