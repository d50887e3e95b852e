"""What went wrong in the C library's heap and containers, by their numbers.

What needs jobs of its own is in tests/jobs: a full heap (faults 9, 11) in test_known_faults.py, a
process that dies in the heap (9) in test_heap.py. That maps grow while others read, and finds write
nothing (11), is in test_map_whole.py; fault 12 in test_workspace.py.
"""

import itertools

import numpy as np
import pytest
from support import EACH_SEQUENCE, SLOW_ROAD

import acp_mpi as acp

pytestmark = pytest.mark.mpi

MANY = 300 if SLOW_ROAD else 20_000


# Fault 9: the heap has 1 KiB ----------------------------------------------------------------------


def test_the_heap_has_room_without_any_setting(made):
    line, numbers = made(acp.Deque, "V4096", maker=-1), made(acp.Map, maker=-1)
    for i in range(acp.rank(), MANY // 10, acp.procs()):
        line.push_back(bytes([i % 256]) * 4096)
        numbers[i] = str(i)
    acp.sync()
    assert len(line) == len(numbers) == MANY // 10
    assert {number: str(number) for number in range(MANY // 10)} == dict(numbers.items())


# Fault 10: n pushes copy n² elements, insert_range copies a header, at() is off by one, 32 bits ---


@EACH_SEQUENCE
def test_a_row_that_is_pushed_to_grows_a_few_times_only(kind, made):
    row = made(kind, "q", maker=-1)
    if acp.rank() == 0:
        rooms = []
        for i in range(MANY):
            row.push_back(i)
            if i % 10 == 0:
                rooms.append(row.capacity())
        grown = [(a, b) for a, b in itertools.pairwise(rooms) if a != b]
        assert len(grown) < 40
        assert all(b >= 1.4 * a for a, b in grown[3:])
        assert row.tolist() == list(range(MANY))


@pytest.mark.parametrize("kind", [acp.Vector, acp.Deque, acp.List], ids=["vector", "deque", "list"])
def test_a_range_of_another_container_arrives_without_anything_else(kind, made):
    row, other = (made(kind, dtype="q", maker=-1) for _ in range(2))
    if acp.rank() == 0:
        row.extend([1, 2, 3])
        other.extend(range(10, 20))
        row.assign_range(other.begin().advance(2), other.begin().advance(5))
        assert list(row) == [12, 13, 14]
        row.extend(other)
        assert list(row) == [12, 13, 14, *range(10, 20)]
        if kind is not acp.List:
            row.insert_range(1, other)
            assert list(row) == [12, *range(10, 20), 13, 14, *range(10, 20)]


def test_elements_of_a_deque_are_found_wherever_it_goes_around(made):
    line, model = made(acp.Deque, "q", maker=-1), list(range(13))
    if acp.rank() == 0:
        line.extend(model)
        for number in range(3 * line.capacity()):
            assert [line.at(i) for i in range(len(model))] == model
            assert line[:].tolist() == model
            line.push_back(100 + number)
            model.append(100 + number)
            assert line.pop_front() == model.pop(0)


def test_indices_have_64_bits(made):
    small, large = made(acp.Vector, "q", maker=-1), made(acp.Vector, "V0", maker=-1)
    if acp.rank() == 0:
        small.push_back(5)
        for index in (1 << 32, (1 << 32) + 1, -(1 << 32), 1 << 62):
            with pytest.raises(IndexError):
                small.at(index)
            with pytest.raises(IndexError):
                small[index] = 6
        large.fill((1 << 32) + 5, b"")
        assert large.size() == (1 << 32) + 5
        assert large.at((1 << 32) + 4) == b""
        with pytest.raises(IndexError):
            large.at((1 << 32) + 5)


# Fault 11: tables never grow, values of no bytes remove the key, 0 means two things ---------------


def test_tables_grow_with_their_keys(made):
    numbers = made(acp.Map, slots=1, key="q", value="q", maker=-1)
    places = numbers.statistics().places
    acp.sync()
    if acp.rank() == 0:
        numbers.update(np.arange(50_000), np.arange(50_000))
        now = numbers.statistics()
        assert now.keys == 50_000
        assert now.places > max(now.keys, places)
        values, found = numbers.get_many(np.arange(50_000))
        assert found.all()
        assert (values == np.arange(50_000)).all()


def test_values_of_no_bytes_keep_their_keys(made):
    things, typed = (
        made(acp.Map, key=bytes, value=bytes, maker=-1),
        made(acp.Map, key="q", value="V0", maker=-1),
    )
    if acp.rank() == 0:
        for mapping, keys in ((things, (b"", b"k")), (typed, (0, 1))):
            for key in keys:
                assert mapping.insert(key, b"")
                assert key in mapping
                assert mapping[key] == b""
                mapping[key] = b""
                assert not mapping.insert(key, b"")
            assert len(mapping) == 2
            assert mapping.remove(keys[0])
            assert not mapping.remove(keys[0])
            assert keys[0] not in mapping
            assert keys[1] in mapping
