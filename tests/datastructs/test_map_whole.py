"""Maps as a whole: where keys live, from one map to another, cursors, growth, the end."""

import pickle

import numpy as np
import pytest
from support import SLOW_ROAD, only, refused

import acp_mpi as acp
from acp_mpi.engine import _engine

pytestmark = pytest.mark.mpi

COUNT = 500 if SLOW_ROAD else 20_000


def gone(function, *arguments):
    with pytest.raises(acp.AddressError):
        function(*arguments)


def test_where_keys_live(made):
    m = made(acp.Map, key="q", value="q", ranks=[acp.procs() - 1], rank=0)
    m[acp.rank()] = 1
    acp.sync()
    assert m.ranks == (acp.procs() - 1,)
    assert acp.query_rank(m.ga) == 0
    assert len(m.local) == (acp.procs() if acp.rank() == acp.procs() - 1 else 0)
    assert m.statistics().keys == acp.procs()
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


def test_local_assign_merge_move(made, numbers):
    other = made(acp.Map, key="q", value="d", ranks=[0], maker=0)
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


def test_assign_merge_move_swap_between_ranks(made):
    a = made(acp.Map, ranks=[0])
    b = made(acp.Map)
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


@pytest.mark.parametrize("size", [4000, 4100, 16_000, 32_000, 32_768, 33_000, 70_000])
def test_cursors_come_past_elements_of_any_length(made, size):
    long = "x" * size
    m, keys, counts = made(acp.Map), made(acp.Set), made(acp.MultiSet)
    if only(-1):
        m.update({0: long, 1: b"short", 2: long, 3: None})
        keys.update([long, "short"])
        counts.update([long, long, "short"])
        for one, wanted in (
            (m, dict(m.items())),
            (keys, dict.fromkeys([long, "short"], b"")),
            (counts, {long: 2, "short": 1}),
        ):
            cursor, seen = one.begin(), {}
            while cursor != one.end():
                assert cursor.key not in seen
                seen[cursor.key] = cursor.value
                cursor = cursor.advance()
            assert seen == wanted
            assert one.begin().distance(one.end()) == len(wanted)
    acp.sync()


def test_it_travels_and_ends_everywhere(objects):
    again = pickle.loads(pickle.dumps(objects))
    assert again == objects
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
    used = []
    for _ in range(4):
        m = acp.bcast(acp.Map() if acp.rank() == 0 else None)
        m.update({(acp.rank(), i): b"x" * i for i in range(100)})
        acp.sync()
        if acp.rank() == acp.procs() - 1:
            m.destroy()
        acp.sync()
        used.append(acp.heap_statistics().used)
        acp.sync()
    assert used[1:] == used[:1] * 3  # heads stay for the next ones of their kind


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


@pytest.mark.parametrize("kind", [acp.Map, acp.Set, acp.MultiSet])
def test_one_with_itself_by_another_handle_loses_nothing(made, kind):
    one = made(kind, key="q", maker=-1)
    if only(0):
        one.update({i: str(i) for i in range(50)} if kind is acp.Map else [*range(50), 7])
    acp.sync()
    again, before = pickle.loads(pickle.dumps(one)), sorted(one._elements())
    acp.sync()
    for method in ("assign", "merge", "move", "swap"):
        if acp.rank() == 0:
            getattr(one, method)(again)
            getattr(one, method)(one)
        if method != "swap":
            for other in (one, again, one.local):
                getattr(one.local, method)(other)
        assert sorted(one._elements()) == before, method
        acp.sync()
    here = sorted(one.local._elements())
    acp.sync()
    if acp.rank() == 0:
        one.merge(again.local)
        assert sorted(one._elements()) == before
        one.assign(again.local)  # then there is nothing else
        assert sorted(one._elements()) == here
        one.move(again.local)
        assert sorted(one._elements()) == here
    acp.sync()


def test_what_cannot_be_taken_over_is_refused_and_nothing_is_lost(made, numbers):
    others = made(acp.Map, key="q", value="q"), made(acp.Set, key="q"), made(acp.MultiSet, key="q")
    if only(0):
        numbers[1] = 2.5
        for other in (None, {1: 1.0}, [1], *others, *(other.local for other in others)):
            for method in ("assign", "merge", "move", "swap"):
                with refused(TypeError, f"Map.{method}"):
                    getattr(numbers, method)(other)
                if method != "swap":
                    with refused(TypeError, f"Map.local.{method}"):
                        getattr(numbers.local, method)(other)
        with refused(TypeError, "Map.swap"):
            numbers.swap(numbers.local)
        assert dict(numbers.items()) == {1: 2.5}
    acp.sync()


@pytest.mark.parametrize("kind", [acp.Map, acp.Set, acp.MultiSet])
def test_what_cannot_be_read_leaves_what_is_there(made, kind):
    one, gone_one = made(kind, key="q"), acp.bcast(kind(key="q") if acp.rank() == 0 else None)
    if only(-1):
        one.update({i: str(i) for i in range(50)} if kind is acp.Map else range(50))
    acp.sync()
    if acp.rank() == 0:
        gone_one.destroy()
    acp.sync()
    before = sorted(one._elements())
    for method in ("assign", "move"):
        for other in (gone_one, gone_one.local) if acp.rank() == 0 else (gone_one,):
            gone(getattr(one, method), other)
            gone(getattr(one.local, method), other)
    acp.sync()
    assert sorted(one._elements()) == before
    acp.sync()


def test_distances_are_between_cursors_of_one_container(made, numbers):
    few = made(acp.Map, key="q", value="d", ranks=[0])
    if only(0):
        for first, second in ((few, numbers), (numbers, few)):
            with refused(ValueError, "Cursor.distance", "two containers"):
                first.begin().distance(second.end())
        again = pickle.loads(pickle.dumps(numbers))
        assert numbers.begin().distance(again.end()) == 0
    acp.sync()


def test_who_was_killed_while_destroying_leaves_it_to_the_next(made):
    m = acp.bcast(acp.Map(key="q", value=bytes) if acp.rank() == 0 else None)
    m[acp.rank()] = b"x" * 1000
    acp.sync()
    if acp.rank() == acp.procs() - 1:
        for ga, serial in m._others[:1]:
            part = _engine.Handle()
            part._found(ga, serial, b"")
            _engine.container_destroy("test", part)
        m.destroy()
    acp.sync()
    gone(m.get, 1)
    if acp.rank() != acp.procs() - 1:
        gone(m.destroy)
    acp.sync()
