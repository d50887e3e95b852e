"""Lists, call by call against lists of Python, from changing ranks."""

import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import SLOW_ROAD, refused, right

import acp_mpi as acp

pytestmark = pytest.mark.mpi

MIB = 1 << 20
EXAMPLES = 5 if SLOW_ROAD else 25
SIZES = [0, 1, 8, 13, 4096, 65_000, 70_000, 10 * MIB]


@pytest.fixture
def made():
    """Make lists on the first rank for all; afterwards they are destroyed and nothing is left."""
    acp.sync()
    before = acp.allgather(used())
    lists = []

    def make(*arguments, **keywords):
        mine = acp.List(*arguments, **keywords) if acp.rank() == 0 else None
        lists.append(acp.bcast(mine))
        return lists[-1]

    yield make
    acp.sync()
    if acp.rank() == 0:
        for one in lists:
            one.destroy()
    acp.sync()
    left = acp.allgather(used())
    assert all(now <= was + len(lists) + 2 for now, was in zip(left, before, strict=True))


def used():
    """Return how many blocks this rank's heap has given out; heads of lists are used again."""
    return acp.heap_statistics().blocks


def alone(rank=0):
    """Return whether this rank acts; the others wait at the end of the test."""
    return acp.rank() == rank % acp.procs()


# Against a list -------------------------------------------------------------------------------

value = st.integers(-(2**63), 2**63 - 1)
values = st.lists(value, max_size=12)
place = st.integers(0, 30)
STEPS = st.one_of(
    *(st.tuples(st.just(name), value, place, place) for name in (
        "push_back", "push_front", "pop_back", "pop_front", "insert", "erase", "erase_range",
        "remove", "reverse", "sort", "unique", "clear", "splice", "splice_range", "swap", "fill",
        "move",
    )),
    *(st.tuples(st.just(name), values, place, place) for name in ("extend", "assign", "merge")),
)  # fmt: skip


def cursor(one, index):
    return one.begin().advance(index)


def perform(step, one, other, rank):
    """Do a step with two lists of the library; `rank` is where elements go."""
    name, x, i, j = step
    i, j = i % (len(one) + 1), j % (len(other) + 1)
    match name:
        case "push_back" | "push_front":
            getattr(one, name)(x, rank)
        case "pop_back" | "pop_front":
            with pytest.raises(IndexError) if not one else open("/dev/null"):
                getattr(one, name)()
        case "insert":
            assert one.insert(cursor(one, i), x, rank).value == x
        case "erase" if i < len(one):
            one.erase(cursor(one, i))
        case "erase_range":
            one.erase_range(cursor(one, i // 2), cursor(one, i))
        case "remove":
            one.remove(x)
        case "reverse":
            one.reverse()
        case "sort":
            one.sort(reverse=bool(i % 2))
        case "unique":
            one.unique()
        case "clear":
            one.clear()
        case "splice":
            one.splice(cursor(one, i), other)
        case "splice_range":
            one.splice_range(cursor(one, i), cursor(other, j // 2), cursor(other, j))
        case "move" if i < len(one):
            one.splice(cursor(one, i // 2), cursor(one, i))
        case "swap":
            one.swap(other)
        case "fill":
            one.fill(i, x, rank)
        case "extend" | "assign":
            getattr(one, name)(x, rank)
        case "merge":
            one.sort()
            other.assign(sorted(x), rank)
            one.merge(other)


def foresee(step, one, other):
    """Do the same with two lists of Python."""
    name, x, i, j = step
    i, j = i % (len(one) + 1), j % (len(other) + 1)
    match name:
        case "push_back":
            one.append(x)
        case "push_front":
            one.insert(0, x)
        case "pop_back" if one:
            one.pop()
        case "pop_front" if one:
            one.pop(0)
        case "insert":
            one.insert(i, x)
        case "erase" if i < len(one):
            del one[i]
        case "erase_range":
            del one[i // 2 : i]
        case "remove":
            one[:] = [y for y in one if y != x]
        case "reverse":
            one.reverse()
        case "sort":
            one.sort(reverse=bool(i % 2))
        case "unique":
            one[:] = [y for k, y in enumerate(one) if not k or y != one[k - 1]]
        case "clear":
            one.clear()
        case "splice":
            one[i:i] = other
            other.clear()
        case "splice_range":
            one[i:i] = other[j // 2 : j]
            del other[j // 2 : j]
        case "move" if i < len(one):
            one.insert(i // 2, one.pop(i))
        case "swap":
            one[:], other[:] = other[:], one[:]
        case "fill":
            one[:] = [x] * i
        case "extend":
            one += x
        case "assign":
            one[:] = x
        case "merge":
            one[:] = sorted(one + x)
            other.clear()


@pytest.mark.parametrize("dtype", ["q", object])
@pytest.mark.parametrize("apart", [False, True], ids=["beside", "apart"])
def test_any_steps_from_changing_ranks_are_those_of_a_list(made, dtype, apart):
    @settings(max_examples=EXAMPLES)
    @given(steps=st.lists(STEPS, max_size=12), seed=st.integers(0, 1000))
    def steps_agree(steps, seed):
        chance = random.Random(seed)
        one.clear()
        acp.sync()
        other.clear()
        acp.sync()
        model = [], []
        for step in steps:
            actor, rank = chance.randrange(acp.procs()), chance.choice([None, *acp.ranks()])
            if alone(actor):
                perform(step, one, other, rank)
            foresee(step, *model)
            acp.sync()
            if alone(actor + 1):
                assert [list(one), list(other)] == [*model]
                assert list(reversed(one)) == model[0][::-1]
                assert len(one) == len(model[0])
            acp.sync()

    one, other = made(dtype, rank=0), made(dtype, rank=acp.procs() - 1 if apart else 0)
    steps_agree()


@pytest.mark.parametrize("size", SIZES)
def test_elements_of_any_size_lie_on_any_rank(made, size):
    lists = made(bytes), made(object), made(f"V{size}")
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


@pytest.mark.parametrize("dtype", ["b", "I", "f", "d", "?", "S5", [("a", "i4"), ("b", "f8")]])
def test_elements_come_back_as_python_scalars(made, dtype):
    one = made(dtype)
    if alone(1):
        data = np.ones(5, dtype)
        one.extend(data)
        assert list(one) == data.tolist()


def test_lists_of_objects_take_what_pickles(made):
    one = made()
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
    one, count = made("q"), 2000 if SLOW_ROAD else 100_000
    if alone(1):
        one.extend(np.arange(count))
        assert list(one) == list(range(count))
        assert [one.pop_front() for _ in range(500)] == list(range(500))
        one.sort(key=lambda x: -x)
        assert list(one) == list(range(count - 1, 499, -1))
        assert one.remove(700) == 1
        one.reverse()
        assert one.begin().distance(one.find(1000)) == 499
        one.erase_range(cursor(one, 10), cursor(one, count - 550))
        assert len(one) == 59


@pytest.mark.slow
def test_a_million_elements_are_sorted(made):
    one = made("q", rank=acp.procs() - 1)
    if alone():
        numbers = np.random.default_rng(1).integers(0, 10**6, 10**6)
        one.extend(numbers)
        one.sort()
        assert list(one) == sorted(numbers.tolist())


# Cursors --------------------------------------------------------------------------------------


def test_a_cursor_stays_at_its_element_until_that_is_taken_out(made):
    one = made()
    if alone(1):
        one.extend(["b", "c", "d"])
        at = one.find("c")
        one.push_front("a")
        one.insert(at, "bb")
        one.erase(one.begin().advance())
        one.sort(reverse=True)
        assert at.value == "c"
        assert at.advance().value == "bb"
        assert at.advance(-1).value == "d"
        assert one.erase(at).value == "bb"
        uses = [
            lambda: at.value,
            lambda: at.ga,
            lambda: one.erase(at),
            lambda: at.advance(),
            lambda: one.insert(at, 0),
            lambda: one.splice_range(at, one.begin(), one.end()),
        ]
        for use in uses:
            with pytest.raises(acp.AddressError):
                use()
        one.push_back("new")  # where the other was
        with refused(acp.AddressError, "Cursor.value"):
            _ = at.value
        one.clear()
        assert one.begin() == one.end()


def test_cursors_end_at_the_ends(made):
    one = made("q")
    if alone(1):
        one.extend([1, 2, 3])
        assert one.end().advance(-3) == one.begin()
        assert one.begin().advance(3) == one.end()
        assert one.begin().advance(0) == one.begin()
        for far in (4, -1):
            with refused(IndexError, "Cursor.advance"):
                one.begin().advance(far)
        with refused(IndexError, "Cursor.value"):
            _ = one.end().value
        with refused(IndexError, "List.erase"):
            one.erase(one.end())
        with refused(ValueError, "Cursor.distance"):
            one.end().distance(one.begin())
        assert {one.begin(), one.find(1)} == {one.begin()}


def test_the_ends_are_the_first_and_the_last_element(made):
    one = made("q", rank=acp.procs() - 1)
    if alone():
        for end in (one.front, one.back):
            with refused(IndexError, f"List.{end.__name__}"):
                end()
        one.extend([1, 2, 3])
        assert (one.front(), one.back()) == (1, 3)


def test_a_cursor_belongs_to_one_list(made):
    one, other = made("q"), made("q")
    if alone(1):
        one.push_back(1)
        other.push_back(1)
        with refused(ValueError, "List.erase"):
            one.erase(other.begin())
        with pytest.raises(TypeError):
            one.insert(0, 1)
        at = one.begin()
        other.splice(other.end(), one)
        with refused(acp.AddressError, "Cursor.value"):
            _ = at.value


# Two lists ------------------------------------------------------------------------------------


def test_splices_leave_bytes_where_they_are(made):
    last = acp.procs() - 1
    one, other = made(bytes, rank=0), made(bytes, rank=last)
    if alone(1):
        for rank in acp.ranks():
            other.push_back(b"%d" % rank * 1000, rank)
        places = [cursor(other, i).ga for i in range(len(other))]
        one.push_back(b"end")
        one.splice(one.begin(), other)
        assert other.empty()
        assert [cursor(one, i).ga for i in range(len(one) - 1)] == places
        other.splice(other.end(), one.begin().advance(acp.procs() - 1))
        assert other.pop_front() == b"%d" % last * 1000
        assert len(one) == acp.procs()


def test_lists_of_other_types_are_refused(made):
    one, other = made("q"), made()
    if alone(1):
        for method in (one.swap, one.merge, lambda x: one.splice(one.begin(), x)):
            with pytest.raises(TypeError):
                method(other)


def test_merged_lists_are_sorted_and_equal_elements_keep_their_order(made):
    one, other = made(rank=0), made(rank=acp.procs() - 1)
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
    one, other = made(bytes, rank=0), made(bytes, rank=rank % acp.procs())
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


# Together -------------------------------------------------------------------------------------


def test_nothing_is_lost_or_doubled_when_all_push_and_pop(made):
    one, count = made("q"), 50 if SLOW_ROAD else 2000
    mine, taken = [], []
    for i in range(count):
        mine.append(acp.rank() * count + i)
        (one.push_back if i % 2 else one.push_front)(mine[-1], None if i % 3 else right())
        if i % 2:
            taken.append(one.pop_front() if i % 4 == 1 else one.pop_back())
    acp.sync()
    everything = sorted(x for part in acp.allgather(taken) for x in part) + list(one)
    assert sorted(everything) == list(range(count * acp.procs()))


def test_an_element_that_is_there_throughout_appears_once(made):
    one, count = made("q"), 200 if SLOW_ROAD else 5000
    if alone():
        one.extend(range(count))
    acp.sync()
    if alone():
        for i in range(20 if SLOW_ROAD else 300):
            one.push_back(-1)
            one.erase(one.insert(one.begin(), -2, right()))
            one.insert(one.begin(), -3)
            if i % 2:
                one.pop_front()
    else:
        for _ in range(3 if SLOW_ROAD else 20):
            assert [x for x in one if x >= 0] == list(range(count))
    acp.sync()


def test_iteration_goes_on_when_what_it_stood_at_is_taken_out(made):
    one = made("q")
    if alone(1):
        one.extend(range(10_000))
        seen = []
        for x in one:
            seen.append(x)
            if x % 1000 == 0:
                one.erase(one.find(x + 3))  # of this batch: it may still come
        assert seen[::1000] == [x for i, x in enumerate(seen) if i % 1000 == 0]
        assert set(range(10_000)) - set(seen) <= {x + 3 for x in range(0, 10_000, 1000)}
        with refused(RuntimeError, "List iteration"):
            for x in one:
                if x == 100:
                    one.reverse()
        with refused(RuntimeError, "List iteration"):
            for x in one:
                if x == 9000:
                    one.clear()
                    one.extend(range(5000))


def test_a_sort_of_a_list_that_changed_meanwhile_does_nothing(made):
    one = made("q")
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
    one, other = made("q"), made("q")
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


# Sharing --------------------------------------------------------------------------------------


def test_it_travels_and_ends_everywhere():
    mine = acp.List("d", rank=right())
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert acp.List.attach(mine.ga).dtype == np.dtype("d")
    assert f"{mine.ga:#x}" in repr(mine)
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
    one = made()
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
    one = made("V8")
    if alone(1):
        one.push_back(b"12345678")
        with pytest.raises(ValueError, match="8 bytes"):
            one.push_back(b"1")
        with pytest.raises(ValueError, match="8 bytes"):
            one.extend([b"12345678", b"1"])
        with pytest.raises(acp.RankError):
            one.push_back(b"12345678", rank=acp.procs())
        assert list(one) == [b"12345678"]
