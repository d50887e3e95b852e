"""Vectors and deques, call by call against lists, from changing ranks."""

import array
import itertools
import pickle
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import CAN_LOAD, ROAD, SLOW_ROAD, refused, right, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

HUGE = pytest.param(10 << 20, marks=pytest.mark.slow)
BOTH = pytest.mark.parametrize("kind", [acp.Vector, acp.Deque], ids=["vector", "deque"])


def on(rank, function, *arguments):
    """Return on all ranks what a function returned, or raised, on one."""
    result = None
    if acp.rank() == rank:
        try:
            result = function(*arguments)
        except (IndexError, ValueError) as error:
            result = type(error)
    return acp.bcast(result, root=rank)


# The operations of a sequence against those of a list ---------------------------------------


index = st.integers(-12, 12)
number = st.integers(-(2**63), 2**63 - 1)
numbers = st.lists(number, max_size=20)

STEPS = {
    "push_back": (st.tuples(number), lambda s, x: s.append(x)),
    "append": (st.tuples(number), lambda s, x: s.append(x)),
    "push_front": (st.tuples(number), lambda s, x: s.insert(0, x)),
    "pop_back": (st.tuples(), lambda s: s.pop()),
    "pop_front": (st.tuples(), lambda s: s.pop(0)),
    "pop": (st.tuples(index), lambda s, i: s.pop(i)),
    "insert": (st.tuples(index, number), lambda s, i, x: s.insert(i, x)),
    "extend": (st.tuples(numbers), lambda s, xs: s.extend(xs)),
    "insert_range": (st.tuples(index, numbers), lambda s, i, xs: s.__setitem__(slice(i, i), xs)),
    "at": (st.tuples(index), lambda s, i: s[i]),
    "erase": (st.tuples(index), lambda s, i: s.__delitem__(i)),
    "assign": (st.tuples(numbers), lambda s, xs: s.__setitem__(slice(None), xs)),
    "fill": (
        st.tuples(st.integers(0, 20), number),
        lambda s, n, x: s.__setitem__(slice(None), [x] * n),
    ),
    "clear": (st.tuples(), lambda s: s.clear()),
    "resize": (
        st.tuples(st.integers(0, 20), number),
        lambda s, n, x: s.__setitem__(slice(None), (s + [x] * n)[:n]),
    ),
    "front": (st.tuples(), lambda s: s[0]),
    "back": (st.tuples(), lambda s: s[-1]),
    "reserve": (st.tuples(st.integers(0, 50)), lambda s, n: None),
    "shrink_to_fit": (st.tuples(), lambda s: None),
    "__setitem__": (st.tuples(index, number), lambda s, i, x: s.__setitem__(i, x)),
    "__delitem__": (
        st.tuples(st.builds(slice, st.none() | index, st.none() | index)),
        lambda s, i: s.__delitem__(i),
    ),
}
QUIET = {"insert", "insert_range", "erase"}  # they return cursors
step = st.sampled_from(sorted(STEPS)).flatmap(
    lambda name: st.tuples(st.just(name), STEPS[name][0], st.integers(0, 3))
)


@BOTH
def test_any_operations_of_any_ranks_are_those_of_a_list(kind):
    @settings(max_examples=tries(25))
    @given(st.lists(step, max_size=30), st.integers(0, 3))
    def compare(steps, home):
        first = kind("q", rank=home % acp.procs()) if acp.rank() == 0 else None
        sequence, model = acp.bcast(first), []
        for name, arguments, who in steps:
            expected = SimpleNamespace(value=None)
            try:
                expected.value = STEPS[name][1](model, *arguments)
            except IndexError:
                expected.value = IndexError
            got = on(
                who % acp.procs(),
                lambda name, arguments: (lambda result: None if name in QUIET else result)(
                    getattr(sequence, name)(*arguments)
                ),
                name,
                arguments,
            )
            assert got == expected.value, name
            assert sequence.tolist() == model, name
            assert len(sequence) == len(model) <= sequence.capacity()
            acp.sync()
        if acp.rank() == acp.procs() - 1:
            sequence.destroy()
        acp.sync()

    compare()


@BOTH
def test_slices_are_those_of_a_list(kind, made):
    sequence = made(kind, int, rank=acp.procs() - 1)
    if acp.rank() == 0:
        for a, b in itertools.product([None, -30, -3, 0, 4, 30], repeat=2):
            model = list(range(10))
            sequence.assign(model[3:])
            sequence.insert_range(0, model[:3])
            assert sequence[a:b].tolist() == model[a:b]
            assert sequence[a:b:2].tolist() == model[a:b:2]
            sequence[a:b] = [7, 8, 9]
            model[a:b] = [7, 8, 9]
            assert sequence.tolist() == model
            del sequence[a:b]
            del model[a:b]
            assert list(sequence) == model
        with refused(ValueError, f"{kind.__name__}[]", "step 2"):
            sequence[::2] = [1]


# Elements -----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("size", [0, 1, 8, 13, 4096, 2 << 20, HUGE])
def test_elements_of_any_size_arrive_whole(kind, size, made):
    sequence = made(kind, f"V{size}", rank=acp.procs() - 1)
    if acp.rank() == 0:
        one, two, three = (bytes([i]) * size for i in (1, 2, 3))
        sequence.push_back(two)
        sequence.push_front(one)
        sequence[1] = three
        sequence.insert(1, two)
        assert sequence.at(1) == two
        assert sequence.tolist() == [one, two, three]
        assert (sequence.pop_front(), sequence.pop_back()) == (one, three)
        assert len(sequence) == 1
        with pytest.raises(ValueError, match=f"{size} bytes"):
            sequence.append(b"x" * (size + 1))
        with pytest.raises(TypeError, match="give a buffer"):
            sequence.append(size)  # of which bytes() makes so many zeros
        sequence.append(memoryview(three))
        assert sequence.pop() == three


@pytest.mark.parametrize("letter", "bBhHiIqQfd?")
def test_plain_types_come_back_as_python_s_numbers(letter, made):
    sequence = made(acp.Vector, letter)
    values = [False, True] if letter == "?" else [0, 1, 100]
    if acp.rank() == acp.procs() - 1:
        sequence.extend(values)
        sequence.extend(array.array("B" if letter == "?" else letter, values))
        sequence.extend(np.array(values, sequence.dtype))
        sequence.push_back(values[1])
        assert sequence.tolist() == [*values, *values, *values, values[1]]
        assert type(sequence.at(1)) is type(struct.unpack(letter, struct.pack(letter, 1))[0])
        if letter in "bBhHiIqQ":
            low, high = np.iinfo(sequence.dtype).min, np.iinfo(sequence.dtype).max
            sequence.assign([low, high])
            assert (sequence.at(0), sequence.at(1)) == (low, high)
            for beyond in (low - 1, high + 1):
                with pytest.raises(OverflowError):
                    sequence.push_back(beyond)
                with pytest.raises(OverflowError):
                    sequence.extend([beyond])
            assert len(sequence) == 2


def test_structures_complex_and_text_are_elements_too(made):
    point = np.dtype([("x", ">i4"), ("name", "S3"), ("matrix", "f8", (2, 2))])
    vector = made(acp.Vector, point)
    value = (5, b"abc", np.ones((2, 2)))
    if acp.rank() == acp.procs() - 1:
        vector.append(value)
        assert vector.dtype == point
        assert vector[0][:2] == (5, b"abc")
        assert vector[:]["matrix"].sum() == 4
    other = made(acp.Vector, complex)
    if acp.rank() == 0:
        other.extend(np.array([1j, 2]))
        assert other.tolist() == [1j, 2]
        with refused(TypeError, "Vector.extend"):
            made_of_text = np.array(["x"])
            other.extend(made_of_text)
        with pytest.raises(TypeError):
            acp.Vector(object)


def test_long_arrays_go_in_and_out_in_one_operation(made):
    vector = made(acp.Vector, np.int64, rank=acp.procs() - 1)
    values = np.arange(100_000)
    if acp.rank() == 0:
        vector.extend(values)
        vector.extend(values[::2])
        vector[10:90_010] = values[:90_000]
        assert np.array_equal(vector[10:90_010], values[:90_000])
        assert np.array_equal(np.asarray(vector)[100_000:], values[::2])
        del vector[5:149_995]
        assert len(vector) == 10


# On other ranks -----------------------------------------------------------------------------


@BOTH
def test_elements_go_from_rank_to_rank_without_the_caller(kind, made):
    source = made(kind, "d", rank=0)
    sink = made(kind, "d", rank=acp.procs() - 1)
    if acp.rank() == acp.procs() // 2:
        source.extend(np.arange(20_000.0))
        sink.append(-1)
        sink.extend(source)
        assert np.array_equal(sink[1:], source[:])
        sink.assign_range(source.begin().advance(5), source.begin().advance(8))
        assert sink.tolist() == [5, 6, 7]
        sink.insert_range(1, source.begin(), source.begin().advance(2))
        assert sink.tolist() == [5, 0, 1, 6, 7]
        sink.erase_range(1, 3)
        copy = sink.duplicate(0)
        assert copy.tolist() == [5, 6, 7]
        copy.swap(source)
        assert source.tolist() == [5, 6, 7]
        assert len(copy) == 20_000
        copy.destroy()
        with refused(TypeError, f"{kind.__name__}.swap", "int64"):
            source.swap(kind("q"))


@BOTH
def test_pushes_of_all_ranks_are_all_there(kind, made):
    sequence = made(kind, "q", rank=acp.procs() - 1)
    count, taken = 50 if SLOW_ROAD else 2000, []
    for i in range(count):
        sequence.push_back(i * acp.procs() + acp.rank())
        if i % 3 == 0:
            sequence.push_front(-1)
            taken.append(sequence.pop_front())
    acp.sync()
    everything = [*sequence, *(x for part in acp.allgather(taken) for x in part)]
    minus = acp.procs() * len(taken)
    assert sorted(everything) == [-1] * minus + list(range(count * acp.procs()))


@BOTH
def test_slices_from_the_end_are_of_one_instant(kind, made):
    sequence = made(kind, "q", maker=-1)
    for i in range(30 if SLOW_ROAD else 1000):
        sequence.extend([i * acp.procs() + acp.rank()] * 3)
        last = sequence[-3:].tolist()
        assert len(last) == 3, last
        assert len(set(last)) == 1, last
        if i % 2:
            sequence[-3:] = [last[0]] * 3
            del sequence[-3:]
        assert len(sequence) % 3 == 0
    acp.sync()
    assert all(x == y == z for x, y, z in zip(*[iter(sequence)] * 3, strict=True))
    again = pickle.loads(pickle.dumps(sequence))
    again.size = None  # nor do they ask for it first, which is rarely seen
    assert len(again[-3:]) == 3
    acp.sync()
    if acp.rank() == 0:
        again[-2:] = again[-2:]
        again[2:5] = again[2:5]
        del again[-1:], again[:1], again[1:2]
        assert len(sequence) % 3 == 0


@pytest.mark.skipif(not CAN_LOAD, reason="on the node only")
def test_a_view_is_the_memory_of_the_elements(made):
    vector = made(acp.Vector, "i", 5, rank=0)
    if ROAD != "owner" and acp.rank() == acp.procs() - 1:
        vector.view()[2] = 7
        assert vector.tolist() == [0, 0, 7, 0, 0]


def test_a_reader_never_sees_half_of_a_change(made):
    vector = made(acp.Vector, "q", 64)
    rounds = 20 if SLOW_ROAD else 500
    if acp.rank() == 0:
        for i in range(1, rounds):
            if i % 3 == 0:
                vector.assign([i] * (64 + i % 7))
            elif i % 3 == 1:
                vector.fill(64 + i % 50, i)
            else:
                vector[:] = np.full(500, i)
        vector.fill(1, -1)
    else:
        while (seen := vector.tolist())[0] != -1:
            assert len(seen) >= 64
            assert len(set(seen)) == 1


# Cursors, handles, ends ---------------------------------------------------------------------


@BOTH
def test_cursors_are_indices(kind, made):
    sequence = made(kind, "q", rank=acp.procs() - 1)
    if acp.rank() == 0:
        sequence.extend([1, 2, 3, 4])
        begin, end = sequence.begin(), sequence.end()
        assert begin.distance(end) == 4
        assert end.advance(-1).value == 4
        begin.advance(1).value = 20
        after = sequence.erase(begin)
        assert after == begin
        assert after.value == 20
        assert sequence.insert(after.advance(1), 9).value == 9
        assert sequence.erase_range(begin, begin.advance(2)).value == 3
        data = bytearray(8)
        acp.get(begin.ga, data)
        assert data == (3).to_bytes(8, "little")
        with pytest.raises(IndexError):
            _ = sequence.end().value
        with refused(IndexError, "Cursor.advance", -1):
            begin.advance(-1)
        with pytest.raises(TypeError):
            begin.advance(1.5)


@BOTH
def test_cursors_that_come_back_are_where_it_happened(kind, made):
    sequence = made(kind, "q", rank=acp.procs() - 1)
    if acp.rank() == 0:
        sequence.extend([10, 20, 30])
        assert sequence.insert(-1, 25).value == 25
        assert sequence.insert(100, 99).value == 99
        assert sequence.insert(2**70, 100).value == 100
        assert sequence.insert(-(2**70), 5) == sequence.begin()
        assert sequence.tolist() == [5, 10, 20, 25, 30, 99, 100]
        assert sequence.erase(-1) == sequence.end()
        assert sequence.erase(-2).value == 99
        assert sequence.insert_range(-1, [1, 2]).value == 1
        assert sequence.insert_range(100, np.array([3, 4])).value == 3
        assert sequence.insert_range(50, sequence.begin(), sequence.end()).index == 9
        assert sequence.insert_ga(-1, sequence.begin().ga).index == len(sequence) - 2
        assert sequence.insert_range_ga(99, sequence.begin().ga, 2).index == len(sequence) - 2
        with refused(IndexError, f"{kind.__name__}.erase"):
            sequence.erase(2**70)


@BOTH
def test_ranges_of_either_sign_are_those_of_a_list(kind, made):
    sequence = made(kind, "q", rank=acp.procs() - 1)
    if acp.rank() == 0:
        for first, last in itertools.product(range(-9, 10), repeat=2):
            model = list(range(8))
            sequence.assign(model)
            begin, end = (i + 8 if i < 0 else i for i in (first, last))
            if last < 0 <= first and end < 0:
                begin = -1  # nor is there one at `last`
            if begin < 0 or begin > 8 or (begin < end and end > 8):
                with refused(IndexError, f"{kind.__name__}.erase_range"):
                    sequence.erase_range(first, last)
            else:
                del model[begin : max(begin, end)]
                assert sequence.erase_range(first, last).index == begin, (first, last)
            assert sequence.tolist() == model, (first, last)


@BOTH
def test_places_that_are_none_are_refused(kind, made):
    a, b = made(kind, "q"), made(kind, "q")
    name = kind.__name__
    if acp.rank() == acp.procs() - 1:
        a.extend([1, 2, 3, 4, 5])
        b.extend([6])
        for method, *rest in (("insert", 1), ("erase",), ("erase_range", 1), ("insert_range", [1])):
            with refused(ValueError, f"{name}.{method}", a.begin()):
                getattr(b, method)(a.begin(), *rest)
            with refused(TypeError, f"{name}.{method}", 0.5):
                getattr(b, method)(0.5, *rest)
        for use, value in (
            (lambda: b.at(1.0), 1.0), (lambda: b.pop(0.0), 0.0), (lambda: b["a"], "a"),
            (lambda: b[None], None), (lambda: b[1.0], 1.0), (lambda: b[[0, 1]], [0, 1]),
            (lambda: b[...], ...), (lambda: b[1.0:], 1.0), (lambda: b.resize(5.0), 5.0),
            (lambda: b.fill(1.5, 0), 1.5), (lambda: b.swap(3), 3), (lambda: kind("q", 1.5), 1.5),
            (lambda: b.insert_range(0, 1, b.end()), 1), (lambda: b.insert_ga("x", b.ga), "x"),
            (lambda: b.__setitem__("k", 1), "k"), (lambda: b.__delitem__(None), None),
        ):  # fmt: skip
            with refused(TypeError, "|".join([name, *(f"{name}.{m}" for m in (
                "at", "pop", "resize", "fill", "swap", "insert_range", "insert_ga")), f"{name}[]"]),
                repr(value)):  # fmt: skip
                use()
        for use in (lambda: b[2**70], lambda: b.at(-(2**70)), lambda: b[2**63 - 1]):
            with refused(IndexError, f"{name}[]|{name}.at"):
                use()
        assert b[: 2**70].tolist() == [6]
        for method, *rest in (("fill", -1, 0), ("resize", -1)):
            with refused(ValueError, f"{name}.{method}", -1):
                getattr(b, method)(*rest)
        assert (len(a), b.tolist()) == (5, [6])


@BOTH
def test_values_of_another_type_are_refused_in_the_same_way_everywhere(kind, made):
    name = kind.__name__
    for letter, wrong in (("q", 1.5), ("B", "x"), ("d", "x"), ("Q", 1.5), ("f", None)):
        sequence = made(kind, letter)
        if acp.rank() == 0:
            for method in ("push_back", "push_front", "extend", "assign"):
                with refused(TypeError, f"{name}.{method}", repr(wrong)):
                    getattr(sequence, method)([wrong] if method in ("extend", "assign") else wrong)
            with refused(TypeError, f"{name}.insert", repr(wrong)):
                sequence.insert(0, wrong)
            with refused(TypeError, f"{name}.fill", repr(wrong)):
                sequence.fill(3, wrong)
            assert sequence.empty()
    small = made(kind, "b")
    if acp.rank() == 0:
        for values in ([300], np.array([300]), np.array([1, -129]), [-129]):
            with refused(OverflowError, f"{name}.extend"):
                small.extend(values)
        with refused(OverflowError, f"{name}.push_back", 300):
            small.push_back(300)
        small.extend(np.array([127, -128]))
        assert small.tolist() == [127, -128]


@BOTH
def test_types_without_a_size_or_with_dimensions_are_refused(kind):
    for dtype in (str, bytes, "S", "U", "S0"):
        with refused(TypeError, kind.__name__, repr(dtype), "object", "S16"):
            kind(dtype)
        with refused(TypeError, "Map", repr("S")):
            acp.Map(key="S")
        with refused(TypeError, "Map", repr("U")):
            acp.Map(key="q", value="U")
    for dtype in (str, "S"):
        with refused(TypeError, "List", repr(dtype), "object"):
            acp.List(dtype)
    with refused(TypeError, kind.__name__, "(3,)i4"):
        kind("(3,)i4")
    with refused(TypeError, kind.__name__, None):
        kind(None)
    with refused(TypeError, "Map", None):
        acp.Map(key=None)


@BOTH
def test_handles_travel_and_use_after_destroy_is_an_error_everywhere(kind):
    mine = kind("h", 3, rank=right())
    others = acp.allgather(mine)
    theirs = pickle.loads(pickle.dumps(others[right()]))
    assert theirs == others[right()]
    assert theirs.tolist() == [0, 0, 0]
    again = kind.attach(theirs.ga)
    assert (again, again.dtype) == (theirs, np.dtype("h"))
    assert f"{theirs.ga:#x}" in repr(theirs)
    other = acp.Deque if kind is acp.Vector else acp.Vector
    with refused(acp.AddressError, f"{other.__name__}.attach", kind.__name__):
        other.attach(theirs.ga)
    acp.sync()
    mine.destroy()
    mine.destroy()
    acp.sync()
    new = kind("q", rank=right())  # it may have the address of the old one
    for use in (
        lambda: theirs.append(1), lambda: theirs.at(0), theirs.size, theirs.pop_back,
        theirs.destroy, theirs.clear, lambda: theirs.extend([1] * 50_000), again.tolist,
    ):  # fmt: skip
        with pytest.raises(acp.AddressError, match="no such container"):
            use()
    acp.sync()
    assert len(new) == 0
    new.destroy()


def test_attach_refuses_what_is_no_container():
    word = acp.malloc(4096)
    for ga in (word, acp.query_starter_ga(0), word + 8):
        with pytest.raises(acp.AddressError):
            acp.Vector.attach(ga)
    acp.free(word)


def test_nothing_is_left_in_the_heap():
    with acp.Vector("q") as first, acp.Vector("q"):  # heads are kept for the next of their kind
        assert first.empty()
    used = acp.heap_statistics(acp.rank()).used
    for _ in range(3):
        with acp.Vector("q") as vector:
            vector.extend(np.arange(50_000))
            vector.insert(3, 1)
            vector[5:20_000] = vector[6:20_001]
            vector.duplicate().destroy()
            vector.assign(vector)
            with pytest.raises(IndexError):
                vector.splice("test", 10**6, 1, 0, 4, b"")
    assert acp.heap_statistics(acp.rank()).used == used


def test_statistics_say_how_much_there_is(made):
    vector = made(acp.Vector, "d", 10, rank=acp.procs() - 1)
    vector_statistics = vector.statistics()
    assert (vector_statistics.rank, vector_statistics.size) == (acp.procs() - 1, 10)
    assert vector_statistics.capacity * 8 == vector_statistics.bytes >= 80


@BOTH
def test_room_that_nobody_needs_goes_back(kind, made):
    row = made(kind, "q", rank=acp.procs() - 1)
    if acp.rank() == 0:
        row.extend(np.arange(1000))
        row.pop_front()
        row.resize(10)
        assert row.capacity() >= 1000
        row.shrink_to_fit()
        assert (row.capacity(), row.tolist()) == (10, list(range(1, 11)))
        row.resize(12)
        assert row.tolist() == [*range(1, 11), 0, 0]
        row.resize(0)
        row.shrink_to_fit()
        assert (row.capacity(), row.statistics().bytes) == (0, 0)
        row.push_back(7)
        assert (row.front(), row.back()) == (7, 7)
        with refused(ValueError, f"{kind.__name__}.resize", -1):
            row.resize(-1)


def test_what_does_not_fit_is_refused_and_nothing_happens(made):
    vector = made(acp.Vector, "q", 3)
    if acp.rank() == acp.procs() - 1:
        for n in (2**40, 2**60, 2**63 - 1):
            with pytest.raises(acp.HeapFullError):
                vector.fill(n, 1)
            with pytest.raises(acp.HeapFullError):
                vector.reserve(n)
        assert vector.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("base", "calls"),
    [
        (acp.Vector, (("push_back", 1), ("pop_back",), ("size",), ("tolist",), ("extend", [1]))),
        (acp.Deque, (("push_front", 1), ("at", 0), ("clear",))),
        (acp.List, (("push_back", 1), ("pop_back",), ("size",), ("begin",), ("extend", [1]))),
        (acp.Map, (("get", 1), ("insert", 1, 1), ("size",), ("update", [1], [1]), ("clear",))),
        (acp.Set, (("remove", 1), ("retrieve", 1), ("size",))),
        (acp.MultiSet, (("insert", 1), ("retrieve", 1))),
        (acp.Counter, (("next",), ("read",))),
    ],
)
def test_a_class_that_does_not_call_init_has_no_container(base, calls):
    hollow = type("Hollow", (base,), {"__init__": lambda self: None})()
    for name, *arguments in calls:
        with pytest.raises(acp.AddressError):
            getattr(hollow, name)(*arguments)
