"""Two lists, and several ranks in one: splice, merge, swap, copies."""

import numpy as np
import pytest
from support import SLOW_ROAD, alone, refused, right

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def test_splices_leave_bytes_where_they_are(made):
    last = acp.procs() - 1
    one, other = made(acp.List, dtype=bytes, rank=0), made(acp.List, dtype=bytes, rank=last)
    if alone(1):
        for rank in acp.ranks():
            other.push_back(b"%d" % rank * 1000, rank)
        places = [other.begin().advance(i).ga for i in range(len(other))]
        one.push_back(b"end")
        one.splice(one.begin(), other)
        assert other.empty()
        assert [one.begin().advance(i).ga for i in range(len(one) - 1)] == places
        other.splice(other.end(), one.begin().advance(acp.procs() - 1))
        assert other.pop_front() == b"%d" % last * 1000
        assert len(one) == acp.procs()


def test_lists_of_other_types_are_refused(made):
    one, other = made(acp.List, dtype="q"), made(acp.List)
    if alone(1):
        for method in (one.swap, one.merge, lambda x: one.splice(one.begin(), x)):
            with pytest.raises(TypeError):
                method(other)
            with pytest.raises(TypeError, match="not a List; give one"):
                method([1])
        for use in (
            lambda: one.splice_range(one.end(), 1, 2),
            lambda: one.assign_range(1, one.end()),
        ):
            with pytest.raises(TypeError, match=r"1 is (no|not a) cursor; begin"):
                use()


def test_merged_lists_are_sorted_and_equal_elements_keep_their_order(made):
    one, other = made(acp.List, rank=0), made(acp.List, rank=acp.procs() - 1)
    if alone(1):
        one.assign([(1, "a"), (3, "a"), (3, "b")])
        other.assign([(0, "c"), (3, "c"), (4, "c")])
        one.merge(other, compare=lambda a, b: a[0] - b[0])
        assert list(one) == [(0, "c"), (1, "a"), (3, "a"), (3, "b"), (3, "c"), (4, "c")]
        assert other.empty()
        assert one.unique(lambda a, b: a[0] - b[0]) == 2
        assert [x for x, _ in one] == [0, 1, 3, 4]


@pytest.mark.parametrize("rank", [0, -1])
def test_ranges_and_duplicates_are_copies(made, rank):
    one, other = (
        made(acp.List, dtype=bytes, rank=0),
        made(acp.List, dtype=bytes, rank=rank % acp.procs()),
    )
    if alone(1):
        data = [b"small", b"x" * 100_000, b"", b"far", b"last"]
        for i, element in enumerate(data):
            one.push_back(element, None if i % 2 else right())
        other.assign_range(one.begin().advance(), one.end().advance(-1))
        assert list(other) == data[1:-1]
        with one.duplicate() as copy:
            assert list(copy) == data
            assert copy.statistics().rank == acp.rank()
            one.clear()
            assert list(copy) == data
            other.assign(copy, right())
        assert list(other) == data


def test_nothing_is_lost_or_doubled_when_all_push_and_pop(made):
    one, count = made(acp.List, dtype="q"), 50 if SLOW_ROAD else 2000
    mine, taken = [], []
    for i in range(count):
        mine.append(acp.rank() * count + i)
        (one.push_back if i % 2 else one.push_front)(mine[-1], None if i % 3 else right())
        if i % 2:
            taken.append(one.pop_front() if i % 4 == 1 else one.pop_back())
    acp.sync()
    everything = sorted(x for part in acp.allgather(taken) for x in part) + list(one)
    assert sorted(everything) == list(range(count * acp.procs()))


def test_a_sort_of_a_list_that_changed_meanwhile_does_nothing(made):
    one = made(acp.List, dtype="q")
    if alone(1):
        one.extend([3, 1, 2])

        def key(x):
            one.push_back(7)
            return x

        with refused(RuntimeError, "List.sort"):
            one.sort(key=key)
        assert list(one) == [3, 1, 2, 7, 7, 7]
        with pytest.raises(TypeError):
            one.sort(key=abs, compare=lambda a, b: a - b)


def test_all_ranks_swap_and_splice_between_two_lists(made):
    one, other = made(acp.List, dtype="q"), made(acp.List, dtype="q")
    count = 20 if SLOW_ROAD else 300
    if alone():
        one.extend(range(100))
    acp.sync()
    mine = (one, other) if acp.rank() % 2 else (other, one)
    for i in range(count):
        if i % 3 == 0:
            mine[0].swap(mine[1])
        else:
            mine[0].splice(mine[0].end(), mine[1])
    acp.sync()
    assert sorted([*one, *other]) == list(range(100))
    acp.sync()


def test_one_element_is_moved_whatever_comes_behind_it_meanwhile(made):
    one, other = made(acp.List, dtype="q"), made(acp.List, dtype="q")
    count = 20 if SLOW_ROAD else 3000
    if alone():
        for i in range(count):
            other.splice(other.end(), one.insert(one.end(), -i - 1))
    else:
        for i in range(count):
            at = one.insert(one.end(), i)
            if i % 2:
                one.erase(at)
    acp.sync()
    assert list(other) == [-i - 1 for i in range(count)]
    assert sorted(one) == sorted(list(range(0, count, 2)) * (acp.procs() - 1))
    acp.sync()


def test_an_array_has_the_same_elements_on_every_rank(made):
    one, two = made(acp.List, dtype="i4"), made(acp.List, dtype=np.dtype("V70000"))
    if alone():
        rows = np.arange(6, dtype=">i8").reshape(2, 3)
        for rank in (None, *acp.ranks()):
            one.clear()
            one.extend(rows, rank)
            assert list(one) == list(range(6))
            with refused(TypeError, "List.extend", "float64"):
                one.extend(np.ones(3), rank)
        two.extend(np.zeros((2, 2), "V70000"))
        assert len(two) == 4


def test_an_array_of_a_list_has_its_elements(made):
    kind = np.dtype([("a", "i4"), ("b", "f8", 2)])
    numbers, objects, structures = (
        made(acp.List, dtype="i2"),
        made(acp.List),
        made(acp.List, dtype=kind),
    )
    if alone(1):
        assert np.asarray(numbers).shape == (0,)
        numbers.extend([1, 2, 3], right())
        array = np.asarray(numbers)
        assert (array.dtype, array.tolist()) == (np.dtype("i2"), [1, 2, 3])
        assert np.asarray(numbers, float).dtype == float
        structures.push_back((1, (2, 3)))
        assert np.asarray(structures) == np.array([(1, (2, 3))], kind)
        objects.extend(["a", "b"])
        assert np.asarray(objects).tolist() == ["a", "b"]
        with refused(ValueError, "List", "copy"):
            np.array(numbers, copy=False)
