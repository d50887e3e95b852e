"""Lists: elements of any size and kind on any rank, and calls that are refused."""

import gc
import pickle

import numpy as np
import pytest
from support import SLOW_ROAD, alone, refused, right, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

MIB = 1 << 20
HUGE = pytest.param(10 * MIB, marks=pytest.mark.slow)
SIZES = [0, 1, 8, 13, 4096, 65_000, 70_000, 2 * MIB, HUGE]


@pytest.mark.parametrize("size", SIZES)
def test_elements_of_any_size_lie_on_any_rank(made, size):
    lists = (
        made(acp.List, dtype=bytes),
        made(acp.List, dtype=object),
        made(acp.List, dtype=f"V{size}"),
    )
    data = np.random.default_rng(size).bytes(size)
    for one in lists:
        if alone():
            for rank in [None, *acp.ranks()]:
                one.push_back(data, rank)
                assert acp.query_rank(one.end().advance(-1).ga) == (rank or 0)
            assert list(one) == [data] * (acp.procs() + 1)
            assert one.front() == one.back() == data
        acp.sync()
        if alone(1):
            assert one.find(data) == one.begin()
            assert one.pop_front() == data
            one.erase(one.begin())
            while one:
                assert one.pop_back() == data
        acp.sync()


def test_numpys_type_of_objects_is_object_too(made):
    for dtype in (object, np.dtype(object)):
        one = made(acp.List, dtype=dtype)
        assert one.dtype is object
        if alone():
            one.append([1])
            assert list(one) == [[1]]
    assert made(acp.List, dtype=bytes).dtype is bytes


@pytest.mark.parametrize("dtype", ["b", "I", "f", "d", "?", "S5", [("a", "i4"), ("b", "f8")]])
def test_elements_come_back_as_python_scalars(made, dtype):
    one = made(acp.List, dtype=dtype)
    if alone(1):
        data = np.ones(5, dtype)
        one.extend(data)
        assert list(one) == data.tolist()


def test_lists_of_objects_take_what_pickles(made):
    one = made(acp.List)
    things = [None, "x", (1, [2, {"y": 3.5}]), {1, 2}, b"", np.int64(4)]
    if alone(1):
        one.extend(things, right())
        assert list(one) == things
        assert things[2] in one
        assert "z" not in one
        with pytest.raises((AttributeError, pickle.PicklingError, TypeError)):
            one.push_back(lambda: 0)
        assert len(one) == len(things)


def test_one_hundred_thousand_elements_go_in_and_out(made):
    one, count = made(acp.List, dtype="q"), 2000 if SLOW_ROAD else 100_000
    if alone(1):
        one.extend(np.arange(count))
        assert list(one) == list(range(count))
        assert [one.pop_front() for _ in range(500)] == list(range(500))
        one.sort(key=lambda x: -x)
        assert list(one) == list(range(count - 1, 499, -1))
        assert one.remove(700) == 1
        one.reverse()
        assert one.begin().distance(one.find(1000)) == 499
        one.erase_range(one.begin().advance(10), one.begin().advance(count - 550))
        assert len(one) == 59


@pytest.mark.slow
def test_a_million_elements_are_sorted(made):
    one = made(acp.List, dtype="q", rank=acp.procs() - 1)
    if alone():
        numbers = np.random.default_rng(1).integers(0, 10**6, 10**6)
        one.extend(numbers)
        one.sort()
        assert list(one) == sorted(numbers.tolist())


@pytest.mark.parametrize(("dtype", "count"), [("q", 3000), (object, 600)])
def test_others_see_all_that_one_extend_brings_or_nothing(made, dtype, count):
    line, ends = made(acp.List, dtype=dtype), made(acp.Counter)
    numbers = range(800)
    acp.sync()
    if acp.rank() == 0:
        for _ in range(tries(count)):
            line.extend(numbers)
            line.clear()
        ends.next()
    else:
        while not ends.read():
            assert line.size() in (0, len(numbers))


def test_a_list_keeps_little_of_what_was_taken_out():
    with acp.List(dtype="q") as line:  # its head is kept for the next list
        assert line.empty()
    before = acp.heap_statistics(acp.rank()).blocks
    with acp.List(dtype="q") as line:
        line.extend(np.arange(2000))
        for _ in range(1000):
            line.pop_front()
        kept = acp.heap_statistics(acp.rank()).blocks - before - 1000
        assert 0 < kept <= 1000 // 8 + 28  # its note is another one
        line.extend(np.arange(kept - 28))
        assert acp.heap_statistics(acp.rank()).blocks - before - 1000 == kept
        while line:
            line.pop_back()
        assert acp.heap_statistics(acp.rank()).blocks - before <= 28
        line.extend(np.arange(2000))
        line.clear()
        assert acp.heap_statistics(acp.rank()).blocks - before == 1
    assert acp.heap_statistics(acp.rank()).blocks == before


def test_it_travels_and_ends_everywhere():
    mine = acp.List(dtype="d", rank=right())
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert acp.List.attach(mine.ga).dtype == np.dtype("d")
    others = acp.allgather(mine)
    others[right()].push_back(2.5)
    acp.sync()
    assert list(mine) == [2.5]
    assert mine.statistics() == type(mine.statistics())(right(), 1, 1)
    acp.sync()
    with mine:
        pass
    mine.destroy()
    acp.sync()
    for use in ("size", "begin", "clear", "pop_back", "reverse", "sort"):
        with refused(acp.AddressError, f"List.{use}"):
            getattr(others[right()], use)()
    with pytest.raises(acp.AddressError):
        others[right()].push_back(1.0)
    acp.sync()


def test_a_list_of_lists(made):
    one = made(acp.List)
    if alone():
        inner = acp.List()
        inner.push_back("inside")
        one.push_back(inner)
    acp.sync()
    assert one.begin().value.begin().value == "inside"
    acp.sync()
    if alone(1):
        one.pop_back().destroy()


def test_an_element_that_does_not_fit_changes_nothing(made):
    one = made(acp.List, dtype="V8")
    if alone(1):
        one.push_back(b"12345678")
        with pytest.raises(ValueError, match="8 bytes"):
            one.push_back(b"1")
        with pytest.raises(ValueError, match="8 bytes"):
            one.extend([b"12345678", b"1"])
        with pytest.raises(acp.RankError, match=r"^List\.push_back: there is no rank"):
            one.push_back(b"12345678", rank=acp.procs())
        with pytest.raises(acp.RankError, match=r"^List\.extend: there is no rank"):
            one.extend([b"12345678"], rank=acp.procs())
        assert list(one) == [b"12345678"]


def test_finalizers_that_read_lists_do_not_mix_up_what_is_being_read(made):
    one, other = made(acp.List, dtype="q"), made(acp.List, dtype="q")
    if alone():
        one.extend(range(300))
        other.extend(range(-900, 0))

        class Garbage:
            def __init__(self):
                self.itself = self

            def __del__(self):
                assert list(other)[:1] == [other.find(-900).value] == [-900]

        thresholds = gc.get_threshold()
        try:
            for more in [*range(8)] * 3:  # objects that are made before garbage is collected
                gc.disable()
                Garbage()
                gc.set_threshold(gc.get_count()[0] + more, 1, 1)
                gc.enable()
                batch = one._walk("test", 0, 0, b"")
                assert batch.values == list(range(300))
                assert one.find(7).value == 7
        finally:
            gc.set_threshold(*thresholds)
            gc.enable()
            gc.collect()
    acp.sync()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_every_call_of_a_list_that_is_gone_is_refused(elsewhere):
    # A list that a call makes for a while, or one made later, may have the address of the old one.
    gone, other = acp.List(rank=right() if elsewhere else None), acp.List()
    gone.extend([1, 2])
    again, first = pickle.loads(pickle.dumps(gone)), gone.begin()
    gone.destroy()
    new = acp.List(rank=right() if elsewhere else None)
    new.extend([3, 4])
    for one in (gone, again):
        for use in (
            lambda one=one: one.assign([]), lambda one=one: one.assign([5]),
            lambda one=one: one.fill(2, 6), lambda one=one: one.extend([]),
            lambda one=one: one.extend(other), lambda one=one: one.swap(again),
            lambda one=one: one.assign_range(new.begin(), new.end()),
            lambda one=one: one.erase_range(first, first),
            lambda one=one: one.merge(again), lambda one=one: one.splice(one.end(), again),
            lambda one=one: one.splice_range(one.end(), other.end(), other.end()),
            lambda one=one: new.splice(new.end(), one), lambda one=one: new.swap(one),
            lambda one=one: one.swap(new), lambda one=one: one.splice(one.end(), new),
        ):  # fmt: skip
            with pytest.raises(acp.AddressError, match="no such container"):
                use()
    assert list(new) == [3, 4]
    assert other.empty()
    new.destroy()
    other.destroy()
    acp.sync()


def test_what_cannot_be_ordered_is_refused_and_nothing_happens(made):
    one, other, empty = made(acp.List), made(acp.List), made(acp.List)
    if alone():
        one.extend([3, "a", None])
        other.extend(["b"])
        for use, name, *values in (
            (one.sort, "sort", "'str' and 'int'"),
            (lambda: one.merge(other), "merge", "'int'"),
            (lambda: one.sort(key=3), "sort", "key 3"),
            (lambda: one.sort(compare=3), "sort", "compare 3"),
            (lambda: one.sort(key=str, compare=lambda a, b: 0), "sort", "key and compare"),
            (lambda: one.merge(other, key=str, compare=lambda a, b: 0), "merge", "key and compare"),
            (lambda: one.sort(compare=lambda a, b: "less"), "sort", "'less'"),
            (lambda: one.unique(compare=lambda a, b: None), "unique", "None"),
            (lambda: one.unique(compare="same"), "unique", "'same'"),
            (lambda: one.extend(5), "extend", 5),
            (lambda: one.assign(None), "assign", None),
        ):  # fmt: skip
            with refused(TypeError, f"List.{name}", *values):
                use()
        for use in (one.sort, one.unique):  # what a function raises is left as it is
            with pytest.raises(TypeError, match=r"^mine$"):
                use(compare=raiser)
        assert list(one) == [3, "a", None]
        assert list(other) == ["b"]
        one.sort(key=str)
        empty.sort()
        assert list(one) == [3, None, "a"]


def raiser(a, b):
    raise TypeError("mine")
