"""Cursors of lists, and iteration, while elements come and go."""

import pickle

import numpy as np
import pytest
from support import SLOW_ROAD, alone, refused, right

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def test_a_cursor_stays_at_its_element_until_that_is_taken_out(made):
    one = made(acp.List)
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
            lambda: at.advance(0),
            lambda: at.distance(at),
            lambda: one.erase_range(at, at),
            lambda: one.splice_range(one.end(), at, at),
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
    one = made(acp.List, dtype="q")
    if alone(1):
        one.extend([1, 2, 3])
        assert one.end().advance(-3) == one.begin()
        assert one.begin().advance(3) == one.end()
        assert one.begin().advance(0) == one.begin()
        for far in (4, -1, 2**64, -(2**64)):
            with refused(IndexError, "Cursor.advance"):
                one.begin().advance(far)
        for wrong in (1.5, "1", None):
            with pytest.raises(TypeError, match=r"^Cursor.advance: "):
                one.begin().advance(wrong)
        with refused(IndexError, "Cursor.value"):
            _ = one.end().value
        with refused(IndexError, "List.erase"):
            one.erase(one.end())
        with refused(ValueError, "Cursor.distance"):
            one.end().distance(one.begin())
        assert {one.begin(), one.find(1)} == {one.begin()}


def test_the_ends_are_the_first_and_the_last_element(made):
    one = made(acp.List, dtype="q", rank=acp.procs() - 1)
    if alone():
        for end in (one.front, one.back):
            with refused(IndexError, f"List.{end.__name__}"):
                end()
        one.extend([1, 2, 3])
        assert (one.front(), one.back()) == (1, 3)


def test_a_cursor_belongs_to_one_list(made):
    one, other = made(acp.List, dtype="q"), made(acp.List, dtype="q")
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


def test_an_element_that_is_there_throughout_appears_once(made):
    one, count = made(acp.List, dtype="q"), 200 if SLOW_ROAD else 5000
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


def test_long_objects_that_others_take_out_are_read_whole(made):
    one, times = made(acp.List), 20 if SLOW_ROAD else 200
    if alone():
        one.push_back((0, np.zeros(50_000)))
    acp.sync()
    if alone():
        for i in range(1, times):
            one.push_back((i, np.full(50_000 + i, i)))
            one.pop_front()
    else:
        for _ in range(times):
            i, data = one.front()
            assert len(data) == 50_000 + i
            assert (data == i).all()
            assert all((data == i).all() for i, data in one)
    acp.sync()
    assert len(one) == 1


def test_iteration_goes_on_when_what_it_stood_at_is_taken_out(made):
    one = made(acp.List, dtype="q")
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


@pytest.mark.parametrize("more", range(-1, 3))
def test_a_cursor_never_means_the_next_element_at_its_place_when_lists_were_swapped(made, more):
    one, other = made(acp.List, dtype="q"), made(acp.List, dtype="q")
    if alone(1):
        one.extend(range(40))
        other.extend(range(40 + more))
        one.swap(other)
        at = one.end().advance(-1)
        place = at.ga
        one.erase(at)
        one.push_back(-1)
        assert one.end().advance(-1).ga == place
        with refused(acp.AddressError, "Cursor.value"):
            _ = at.value
        one.swap(other)
        with refused(acp.AddressError, "Cursor.value"):
            _ = at.value


@pytest.mark.parametrize("more", range(4))
def test_a_cursor_never_means_what_a_swap_brings_to_its_place(made, more):
    one, other = made(acp.List, dtype="q"), made(acp.List, dtype="q")
    if alone(1):
        for value in range(3):
            one.push_back(value)
        for _ in range(more):
            other.push_back(7)
        at = one.end().advance(-1)
        place = at.ga
        other.splice(other.end(), at)
        other.pop_back()
        other.push_back(8)
        assert more == 0 or other.end().advance(-1).ga == place
        one.swap(other)
        with refused(acp.AddressError, "Cursor.value"):
            _ = at.value
        assert list(one) == [7] * more + [8]
        assert list(other) == [0, 1]


def test_cursors_are_good_again_when_lists_were_swapped_back(made):
    one, other = made(acp.List, dtype="q"), made(acp.List, dtype="q")
    if alone(1):
        one.extend([1, 2, 3])
        at = one.begin().advance()
        one.swap(other)
        with refused(acp.AddressError, "Cursor.value"):
            _ = at.value
        other.push_back(4)
        one.push_back(5)
        one.swap(other)
        assert at.value == 2
        assert (list(one), list(other)) == ([1, 2, 3, 4], [5])


def test_ranges_that_are_none_and_negative_counts_are_refused(made):
    one = made(acp.List, dtype="q", maker=-1)
    if acp.rank() == 0:
        one.extend(range(5))
        begin, third = one.begin(), one.begin().advance(3)
        for first, last in ((third, begin), (one.end(), begin), (one.end(), third)):
            with refused(ValueError, "List.erase_range", "before"):
                one.erase_range(first, last)
        with refused(TypeError, "Cursor.distance", "'end'"):
            begin.distance("end")
        for n, error in ((-1, ValueError), (1.5, TypeError)):
            with refused(error, "List.fill", n):
                one.fill(n, 0)
        with refused(TypeError, "List.push_back", 1.5):
            one.push_back(1.5)
        with refused(TypeError, "List.extend", 1.5):
            one.extend([1.5])
        with refused(OverflowError, "List.push_back", 2**64):
            one.push_back(2**64)
        assert list(one) == [0, 1, 2, 3, 4]
        one.erase(begin)
        with pytest.raises(acp.AddressError, match="taken out"):
            one.erase_range(begin, third)


@pytest.mark.parametrize("rank", [0, -1])
def test_ranges_to_be_copied_or_moved_end_behind_their_beginning(made, rank):
    one, other = (
        made(acp.List, dtype="q", maker=-1),
        made(acp.List, dtype="q", rank=rank % acp.procs()),
    )
    if acp.rank() == 0:
        one.extend(range(5))
        begin, third, end = one.begin(), one.begin().advance(3), one.end()
        other.push_back(7)
        for first, last in ((third, begin), (end, begin)):
            with refused(ValueError, "List.assign_range", "before"):
                other.assign_range(first, last)
            with refused(ValueError, "List.splice_range", "before"):
                other.splice_range(other.end(), first, last)
        one.erase(third)
        for again in range(2):
            for first, last in ((begin, third), (third, end)):
                with refused(acp.AddressError, "List.assign_range", "taken out"):
                    other.assign_range(first, last)
                with refused(acp.AddressError, "List.splice_range", "taken out"):
                    other.splice_range(other.end(), first, last)
            one.push_back(again)  # where the other was
        assert list(other) == [7]
        assert list(one) == [0, 1, 2, 4, 0, 1]


@pytest.mark.parametrize("kind", [acp.Vector, acp.Deque, acp.List])
def test_a_container_that_is_gone_has_no_beginning(kind):
    gone = kind(dtype="q", contents=[1, 2], rank=right())
    begin = gone.begin()
    gone.destroy()
    with refused(acp.AddressError, f"{kind.__name__}.begin", "no such container"):
        gone.begin()
    if kind is acp.List:
        for use in (lambda: begin.advance(0), lambda: begin.distance(begin)):
            with pytest.raises(acp.AddressError, match="no such container"):
                use()


def test_a_cursor_is_the_same_place_on_every_rank(made):
    one = made(acp.List, dtype="q")
    if alone():
        one.extend([1, 2, 3])
    acp.sync()
    at, end = acp.bcast((one.find(2), one.end()))
    assert at.value == 2
    assert at == one.find(2)
    assert end == one.end()
    assert pickle.loads(pickle.dumps(at)) == at
