"""Maps: what dict does, from every rank, on every road."""

import math
import pickle
import random

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from support import SLOW_ROAD

import acp_mpi as acp

pytestmark = pytest.mark.mpi

COUNT = 500 if SLOW_ROAD else 20_000


def everybody_s(make, where=-1):
    """Return a container that one rank has made, on every rank."""
    maker = where % acp.procs()
    return acp.bcast(make() if acp.rank() == maker else None, root=maker)


def end(container):
    acp.sync()
    if acp.rank() == 0:
        container.destroy()
    acp.sync()


def gone(function, *arguments):
    with pytest.raises(acp.AddressError):
        function(*arguments)


def only(rank):
    """Run the body of an `if` on one rank, between two syncs."""
    acp.sync()
    return acp.rank() == rank % acp.procs()


@pytest.fixture
def numbers():
    mine = everybody_s(lambda: acp.Map(key="q", value="d"))
    yield mine
    end(mine)


@pytest.fixture
def objects():
    mine = everybody_s(acp.Map)
    yield mine
    end(mine)


# One element ----------------------------------------------------------------------------------


def test_every_rank_finds_what_every_rank_has_put_in(numbers):
    me, procs = acp.rank(), acp.procs()
    for i in range(200):
        assert numbers.insert(me + i * procs, me + i / 2)
    acp.sync()
    assert len(numbers) == 200 * procs
    for key in range(200 * procs):
        assert numbers[key] == key % procs + key // procs / 2
    assert sorted(numbers) == list(range(200 * procs))
    assert dict(numbers.items()) == {k: k % procs + k // procs / 2 for k in range(200 * procs)}


def test_insert_keeps_and_assignment_replaces(numbers):
    if only(-1):
        assert numbers.insert(1, 2.5)
        assert not numbers.insert(1, 3.5)
        assert numbers[1] == 2.5
        numbers[1] = 4.5
        assert numbers.get(1) == numbers.retrieve(1) == 4.5
        assert numbers.get(2) is None
        assert numbers.get(2, 7) == 7
        assert numbers.setdefault(1, 9) == 4.5
        assert numbers.setdefault(3, 9) == 9
        assert numbers.pop(3) == 9
        assert numbers.pop(3, None) is None
        assert 1 in numbers
        assert 3 not in numbers
        del numbers[1]
        assert numbers.empty()
        assert not numbers
        assert not numbers.remove(1)
        for missing in (lambda: numbers[1], lambda: numbers.pop(1), lambda: numbers.__delitem__(1)):
            with pytest.raises(KeyError):
                missing()


def test_equal_keys_of_different_types_are_one(objects):
    if only(0):
        objects[1] = "one"
        for key in (1.0, True, np.int64(1), np.float32(1), np.bool_(True)):
            assert objects[key] == "one"
            assert not objects.insert(key, "two")
        objects[(1, "a", (None, 2.5))] = "tuple"
        assert objects[(True, "a", (None, np.float64(2.5)))] == "tuple"
        objects[0.0] = "zero"
        assert objects[-0.0] == objects[False] == "zero"
        objects[math.nan] = "no number"
        assert objects[float("nan")] == "no number"
        objects[1e300] = "large"
        assert objects[int(1e300)] == "large"
        assert len(objects) == 5
    acp.sync()
    assert objects[1] == "one"


KEYS = [
    None, 0, -1, 2**63, -(2**63), 2**64, 2**200, -(2**200), 0.5, -2.25, math.inf, -math.inf, "",
    "a", "é\ud800", b"", b"a", "x" * 5000, (), (1,), ((1,), 2), (1, (2,)), ("a", b"a"), (None, ""),
]  # fmt: skip


def test_keys_come_back_as_they_were(objects):
    if only(-1):
        for i, key in enumerate(KEYS):
            assert objects.insert(key, i)
    acp.sync()
    assert {k: objects[k] for k in KEYS} == {k: i for i, k in enumerate(KEYS)}
    assert dict(objects.items()) == {k: i for i, k in enumerate(KEYS)}


@pytest.mark.parametrize("key", [[1], {}, 1j, bytearray(b"a"), object(), (1, [2])])
def test_other_keys_are_refused(objects, key):
    with pytest.raises(TypeError, match="a key is None"):
        objects[key] = 1
    assert objects.empty()


def test_keys_of_one_type(numbers):
    if only(0):
        numbers[np.int32(5)] = np.float32(1.5)
        assert numbers[5] == numbers[5.0] == 1.5
        with pytest.raises(TypeError):
            numbers["5"] = 1
        with pytest.raises(TypeError):
            numbers[5.5] = 1
        with pytest.raises(OverflowError):
            numbers[2**63] = 1
    acp.sync()


@pytest.mark.parametrize(
    ("key", "value", "keys", "values"),
    [
        ("B", "V13", [0, 255], [b"1" * 13, b"2" * 13]),
        ("V13", "V0", [b"a" * 13, b"b" * 13], [b"", b""]),
        ("V0", "d", [b""], [1.5]),
        ("f", "?", [0.5, -0.25], [True, False]),
        (int, object, [1, 2], [[1], None]),
        (str, "q", ["a", "b" * 1000], [1, 2]),
        ([("x", "i4"), ("y", "f8")], "<U3", [(1, 2.5), (2, 3.5)], ["abc", ""]),
        ("V300", "V4096", [b"a" * 300, b"b" * 300], [b"1" * 4096, b"2" * 4096]),
        (">i4", "S2", [1, 2], [b"ab", b"c"]),
    ],
)
def test_elements_of_many_types(key, value, keys, values):
    m = everybody_s(lambda: acp.Map(key=key, value=value))
    if only(0):
        for k, v in zip(keys, values, strict=True):
            assert m.insert(k, v)
            assert not m.insert(k, v)
    acp.sync()
    assert dict(m.items()) == dict(zip(keys, values, strict=True))
    assert [m[k] for k in keys] == values
    assert list(m.get_many(keys)[1]) == [True] * len(keys)
    again = acp.Map.attach(m.ga)
    assert again == m
    assert [again[k] for k in keys] == values
    end(m)


def test_values_of_any_length(objects):
    sizes = [0, 1, 8, 13, 4096, 70_000, 1_000_000 if SLOW_ROAD else 10 << 20]
    if only(-1):
        for size in sizes:
            objects[size] = bytes([size % 251]) * size
    acp.sync()
    for size in sizes:
        assert objects[size] == bytes([size % 251]) * size
    assert {k: len(v) for k, v in objects.items()} == {size: size for size in sizes}
    values, found = objects.get_many([*sizes, -1])
    assert [len(v) for v in values[:-1]] == sizes
    assert found == [True] * len(sizes) + [False]
    if only(0):
        assert not objects.insert(sizes[-1], b"other")
        assert len(objects.pop(sizes[-1])) == sizes[-1]
        objects[0] = b"x" * 100_000
        assert objects.setdefault(0) == b"x" * 100_000
        key = "k" * 100_000
        assert objects.insert(key, 1)
        assert not objects.insert(key, 2)
        assert (key in objects, objects[key], key in list(objects)) == (True, 1, True)
        objects.update([key, "short"], [3, b"y" * 100_000])
        assert objects[key] == 3
        assert objects.pop(key) == 3
        assert len(objects["short"]) == 100_000
    acp.sync()


# Many elements --------------------------------------------------------------------------------


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


def test_all_ranks_add_up(numbers):
    rng = np.random.default_rng(acp.rank())
    words = rng.integers(0, 50, COUNT)
    numbers.accumulate(words, np.ones(COUNT))
    counted = sum(np.bincount(w, minlength=50) for w in acp.allgather(words))
    acp.sync()
    assert [numbers.get(i, 0) for i in range(50)] == list(counted)


def test_words_are_counted():
    m = everybody_s(lambda: acp.Map(key=str, value="q"))
    words = [random.Random(acp.rank() * 1000 + i).choice("abcdef") * (i % 7) for i in range(300)]
    m.accumulate(words, [1] * len(words))
    everything = [w for part in acp.allgather(words) for w in part]
    acp.sync()
    assert dict(m.items()) == {w: everything.count(w) for w in set(everything)}
    end(m)


@pytest.mark.parametrize(
    ("op", "result"),
    [("add", 7), ("multiply", 12), ("min", 3), ("max", 4), ("and", 0), ("or", 7), ("xor", 7)],
)
@pytest.mark.parametrize("letter", "bhiqBHIQ")
def test_what_accumulate_does(op, result, letter):
    with acp.Map(key="q", value=letter, ranks=[acp.rank()]) as m:
        m.accumulate([1], [3], op)
        assert m[1] == 3  # missing keys start at the neutral element
        m.accumulate([1, 2, 2], [4, 3, 4], op)
        assert (m[1], m[2]) == (result, result)


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


# All of it ------------------------------------------------------------------------------------


def test_where_keys_live():
    m = everybody_s(lambda: acp.Map(key="q", value="q", ranks=[acp.procs() - 1], rank=0))
    m[acp.rank()] = 1
    acp.sync()
    assert m.ranks == (acp.procs() - 1,)
    assert acp.query_rank(m.ga) == 0
    assert len(m.local) == (acp.procs() if acp.rank() == acp.procs() - 1 else 0)
    assert m.statistics().keys == acp.procs()
    end(m)
    with pytest.raises(ValueError, match="ranks"):
        acp.Map(ranks=[])
    with pytest.raises(acp.RankError):
        acp.Map(ranks=[acp.procs()])


def test_what_lives_here(numbers):
    if only(0):
        numbers.update(range(1000), np.arange(1000.0))
    acp.sync()
    local = numbers.local
    parts = acp.allgather(dict(local.items()))
    assert sum(map(len, parts)) == 1000
    assert sorted(k for part in parts for k in part) == list(range(1000))
    assert len(local) == len(parts[acp.rank()]) == len(list(local.keys()))
    acp.sync()
    if acp.rank() == 0:
        local.clear()
    acp.sync()
    assert len(numbers) == 1000 - len(parts[0])
    assert acp.rank() != 0 or local.empty()


def test_local_assign_merge_move(numbers):
    other = everybody_s(lambda: acp.Map(key="q", value="d", ranks=[0]), 0)
    if only(0):
        other.update(range(100), np.arange(100.0))
    acp.sync()
    numbers.local.assign(other)
    acp.sync()
    assert dict(numbers.items()) == {i: i for i in range(100)}
    acp.sync()
    numbers.local.clear()
    acp.sync()
    if acp.rank() == 0:
        numbers[7] = -1
    acp.sync()
    numbers.local.merge(other)
    acp.sync()
    assert dict(other.items()) == {7: 7}
    assert numbers[7] == -1
    assert len(numbers) == 100
    acp.sync()
    if acp.rank() == 0:
        other[200] = 1.5
    acp.sync()
    numbers.local.move(other)
    acp.sync()
    assert dict(numbers.items()) == {7: 7, 200: 1.5}
    assert other.empty()
    end(other)


def test_assign_merge_move_swap_between_ranks():
    a = everybody_s(lambda: acp.Map(ranks=[0]))
    b = everybody_s(acp.Map)
    if only(-1):
        a.update({1: "a", 2: "b"})
        b.update({2: "c", 3: "d", 4: "x" * 100_000})
        a.merge(b)
        assert dict(b.items()) == {2: "c"}
        assert dict(a.items()) == {1: "a", 2: "b", 3: "d", 4: "x" * 100_000}
        b.swap(a)
        assert dict(a.items()) == {2: "c"}
        assert len(b) == 4
        a.assign(b)
        assert dict(a.items()) == dict(b.items())
        b.clear()
        b.move(a)
        assert (len(a), len(b)) == (0, 4)
    end(a)
    end(b)


def test_cursors(numbers):
    if only(0):
        assert numbers.begin() == numbers.end()
        numbers.update(range(100), np.arange(100.0))
        cursor, seen = numbers.begin(), []
        while cursor != numbers.end():
            seen.append((cursor.key, cursor.value))
            cursor = cursor.advance()
        assert sorted(seen) == [(i, i) for i in range(100)]
        assert numbers.begin().distance(numbers.end()) == 100
        found = numbers.find(seen[40][0])
        assert numbers.begin().advance(40) == found
        assert found.advance(3).key == seen[43][0]
        assert found.advance(100) == numbers.find(1000) == numbers.end()
        buffer = np.zeros(1)
        acp.get(found.ga, buffer)
        assert buffer[0] == found.value
        numbers.remove(found.key)
        assert found.ga == 0
        assert found.advance().key == seen[41][0]
        with pytest.raises(ValueError, match="forward"):
            found.advance(-1)
        with pytest.raises(ValueError, match="before"):
            numbers.end().distance(found)
    acp.sync()


def test_it_travels_and_ends_everywhere(objects):
    again = pickle.loads(pickle.dumps(objects))
    assert again == objects
    assert hex(objects.ga) in repr(objects)
    if only(0):
        objects["self"] = objects
    acp.sync()
    assert objects["self"] == objects
    mine = acp.Map(key="q", value="q")
    others = acp.allgather(mine)
    others[(acp.rank() + 1) % acp.procs()].insert(1, 1)
    acp.sync()
    part = [ga for ga, _ in mine._others]
    with mine:
        assert mine[1] == 1
    acp.sync()
    for other in others:
        gone(other.get, 1)
        gone(other.insert, 1, 1)
        gone(other.update, [1, 2], [3, 4])
        gone(len, other)
        gone(list, other)
        gone(acp.Map.attach, other.ga)
    for ga in part:
        gone(acp.Map.attach, ga)
    gone(acp.Set.attach, objects.ga)
    mine.destroy()


def test_nothing_is_left_when_it_is_destroyed():
    acp.sync()
    before = acp.heap_statistics().used
    for _ in range(3):
        acp.sync()
        m = everybody_s(acp.Map)
        m.update({(acp.rank(), i): b"x" * i for i in range(100)})
        end(m)
        acp.sync()
        used = acp.heap_statistics().used
    # Heads stay for the next ones of their kind, everything else goes.
    assert used - before < 40_000
    acp.sync()
    m = everybody_s(acp.Map)
    end(m)
    assert acp.heap_statistics().used == used


# Known fault 11 of the C library ---------------------------------------------------------------


def test_it_grows_while_others_read_and_nothing_is_lost(numbers):
    count = COUNT // 4
    fixed = range(-50, 0)
    if only(0):
        numbers.update(list(fixed), [float(k) for k in fixed])
    acp.sync()
    if acp.rank() == 0:
        for i in range(count):
            numbers[i] = i / 2
    else:
        for turn in range(count // 50):
            for key in fixed if turn % 4 == 0 else (-1 - turn % 50,):
                assert numbers[key] == key
            if turn % 40 == 0:
                keys = [k for k in numbers if k < 0]
                assert sorted(keys) == list(fixed)  # once, though the tables grow meanwhile
    acp.sync()
    assert len(numbers) == count + 50
    assert all(numbers[i] == i / 2 for i in range(0, count, 7))


def test_nothing_is_written_by_finds(numbers):
    if only(0):
        numbers[1] = 1.5
        before = numbers.statistics()
        for key in range(100):
            numbers.get(key)
        assert numbers.statistics() == before
    acp.sync()


# Against dict ---------------------------------------------------------------------------------

KEY = st.one_of(
    st.integers(0, 20), st.sampled_from(["a", "b", "", b"a", None, 0.5, (1, "a"), 2**70, 1.0])
)
VALUE = st.one_of(st.integers(), st.binary(max_size=40), st.none())
STEP = st.one_of(
    st.tuples(st.sampled_from(["insert", "assign", "setdefault"]), KEY, VALUE),
    st.tuples(st.sampled_from(["remove", "pop", "get"]), KEY, st.none()),
    st.tuples(st.just("update"), st.lists(st.tuples(KEY, VALUE), max_size=30), st.none()),
    st.tuples(st.just("clear"), st.none(), st.none()),
)


def act(m, kind, key, value):
    match kind:
        case "insert":
            return m.insert(key, value)
        case "assign":
            m[key] = value
        case "setdefault":
            return m.setdefault(key, value)
        case "remove":
            return m.remove(key)
        case "pop":
            return m.pop(key, "none")
        case "get":
            return m.get(key, "none")
        case "update":
            m.update(key)
        case "clear":
            m.clear()
    return None


def foresee(model, kind, key, value):
    match kind:
        case "insert":
            new = key not in model
            model.setdefault(key, value)
            return new
        case "assign":
            model[key] = value
        case "setdefault":
            return model.setdefault(key, value)
        case "remove":
            return model.pop(key, "none") != "none"
        case "pop":
            return model.pop(key, "none")
        case "get":
            return model.get(key, "none")
        case "update":
            model.update(key)
        case "clear":
            model.clear()
    return None


@hypothesis.settings(max_examples=8 if SLOW_ROAD else 40)
@hypothesis.given(st.lists(STEP, max_size=40))
def test_it_does_what_dict_does(steps):
    m = everybody_s(acp.Map)
    model = {}
    for turn, step in enumerate(steps):
        acp.sync()
        expected = foresee(model, *step)
        if acp.rank() == turn % acp.procs():
            assert act(m, *step) == expected
    acp.sync()
    assert dict(m.items()) == model
    assert len(m) == len(model)
    end(m)
