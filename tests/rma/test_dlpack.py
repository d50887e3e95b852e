"""What gives its memory by DLPack alone, as tensors of other libraries do, is a buffer, too."""

import numpy as np
import pytest
from support import refused, right, shared

import acp_mpi as acp

pytestmark = pytest.mark.mpi


class Tensor:
    """It has no buffer protocol and no `__array_interface__`, and cannot be pickled."""

    device = 1, 0

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __reduce__(self):
        raise AssertionError("it was pickled")


class Older(Tensor):
    """As of libraries that know no versions of DLPack, and cannot say that memory is read-only."""

    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__()


class OfCuda(Tensor):
    device = 2, 3

    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__()


class Unnamed(OfCuda):
    device = 99, 0


class Unwilling(Tensor):
    def __dlpack__(self, **how):
        raise BufferError("it requires a gradient")


EACH = pytest.mark.parametrize("kind", [Tensor, Older])


def left():
    return (acp.rank() - 1) % acp.procs()


@EACH
@pytest.mark.parametrize("step", [1, 2], ids=["contiguous", "strided"])
def test_put_and_get(kind, step):
    array, places = shared(4, "f8")
    given, taken = np.arange(4.0 * step) + acp.rank(), np.zeros(4 * step)
    acp.put(places[right()], kind(given[::step]))
    acp.sync()
    assert (array == np.arange(0, 4.0 * step, step) + left()).all()
    room = kind(taken[::step])
    assert acp.get(places[acp.rank()], room) is room
    assert (taken[::step] == array).all()
    acp.sync()
    if step == 1:
        acp.complete(acp.iput(places[right()], kind(-given)))
        acp.sync()
        acp.complete(acp.iget(places[acp.rank()], room))
        assert taken[3] == -3 - left()


@EACH
def test_its_memory_is_registered_where_it_is(kind):
    array = np.zeros(4)
    with acp.register_memory(kind(array)) as key:
        places = acp.allgather(acp.query_ga(key))
        acp.put(places[right()], np.full(4, 1.0 + acp.rank()))
        acp.sync()
        assert (array == 1 + left()).all()
        assert acp.query_ga(key, view=kind(array[2:])) == acp.query_ga(key) + 16
        acp.sync()


@EACH
def test_messages_carry_arrays_and_fill_tensors(kind):
    array = np.arange(6, dtype="i2").reshape(2, 3)
    acp.send(kind(array), right())
    got = acp.recv(source=left())
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    assert (got == array).all()
    taken = np.zeros((2, 3), "i2")
    room = kind(taken)
    request = acp.irecv(room, left())
    acp.isend(kind(array.T), right()).wait()
    assert request.wait() is room
    assert (taken.reshape(-1) == array.T.reshape(-1)).all()
    assert acp.sendrecv(kind(array[:, :2]), right(), 1, room, left(), 1) is room


@EACH
def test_collectives_read_and_fill_it(kind):
    total = np.zeros(3)
    out = kind(total)
    for _ in range(2):
        assert acp.allreduce(kind(np.arange(3.0)), out=out) is out
        assert (total == acp.procs() * np.arange(3)).all()
    parts = np.zeros((acp.procs(), 2), "i4")
    acp.allgather(kind(np.full(2, acp.rank(), "i4")), out=kind(parts))
    assert (parts[:, 0] == range(acp.procs())).all()
    acp.bcast(kind(total), out=kind(total))
    acp.iallreduce(kind(np.ones(3)), out=out).wait()
    assert (total == acp.procs()).all()


@EACH
def test_vectors_and_workspaces_take_its_elements(kind):
    with acp.Vector("f8") as vector, acp.Workspace(64) as space:
        vector.extend(kind(np.arange(4.0)))
        assert list(vector) == [0, 1, 2, 3]
        space.write(kind(np.arange(8.0)), 0)
        room = np.zeros(8)
        space.read(kind(room), 0)
        assert room[7] == 7
        space.accumulate(kind(np.ones(8)), 0)
        space.read(kind(room), 0)
        assert room[7] == 8


@EACH
@pytest.mark.parametrize("width", ["q", object], ids=["array", "list"])
def test_maps_and_sets_take_many_of_its_keys_and_values(kind, width):
    keys, values = np.arange(3), np.arange(3) + 0.5
    with acp.Map(key=width, value="d", ranks=[acp.rank()]) as many:
        many.update(kind(keys), kind(values))
        many.update(kind(keys[:2]), [10, 11])
        assert dict(many.items()) == {0: 10, 1: 11, 2: 2.5}
        many.accumulate(kind(keys), kind(values))
        found, there = many.get_many(kind(np.arange(4)), -1)
        assert list(found) == [10.5, 12.5, 5, -1]
        assert list(there) == [True, True, True, False]
        many.update(kind(np.array([[7, 8], [9, 10]])))
        assert many[7] == 8
    for make in acp.Set, acp.MultiSet:
        with make(kind(keys), key=width, ranks=[acp.rank()]) as some:
            some.update(kind(keys[1:]))
            assert sorted(set(some)) == [0, 1, 2]


@EACH
def test_its_bytes_are_one_element(kind):
    row = np.arange(4, dtype="u1")
    with acp.List(dtype=bytes) as texts, acp.Map(key="q", value=bytes, ranks=[acp.rank()]) as many:
        texts.append(kind(row))
        many[1] = kind(row[::2])
        assert (list(texts), many[1]) == ([bytes(row)], bytes(row[::2]))
    with acp.Vector("V4") as raw, acp.Vector("2i4,i2") as fields:
        raw.append(kind(row))
        fields.append((kind(np.array([5, 6])), 7))
        assert raw[0] == bytes(row)
        assert [x.tolist() if hasattr(x, "tolist") else x for x in fields[0]] == [[5, 6], 7]


def test_a_remote_array_is_assigned_from_it():
    _, places = shared(4, "f8")
    there = acp.remote(places[acp.rank()], (4,), "f8")
    there[1:3] = Tensor(np.ones(2))
    assert list(there[:]) == [0, 1, 1, 0]


def test_memory_that_is_said_to_be_read_only_is_no_destination():
    array = np.zeros(2)
    array.flags.writeable = False
    acp.send(Tensor(array), acp.rank())
    with refused(ValueError, "recv", "read-only"):
        acp.recv(Tensor(array), acp.rank())
    assert (acp.recv() == 0).all()
    with refused(ValueError, "register_memory", "read-only"):
        acp.register_memory(Tensor(array))


@pytest.mark.parametrize(("kind", "name"), [(OfCuda, "cuda 3"), (Unnamed, "type 99")])
def test_memory_of_a_device_is_refused_and_the_device_named(kind, name):
    thing, ga = kind(np.zeros(2)), acp.query_starter_ga(acp.rank())
    moves = {
        "put": lambda: acp.put(ga, thing),
        "get": lambda: acp.get(ga, thing),
        "iput": lambda: acp.iput(ga, thing),
        "register_memory": lambda: acp.register_memory(thing),
        "send": lambda: acp.send(thing, acp.rank()),
        "isend": lambda: acp.isend(thing, acp.rank()),
        "recv": lambda: acp.recv(thing),
        "irecv": lambda: acp.irecv(thing),
    }
    calls = {
        "Vector.extend": lambda: acp.Vector("f8").extend(thing),
        "Set.update": lambda: acp.Set(thing),
        "Map.update": lambda: acp.Map().update(thing, thing),
        "Map.get_many": lambda: acp.Map().get_many(thing),
    }
    for function, call in moves.items():  # these take it, where there is a driver
        with refused(acp.DeviceError, function, "acp.devices()"):
            call()
    for function, call in calls.items():
        with refused(TypeError, function, f"device memory ({name}", "host"):
            call()
    assert acp.iprobe(acp.rank()) is None


def test_one_that_does_not_give_its_memory_is_not_pickled_instead():
    with refused(TypeError, "send", "Unwilling", "it requires a gradient"):
        acp.send(Unwilling(np.zeros(2)), acp.rank())
    with refused(TypeError, "put", "it requires a gradient"):
        acp.put(acp.query_starter_ga(acp.rank()), Unwilling(np.zeros(2)))
