"""Objects with long buffers in lists and maps: they come out as pickle would bring them back."""

import pickle

import numpy as np
import pytest
from support import only

import acp_mpi as acp

pytestmark = pytest.mark.mpi

LONG = 200_000
FROZEN = np.arange(LONG / 8)
FROZEN.flags.writeable = False
THINGS = {
    "bytes": bytes(range(250)) * (LONG // 250),
    "bytearray": bytearray(b"12345678") * (LONG // 8),
    "text": "ä" * LONG,
    "array": np.arange(LONG / 8),
    "frozen array": FROZEN,
    "columns": np.asfortranarray(np.arange(LONG / 8).reshape(100, -1)),
    "part": np.arange(LONG / 4).reshape(100, -1)[:, ::2],
    "several": [np.arange(LONG), "between", b"\x95" * LONG, b"short", bytearray(LONG), LONG],
    "the same twice": [THING := np.arange(LONG), THING],
    "65535 bytes": b"a" * 65535,
    "65536 bytes": b"b" * 65536,
    "65537 bytes": b"c" * 65537,
    "many of medium size": [bytes([i]) * 60_000 for i in range(9)],
    "numbers": list(range(LONG // 4)),
    "one number": 3.5,
}


def same(one, other):
    """Whether two objects are equal, of the same types and as writable."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        alike = one.flags.writeable == other.flags.writeable and one.strides == other.strides
        return alike and one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and one == other


def as_pickle_brings(name):
    return pickle.loads(pickle.dumps(THINGS[name], 5))


def test_a_list_brings_long_objects_back_as_pickle_does(made):
    line = made(acp.List)
    if only(-1):
        for name, thing in THINGS.items():
            for _ in range(2):  # the second of two long ones goes another way
                line.push_back(thing)
                line.push_front(thing)
                assert same(as_pickle_brings(name), line.back())
                assert same(as_pickle_brings(name), line.pop_back())
                assert same(as_pickle_brings(name), line.pop_front())
        line.extend(THINGS.values())
        for name in THINGS:
            assert same(as_pickle_brings(name), line.pop_front())
    acp.sync()
    assert line.size() == 0


def test_a_map_brings_long_objects_back_as_pickle_does(made):
    m = made(acp.Map)
    if only(-1):
        for name, thing in THINGS.items():
            for _ in range(2):
                m[name] = thing
            assert m.insert((name, "too"), thing)
        for name in THINGS:
            assert same(as_pickle_brings(name), m[name])
            assert same(as_pickle_brings(name), m.setdefault(name, 7))
            assert same(as_pickle_brings(name), m[name, "too"])
    acp.sync()
    for name in THINGS:
        assert same(as_pickle_brings(name), m[name])
    acp.sync()
    if only(0):
        for name in THINGS:
            assert same(as_pickle_brings(name), m.pop(name))


def test_what_comes_out_shares_no_memory_with_what_goes_in_next(made):
    line = made(acp.List)
    if only(-1):
        for value in range(4):
            line.push_back(np.full(LONG, value))
        taken = [line.pop_front() for _ in range(4)]
        line.extend(np.full(LONG, 9) for _ in range(4))
        assert [int(a[0]) for a in taken] == [int(a[-1]) for a in taken] == [0, 1, 2, 3]
        taken[0][:] = 5
        assert line.pop_front()[0] == 9


def test_a_long_value_is_read_whole_while_others_replace_it(made):
    m = made(acp.Map)
    if only(0):
        m["array"] = np.zeros(LONG)
    acp.sync()
    for turn in range(30):
        if acp.rank() == 0 and acp.procs() > 1:
            m["array"] = np.full(LONG - turn, turn)
        else:
            array = m["array"]
            assert (array == array[0]).all()
            assert len(array) == LONG - int(array[0])
    acp.sync()


COUNT = 8
met = []  # numbers of the restless values that were unpickled
restless_map = None


class Restless:
    """A long value: each time that one comes out of the map all of them are replaced."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return replace_all, (self.number, b"x" * 40_000)


def replace_all(number, padding):
    met.append(number)
    for i in range(COUNT):
        restless_map[i] = Restless(i)
    return number


def test_long_values_that_others_replace_are_each_read_once_as_a_map_is_iterated(made):
    global restless_map
    restless_map = made(acp.Map, ranks=[0])
    if only(-1):
        met.clear()
        for i in range(COUNT):
            restless_map[i] = Restless(i)
        assert dict(restless_map.items()) == {i: i for i in range(COUNT)}
        assert sorted(met) == list(range(COUNT))


def explode(data):
    raise ArithmeticError(f"{len(data)} bytes")


class Explosive:
    """Pickles, and cannot be unpickled."""

    def __reduce__(self):
        return explode, (np.zeros(LONG),)


def test_an_object_that_cannot_be_unpickled_leaves_no_memory_behind(made):
    line = made(acp.List)
    if only(-1):
        used = acp.heap_statistics(acp.query_rank(line.ga)).used
        for _ in range(3):
            line.push_back(Explosive())
            with pytest.raises(ArithmeticError, match=f"{8 * LONG}|{LONG}"):
                line.pop_front()
        assert acp.heap_statistics(acp.query_rank(line.ga)).used < used + LONG
        line.push_back(b"a" * LONG)
        assert line.pop_front() == b"a" * LONG
