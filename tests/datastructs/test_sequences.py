"""Vectors and deques, call by call against lists, from changing ranks."""

import itertools
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import CAN_LOAD, EACH_SEQUENCE, ROAD, SLOW_ROAD, refused, right, tries

import acp_mpi as acp
from acp_mpi.engine import _engine

pytestmark = pytest.mark.mpi

HUGE = pytest.param(10 << 20, marks=pytest.mark.slow)


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


@EACH_SEQUENCE
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


@EACH_SEQUENCE
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


# On other ranks -----------------------------------------------------------------------------


@EACH_SEQUENCE
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


@EACH_SEQUENCE
def test_ctrl_c_while_elements_are_swapped_loses_none(kind, made, monkeypatch):
    one, other = made(kind, "q", rank=0), made(kind, "q", rank=acp.procs() - 1)
    copy_all, copies = _engine.copy_all, []

    def interrupted(function, moves):
        copy_all(function, moves)
        copies.append(function)
        if len(copies) == last:
            raise KeyboardInterrupt

    if acp.rank() == acp.procs() // 2:
        one.extend([1, 2, 3])
        other.extend([4, 5])
        monkeypatch.setattr(_engine, "copy_all", interrupted)
        for last in range(1, 5):
            copies.clear()
            before = [one.tolist(), other.tolist()]
            try:
                one.swap(other)
            except KeyboardInterrupt:
                assert [one.tolist(), other.tolist()] == before
            else:
                assert [other.tolist(), one.tolist()] == before
                assert len(copies) < last
    acp.sync()


@EACH_SEQUENCE
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


@EACH_SEQUENCE
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
    vector = made(acp.Vector, "i", size=5, rank=0)
    if ROAD != "owner" and acp.rank() == acp.procs() - 1:
        vector.view()[2] = 7
        assert vector.tolist() == [0, 0, 7, 0, 0]


def test_a_reader_never_sees_half_of_a_change(made):
    vector = made(acp.Vector, "q", size=64)
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


# Handles, ends -------------------------------------------------------------------------------


@EACH_SEQUENCE
def test_handles_travel_and_use_after_destroy_is_an_error_everywhere(kind):
    mine = kind("h", size=3, rank=right())
    others = acp.allgather(mine)
    theirs = pickle.loads(pickle.dumps(others[right()]))
    assert theirs == others[right()]
    assert theirs.tolist() == [0, 0, 0]
    again = kind.attach(theirs.ga)
    assert (again, again.dtype) == (theirs, np.dtype("h"))
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
        lambda: theirs.swap(again), lambda: theirs.extend([]),
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
                vector._replace("test", 10**6, 1, 0, 4, b"")
    assert acp.heap_statistics(acp.rank()).used == used


def test_statistics_say_how_much_there_is(made):
    vector = made(acp.Vector, "d", size=10, rank=acp.procs() - 1)
    vector_statistics = vector.statistics()
    assert (vector_statistics.rank, vector_statistics.size) == (acp.procs() - 1, 10)
    assert vector_statistics.capacity * 8 == vector_statistics.bytes >= 80


@EACH_SEQUENCE
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
    vector = made(acp.Vector, "q", size=3)
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
