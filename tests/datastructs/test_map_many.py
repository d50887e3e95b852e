"""Many elements of a map at once."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import SLOW_ROAD, only, refused, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

COUNT = 500 if SLOW_ROAD else 20_000


def test_bulk_from_arrays(numbers):
    me, procs = acp.rank(), acp.procs()
    keys = np.arange(me, COUNT, procs)
    numbers.update(keys, keys / 2)
    acp.sync()
    assert len(numbers) == COUNT
    wanted = np.random.default_rng(me).integers(-100, COUNT + 100, COUNT)
    values, found = numbers.get_many(wanted)
    assert np.array_equal(found, (wanted >= 0) & (wanted < COUNT))
    assert np.array_equal(values[found], wanted[found] / 2)
    assert not values[~found].any()
    assert (numbers.get_many(wanted, default=-1)[0][~found] == -1).all()
    acp.sync()
    numbers.accumulate(keys, np.ones(len(keys)))
    acp.sync()
    values, found = numbers.get_many(np.arange(COUNT))
    assert np.array_equal(values, np.arange(COUNT) / 2 + 1)


@pytest.mark.parametrize("keys", [[], (), set(), np.zeros(0, "q"), np.zeros(0), range(0)])
def test_no_keys_are_some_too(numbers, keys):
    for given_keys in (keys, iter(keys)):
        values, found = numbers.get_many(given_keys)
        assert (values.dtype, values.shape) == (np.dtype("d"), (0,))
        assert (found.dtype, found.shape) == (np.dtype(bool), (0,))
    numbers.update(keys, keys)
    numbers.accumulate(keys, np.zeros(0))
    assert numbers.empty()


whole = st.integers(-(2**70), 2**70) | st.sampled_from(
    [0, 5, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]
)
some = whole | st.floats(width=32) | st.booleans() | st.none() | st.just("3")


@pytest.mark.parametrize("letter", "bIqQfd")
def test_many_are_refused_what_each_is_and_nothing_has_happened(letter):
    with (
        acp.Map(key="q", value=letter, ranks=[acp.rank()]) as many,
        acp.Map(key="q", value=letter, ranks=[acp.rank()]) as single,
        acp.Map(key=letter, value="q", ranks=[acp.rank()]) as keyed,
    ):

        @settings(max_examples=tries(150))
        @given(st.lists(some, max_size=4) | st.lists(whole, max_size=4), st.booleans())
        def compare(values, as_objects):
            for m in (many, single, keyed):
                m.clear()
            error = None
            try:
                for key, value in enumerate(values):
                    single[key] = value
            except (TypeError, OverflowError) as caught:
                error = caught
            items = np.array([*values, None], object)[:-1] if as_objects else values
            for call in (
                lambda: many.update(range(len(values)), items),
                lambda: keyed.update(items, range(len(values))),
                lambda: keyed.get_many(items),
            ):
                with pytest.raises((TypeError, OverflowError)) if error else open("/dev/null"):
                    call()
            if error:
                assert many.empty()
                assert keyed.empty()
            else:
                assert repr(sorted(many.items())) == repr(sorted(single.items()))
                assert keyed.get_many(items)[1].all()

        compare()


def test_the_default_of_many_is_a_value_of_the_map(made):
    m, texts = made(acp.Map, key="q", value="i"), made(acp.Map, key="q", value="S2")
    for wrong, error in ((1.5, TypeError), (2**40, OverflowError), ("x", TypeError)):
        with refused(error, "Map.get_many", "default"):
            m.get_many([1, 2], default=wrong)
    assert m.get_many([1, 2], default=-7)[0].tolist() == [-7, -7]
    with refused(ValueError, "Map.get_many", "default"):
        texts.get_many(np.arange(2), default=b"abc")
    acp.sync()


def test_all_ranks_add_up(numbers):
    rng = np.random.default_rng(acp.rank())
    words = rng.integers(0, 50, COUNT)
    numbers.accumulate(words, np.ones(COUNT))
    counted = sum(np.bincount(w, minlength=50) for w in acp.allgather(words))
    acp.sync()
    assert [numbers.get(i, 0) for i in range(50)] == list(counted)


def test_words_are_counted(made):
    m = made(acp.Map, key=str, value="q")
    words = [random.Random(acp.rank() * 1000 + i).choice("abcdef") * (i % 7) for i in range(300)]
    m.accumulate(words, [1] * len(words))
    everything = [w for part in acp.allgather(words) for w in part]
    acp.sync()
    assert dict(m.items()) == {w: everything.count(w) for w in set(everything)}


@pytest.mark.parametrize("letter", "bhiqBHIQ")
def test_what_accumulate_does(letter):
    results = {"add": 7, "multiply": 12, "min": 3, "max": 4, "and": 0, "or": 7, "xor": 7}
    with acp.Map(key="q", value=letter, ranks=[acp.rank()]) as m:
        for op, result in results.items():
            m.accumulate([1], [3], op)
            assert m[1] == 3  # missing keys start at the neutral element
            m.accumulate([1, 2, 2], [4, 3, 4], op)
            assert (m[1], m[2]) == (result, result)
            m.clear()


def test_what_accumulate_refuses(objects):
    with pytest.raises(TypeError, match="accumulate"):
        objects.accumulate(["a"], [1])
    with acp.Map(key="q", value="d", ranks=[acp.rank()]) as m:
        m.accumulate([1, 1], [2.5, -1.0], "min")
        assert m[1] == -1
        with pytest.raises(TypeError):
            m.accumulate([1], [2.5], "xor")
        with pytest.raises(ValueError, match="op"):
            m.accumulate([1], [2.5], "sub")
        with pytest.raises(ValueError, match="1 keys and 2 values"):
            m.update([1], [1.0, 2.0])
        with pytest.raises(TypeError):
            m.update([1.5], [1.0])
    with acp.Map(key="b", value="b", ranks=[acp.rank()]) as m:
        with pytest.raises(OverflowError):
            m.update(np.array([1, 200]), np.array([1, 2]))
        assert m.empty()


def test_update_takes_what_dict_takes(objects):
    if only(0):
        objects.update({"a": 1, "b": [2]})
        objects.update([("b", 3), ("c", 4)])
        assert dict(objects.items()) == {"a": 1, "b": 3, "c": 4}
        assert objects.get_many(["a", "x", "c"]) == ([1, None, 4], [True, False, True])
        assert sorted(objects.keys()) == ["a", "b", "c"]
        assert sorted(objects.values()) == [1, 3, 4]
    acp.sync()


@pytest.mark.parametrize("one", [5, None])
def test_one_thing_is_not_many(one, numbers, objects):
    for m in (numbers, objects):
        for use, name in (
            (lambda m: m.update(one), "update"), (lambda m: m.update([1], one or 5), "update"),
            (lambda m: m.get_many(one), "get_many"),
        ):  # fmt: skip
            with refused(TypeError, f"Map.{name}", "one thing"):
                use(m)
    with refused(TypeError, "Map.accumulate", "one thing"):
        numbers.accumulate([1, 2], one)
    for pairs in ("ab", [(1, 2, 3)], [1]):
        with pytest.raises((TypeError, ValueError), match=r"Map.update: .*give a mapping"):
            objects.update(pairs)


def test_as_many_values_as_keys_whatever_their_shapes(numbers):
    if only(0):
        for keys, values in (
            (np.zeros((2, 300), "q"), np.zeros(2)),
            (np.zeros(2, "q"), np.zeros((2, 300))),
            ([[1, 2], [3, 4]], [1.0, 2.0]),
        ):
            for method in (numbers.update, numbers.accumulate):
                with refused(ValueError, f"Map.{method.__name__}", "keys and", "values"):
                    method(keys, values)
        assert numbers.empty()
        numbers.update(np.arange(6).reshape(2, 3), np.arange(6.0).reshape(2, 3))
        assert dict(numbers.items()) == {i: i for i in range(6)}
        with pytest.raises(ValueError, match="buffers"):
            numbers._put_arrays("update", bytes(80), bytes(16), 10, "assign")
        with pytest.raises(ValueError, match="buffers"):
            numbers._put_arrays("update", bytes(16), bytes(80), 10, "assign")
    acp.sync()


def test_keys_from_any_iterable(numbers):
    if only(-1):
        model = {i: i / 2 for i in range(100)}
        numbers.update(model.keys(), model.values())
        assert dict(numbers.items()) == model
        for keys in (model.keys(), set(model), iter(model), (k for k in model), range(100)):
            values, found = numbers.get_many(keys)
            assert found.all()
            assert sorted(values) == sorted(model.values())
        strange = np.array([2.5, 2**70], object)
        with pytest.raises(TypeError):
            numbers.update(strange[:1], [1.0])
        with pytest.raises(OverflowError):
            numbers.update(strange[1:], [1.0])
        assert len(numbers) == 100
    acp.sync()


@pytest.mark.parametrize("key", [object, "q"])
def test_of_equal_keys_the_last_one_counts_of_whatever_length(made, key):
    m = made(acp.Map, key=key, value=bytes, maker=-1)
    if only(0):
        for sizes in ((100_000, 5), (5, 100_000), (7, 100_000, 3, 80_000, 2), (0, 70_000, 0)):
            keys = [k for size in sizes for k in (1, 2)]
            m.update(keys, [bytes([k]) * size for size in sizes for k in (1, 2)])
            assert dict(m.items()) == {k: bytes([k]) * sizes[-1] for k in (1, 2)}
    acp.sync()
