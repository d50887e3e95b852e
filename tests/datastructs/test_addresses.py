"""Elements from addresses of any rank, and to them: the calls whose names end in _ga."""

import pickle

import numpy as np
import pytest
from support import EACH_SEQUENCE, fetch, refused, right, shared

import acp_mpi as acp

pytestmark = pytest.mark.mpi

SIZES = [0, 1, 100, 8192, 8193, 100_000]  # to 8192 through the caller, longer ones past it


@pytest.fixture
def places():
    """Return an address on each rank, of 200,000 bytes that say which rank it is."""
    memory, places = shared(200_000)
    memory[:] = acp.rank() + 1
    acp.sync()
    return places


def alone():
    return acp.rank() == acp.procs() // 2


@EACH_SEQUENCE
def test_of_vectors_and_deques(made, kind):
    row = made(kind, "q", rank=0)
    words, places = shared(3, np.int64)
    words[:] = np.arange(3) + 10 * acp.rank()
    acp.sync()
    if alone():
        for ga in places:
            row.push_back_ga(ga + 8)
        assert row.tolist() == [10 * r + 1 for r in range(acp.procs())]
        row.assign_ga(places[0], 3)
        row.extend_ga(places[0] + 8, 2)
        row.insert_ga(0, places[0] + 16)
        assert row.tolist() == [2, 0, 1, 2, 1, 2]
        row.push_front_ga(places[0] + 16)
        row.insert_range_ga(row.begin().advance(1), places[0], 3)
        assert row.tolist() == [2, 0, 1, 2, 2, 0, 1, 2, 1, 2]
        row.fill_ga(2, places[0] + 8)
        assert row.tolist() == [1, 1]


def test_of_lists(made, places):
    one, numbers = made(acp.List, dtype=bytes), made(acp.List, dtype="B")
    if alone():
        for rank in acp.ranks():
            one.push_back_ga(places[rank], 100_000, right())
            one.push_front_ga(places[rank], 3)
        one.insert_ga(one.begin(), places[0], 0)
        expected = [b"", *(bytes([r + 1]) * 3 for r in reversed(acp.ranks()))]
        assert list(one) == expected + [bytes([r + 1]) * 100_000 for r in acp.ranks()]
        assert one.remove_ga(places[0], 3) == 1
        assert len(one) == 2 * acp.procs()
        numbers.push_back_ga(places[0])
        assert list(numbers) == [1]
        numbers.fill_ga(3, places[-1], rank=right())
        assert list(numbers) == [acp.procs()] * 3
        assert numbers.remove_ga(places[-1]) == 3
        with refused(ValueError, "List.push_back_ga"):
            numbers.push_back_ga(places[0], 2)
        with pytest.raises(TypeError):
            one.push_back_ga(places[0])


@pytest.mark.parametrize("size", SIZES)
def test_values_of_maps_from_rank_to_rank(made, places, size):
    m = made(acp.Map, key="B", value=bytes)
    if alone():
        source, key, copy = places[0], places[-1], places[right()] + 100_000
        assert m.retrieve_ga(key, copy, size=100_000) is None
        assert m.insert_ga(key, source, size=size)
        assert not m.insert_ga(key, source, size=1)
        assert m[acp.procs()] == b"\1" * size
        assert m.retrieve_ga(key, copy, size=100_000) == size
        assert fetch(copy, size) == b"\1" * size
        assert m.find_ga(key).value == b"\1" * size
        if size:
            with refused(ValueError, "Map.retrieve_ga", size):
                m.retrieve_ga(key, places[0], size=size - 1)
        assert not m.assign_ga(key, places[-1], size=size)
        assert m[acp.procs()] == bytes([acp.procs()]) * size
        assert m.remove_ga(key)
        assert not m.remove_ga(key)
        assert m.find_ga(key) == m.end()


def test_values_of_one_size(made, places):
    m, long = made(acp.Map, key="H", value="V13"), made(acp.Map, key="V200", value="V9000")
    if alone():
        for each, width, value in ((m, 2, 13), (long, 200, 9000)):
            assert each.insert_ga(places[0], places[0])
            assert dict(each.items()).popitem()[1] == b"\1" * value
            assert each.retrieve_ga(places[0], places[0] + 100_000) == value
            with refused(ValueError, "Map.insert_ga", value, value + 1):
                each.insert_ga(places[0], places[0], size=value + 1)
            with refused(ValueError, "Map.remove_ga", width):
                each.remove_ga(places[0], 3)
            with refused(ValueError, "Map.retrieve_ga", value):
                each.retrieve_ga(places[0], places[0], size=value - 1)


def test_keys_and_values_of_any_kind(made, places):
    m = made(acp.Map)
    thing = pickle.dumps({"a": list(range(10_000))})
    if alone():
        acp.put(places[0], thing)
        assert m.insert_ga(places[-1] + 100_000, places[0], 3, len(thing))
        assert m[bytes([acp.procs()]) * 3] == {"a": list(range(10_000))}
        with refused(TypeError, "Map.insert_ga", "size"):
            m.insert_ga(places[0], places[0], 3)
        with refused(TypeError, "Map.find_ga", "size"):
            m.find_ga(places[0])
        with refused(TypeError, "Map.retrieve_ga", "size"):
            m.retrieve_ga(places[0], places[0], 3)
        for wrong in (0, acp.query_starter_ga(0) + (1 << 39)):
            with pytest.raises(acp.AddressError):
                m.insert_ga(places[0], wrong, 3, 100_000)
            with pytest.raises(acp.AddressError):
                m.retrieve_ga(places[-1] + 100_000, wrong, 3, 100_000)
        assert len(m) == 1


def test_of_sets_and_multisets(made, places):
    s, m = made(acp.Set, key="B"), made(acp.MultiSet)
    if alone():
        for ga in places:
            assert s.insert_ga(ga)
        assert not s.insert_ga(places[0])
        assert set(s) == set(range(1, acp.procs() + 1))
        assert s.find_ga(places[0]).key == 1
        assert s.remove_ga(places[0])
        assert not s.retrieve_ga(places[0])
        assert m.insert_ga(places[0], 5) == 1
        assert m.insert_ga(places[0], 5, 3) == 4
        assert m.retrieve_ga(places[0], 5) == m.count(b"\1" * 5) == 4
        assert m.remove_ga(places[0], 5) == 3
        assert m.remove_all_ga(places[0], 5) == 3
        assert m.find_ga(places[0], 5) == m.end()
        for size, error in ((-1, ValueError), ("a", TypeError)):
            with refused(error, "MultiSet.insert_ga", repr(size)):
                m.insert_ga(places[0], size)


@EACH_SEQUENCE
def test_errors_name_the_call_that_was_given_the_address(kind, made):
    one, line = made(kind, "q"), made(acp.List, dtype=bytes)
    m, s = made(acp.Map, key="q", value="q"), made(acp.Set, key="q")
    ga = acp.query_starter_ga(0)
    if alone():
        m[0] = 1
        acp.put(ga, bytes(16))
        for use, name in (
            (lambda: one.fill_ga(1, 0), f"{kind.__name__}.fill_ga"),
            (lambda: line.fill_ga(1, 0, 3), "List.fill_ga"),
            (lambda: m.insert_ga(ga, 0), "Map.insert_ga"),
            (lambda: m.insert_ga(0, ga), "Map.insert_ga"),
            (lambda: m.retrieve_ga(ga, 0), "Map.retrieve_ga"),
            (lambda: s.insert_ga(0), "Set.insert_ga"),
        ):
            with refused(acp.AddressError, name, "null address"):
                use()
        for size, error in ((-1, ValueError), ("a", TypeError)):
            with refused(error, "List.push_back_ga", repr(size)):
                line.push_back_ga(ga, size)
            with refused(error, "Map.retrieve_ga", repr(size)):
                m.retrieve_ga(ga, ga, size=size)


def test_a_value_that_others_replace_arrives_whole(made, places):
    m = made(acp.Map, key="B", value=bytes)
    if acp.rank() == 0:
        m.insert_ga(places[0], places[0], size=100_000)
    acp.sync()
    copy = places[acp.rank()] + 100_000
    for i in range(20):
        if acp.rank() == 0:
            m.assign_ga(places[0], places[i % acp.procs()], size=20_000 + i)
        else:
            size = m.retrieve_ga(places[0], copy, size=100_000)
            assert len(set(fetch(copy, size))) == 1
    acp.sync()
