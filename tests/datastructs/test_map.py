"""Maps: what dict does, from every rank, on every road."""

import math
from decimal import Decimal

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from support import SLOW_ROAD, only, refused, right, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi


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
        objects[b"bytes"] = "bytes"
        assert objects[np.bytes_(b"bytes")] == objects.pop(np.bytes_(b"bytes")) == "bytes"
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


def test_other_keys_are_refused(objects):
    for key in ([1], {}, 1j, bytearray(b"a"), object(), (1, [2])):
        with pytest.raises(TypeError, match=r"^Map\[\]: a key is None"):
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
def test_elements_of_many_types(made, key, value, keys, values):
    m = made(acp.Map, key=key, value=value)
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


@pytest.mark.parametrize("value", [object, bytes])
def test_values_of_any_length(made, value):
    objects = made(acp.Map, value=value, maker=-1)
    short = range(220, 260)  # about as long as what goes a short way
    sizes = [0, 1, 8, 13, *short, 4096, 8193, 70_001, 1_000_000 if SLOW_ROAD else 10 << 20]
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
        assert objects.setdefault(0, b"y") == b"x" * 100_000
        key = "k" * 100_000
        assert objects.insert(key, b"1")
        assert not objects.insert(key, b"2")
        assert (key in objects, objects[key], key in list(objects)) == (True, b"1", True)
        for key in ["k" * size for size in short]:
            objects[key] = b""
            assert (key in objects, objects[key]) == (True, b"")
            del objects[key]
            assert key not in objects
        objects.update([key, "short"], [b"3", b"y" * 100_000])
        assert objects[key] == b"3"
        assert objects.pop(key) == b"3"
        assert len(objects["short"]) == 100_000
    acp.sync()


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


def test_it_does_what_dict_does(objects):
    @hypothesis.settings(max_examples=tries(40))
    @hypothesis.given(st.lists(STEP, max_size=40))
    def agrees(steps):
        model = {}
        if only(0):
            objects.clear()
        for turn, step in enumerate(steps):
            acp.sync()
            expected = foresee(model, *step)
            if acp.rank() == turn % acp.procs():
                assert act(objects, *step) == expected
        acp.sync()
        assert dict(objects.items()) == model
        assert len(objects) == len(model)
        acp.sync()

    agrees()


def test_keys_values_and_arguments_of_another_type_are_refused(made):
    m = made(acp.Map, key="q", value="q")
    if acp.rank() == acp.procs() - 1:
        for use, name in (
            (lambda: m["a"], "Map[]"), (lambda: m.get("a"), "Map.get"),
            (lambda: "a" in m, "Map.find"),
            (lambda: m.remove("a"), "Map.remove"), (lambda: m.__setitem__("a", 1), "Map[]"),
            (lambda: m.__setitem__(1, "a"), "Map[]"), (lambda: m.insert(1, "a"), "Map.insert"),
        ):  # fmt: skip
            with refused(TypeError, name, "'a'"):
                use()
        with refused(OverflowError, "Map[]", 2**64):
            m[2**64]
        raw = acp.Map(value=bytes)
        with refused(TypeError, "Map[]", "'a'"):
            raw[1] = "a"
        with refused(TypeError, "Map.update", "'a'"):
            raw.update([1], ["a"])
        with pytest.raises(TypeError, match=r"Map: 'nope' .*; use float, say$"):
            acp.Map(key="nope")
        raw.destroy()
        for error, keywords in (
            (ValueError, {"slots": -1}), (TypeError, {"slots": 1.5}), (TypeError, {"ranks": 0}),
            (ValueError, {"ranks": []}), (ValueError, {"ranks": [0, 0]}),
        ):  # fmt: skip
            with refused(error, "Map"):
                acp.Map(**keywords)
        assert m.empty()


@pytest.mark.parametrize("key", ["f2", ">f8", ">f4", complex, "c8", "d"])
def test_real_keys_that_are_equal_are_one(made, key):
    m = made(acp.Map, key=key, value="q", maker=-1)
    if only(0):
        values = [0.0, -0.0, 0.5, math.nan, np.float32(-0.0), Decimal("-0"), np.float16("nan")]
        values.append(np.frombuffer(b"\1\0\xc0\xff", np.float32)[0])  # another NaN
        if np.dtype(key).kind == "c":
            values += [complex(-0.0, -0.0), complex(math.nan, 0), complex(0, -0.0)]
        for value in values:
            m[value] = 1
        assert len(m) == 3
        for array in (np.array(values, key), np.array(values, np.dtype(key).newbyteorder("="))):
            m.accumulate(array, np.ones(len(array), "q"))
            assert len(m) == 3
            assert m.get_many(array)[1].all()
        assert m[0.0] == m[-0.0] > 1
    acp.sync()


def test_structures_that_are_equal_are_one_key(made):
    kind = [("a", "<i4"), ("b", ">f8"), ("c", "f4", (2,))]
    m = made(acp.Map, key=kind, value="q", maker=-1)
    if only(0):
        m[(1, 0.0, (0.0, math.nan))] = 1
        m[(1, -0.0, (-0.0, -math.nan))] += 1
        array = np.array([(1, -0.0, (0.0, math.nan))], kind)
        m.accumulate(array, np.ones(1, "q"))
        assert list(m.values()) == [3]
    acp.sync()


def test_keys_with_bytes_that_mean_nothing_are_refused():
    gaps = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    for key in (gaps, [("x", gaps, (2,))], np.longdouble, np.clongdouble):
        with refused(TypeError, "Map", "packed"):
            acp.Map(key=key)


def test_a_cursor_is_read_and_its_steps_are_counted(numbers):
    if only(0):
        numbers[1] = 2
        cursor = numbers.begin()
        for name in ("key", "value"):  # to set one would change nothing of the map
            with pytest.raises(AttributeError):
                setattr(cursor, name, 3)
        assert (cursor.key, cursor.value, numbers[1]) == (1, 2, 2)
        name = f"<acp_mpi.Map at {numbers.ga:#x}>"
        assert repr(cursor) == f"<acp_mpi.KeyCursor at 1 of {name}>"
        assert repr(numbers.end()) == f"<acp_mpi.KeyCursor at the end of {name}>"
        assert repr(numbers.local) == f"<local part of {name}>"
        for wrong in ("a", 0.5, None):
            with refused(TypeError, "Cursor.advance", repr(wrong)):
                cursor.advance(wrong)
            with refused(TypeError, "Cursor.distance", repr(wrong)):
                cursor.distance(wrong)
    acp.sync()


@pytest.mark.parametrize("kind", [acp.Map, acp.Set, acp.MultiSet])
def test_calls_with_nothing_to_do_are_refused_where_all_is_gone(kind):
    gone, empty = kind({1: 1}, ranks=[right()], rank=acp.rank()), kind()
    again, local, at = kind.attach(gone.ga), gone.local, gone.begin()
    gone.destroy()
    uses = [
        lambda: again.update([]), lambda: again.update(np.array([])), lambda: again.assign(gone),
        lambda: again.merge(gone), lambda: again.merge(empty), lambda: again.move(gone),
        lambda: again.swap(gone), lambda: local.assign(gone), lambda: local.merge(gone),
        lambda: local.move(gone), lambda: at.advance(0), local.size, local.empty, local.clear,
        lambda: list(local),
    ]  # fmt: skip
    if kind is acp.Map:
        uses += [lambda: again.update({}), lambda: again.get_many([])]
        uses += [lambda: again.update([], []), lambda: again.get_many(np.array([]))]
    for use in uses:
        with pytest.raises(acp.AddressError, match="no such container"):
            use()
    empty.destroy()
