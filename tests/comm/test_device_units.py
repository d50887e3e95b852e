"""Long folds and broadcasts of device memory: a part leaves the device while one is under way."""

import far
import numpy as np
import pytest
from far import array_of

import acp_mpi as acp
from acp_mpi.comm.collectives import units
from acp_mpi.rma import device_rooms

pytestmark = pytest.mark.mpi

WINDOW = 8000  # bytes
COUNT = 5003  # elements: six windows


@pytest.fixture(autouse=True)
def short_windows(monkeypatch):
    far.short_windows(monkeypatch, WINDOW)
    yield
    acp.sync()


@pytest.fixture
def moved(monkeypatch):
    """Bytes of each copy between a device and its place in host memory, from now on."""
    return far.count_moved(monkeypatch)


def mine(rank=None, count=COUNT):
    return np.arange(count) * 3 + 7 * (acp.rank() if rank is None else rank)


def total(ranks):
    return sum((mine(r) for r in ranks), np.zeros(COUNT, int))


OPERATIONS = ["sum", np.add, lambda a, b: a + b]  # of the engine, and of Python


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("devices", ["all", "even", "x", "out", "place"])
def test_folds_take_device_memory_in_parts(moved, devices, op):
    on_device = {
        "all": (True, True, False),
        "even": (acp.rank() % 2 == 0, acp.rank() % 2 == 0, False),
        "x": (True, False, False),
        "out": (False, True, False),
        "place": (True, True, True),
    }[devices]
    root = acp.procs() - 1
    everybody, before = range(acp.procs()), range(acp.rank())
    for call, result in (
        (lambda x, out: acp.allreduce(x, op, out=out, commutative=True), total(everybody)),
        (lambda x, out: acp.scan(x, op, out=out, commutative=True), total([*before, acp.rank()])),
        (lambda x, out: acp.exscan(x, op, out=out, commutative=True), total(before)),
        (lambda x, out: acp.reduce(x, op, root, out=out, commutative=True), total(everybody)),
    ):
        x = array_of(mine()) if on_device[0] else mine()
        out = array_of(np.full(COUNT, -1)) if on_device[1] else np.full(COUNT, -1)
        out = x if on_device[2] else out
        moved.clear()
        assert call(x, out) is out
        there = out.get() if hasattr(out, "get") else out
        if (there != result).any():  # ranks that get nothing
            assert (there == (mine() if on_device[2] else -1)).all()
            assert acp.rank() in (0, *range(root))
        if on_device[0] and not on_device[2]:
            assert (x.get() == mine()).all()
        if acp.procs() > 1 and on_device[0]:
            assert sum(moved) in (8 * COUNT, 2 * 8 * COUNT)
            assert max(moved) <= WINDOW


def test_a_reduction_that_gives_an_array(moved):
    got = acp.allreduce(array_of(mine()))
    assert type(got) is np.ndarray
    assert (got == total(range(acp.procs()))).all()
    assert sum(moved) == 8 * COUNT
    assert max(moved) <= WINDOW


@pytest.mark.parametrize("devices", ["all", "root", "others"])
def test_a_broadcast_takes_device_memory_in_parts(moved, devices):
    for root in {0, acp.procs() - 1}:
        here = {"all": True, "root": acp.rank() == root, "others": acp.rank() != root}[devices]
        values = mine(root) if acp.rank() == root else np.full(COUNT, -1)
        x = array_of(values) if here else values.copy()
        moved.clear()
        assert acp.bcast(x, root, out=x) is x
        assert ((x.get() if here else x) == mine(root)).all()
        if acp.procs() > 2 and here:
            assert sum(moved) == 8 * COUNT
            assert max(moved) < 2 * WINDOW


def test_requests_take_it_too():
    x, out = array_of(mine()), array_of(np.zeros(COUNT, int))
    request = acp.iallreduce(x, out=out)
    assert request.wait() is out
    assert (out.get() == total(range(acp.procs()))).all()
    x = array_of(mine(0) if acp.rank() == 0 else np.zeros(COUNT, int))
    assert acp.ibcast(x, 0, out=x).wait() is x
    assert (x.get() == mine(0)).all()


def test_parts_start_behind_the_stream_of_the_array():
    tensor, out = far.Tensor(np.zeros(COUNT, int)), far.Tensor(np.zeros(COUNT, int))
    far.library().far_fill(0, 0, tensor.address, 1, 8 * COUNT, 3_000_000)
    far.library().far_fill(0, 0, out.address, 9, 8 * COUNT, 3_000_000)
    acp.allreduce(tensor, out=out)
    assert (out.numpy() == acp.procs() * 0x0101010101010101).all()
    tensor.free()
    out.free()


def test_x_that_lies_partly_over_out_is_taken_as_it_was():
    array = array_of(np.arange(COUNT + 1000))
    acp.allreduce(array[:COUNT], out=array[1000:])
    assert (array.get()[1000:] == acp.procs() * np.arange(COUNT)).all()


def test_its_host_memory_is_bounded_and_used_again(monkeypatch):
    taken, sizes = device_rooms._engine.allocate, []

    def allocate(size, *rest):
        sizes.append(size)
        return taken(size, *rest)

    device_rooms._long.clear()
    monkeypatch.setattr(device_rooms._engine, "allocate", allocate)
    x, out = array_of(mine()), array_of(np.zeros(COUNT, int))
    for _ in range(3):
        acp.allreduce(x, out=out)
    assert (out.get() == total(range(acp.procs()))).all()
    rooms = [size for size in sizes if size > device_rooms.BYTES]
    assert sum(rooms) == sum(size for size, _ in device_rooms._long)
    assert len(rooms) <= 2
    for size in (device_rooms.LONG // 2 + 1, device_rooms.LONG, 3 * device_rooms.BYTES):
        for room in [device_rooms.take_long("allreduce", size) for _ in range(2)]:
            device_rooms.give(room)
        assert sum(size for size, _ in device_rooms._long) <= device_rooms.LONG_SPARE
    device_rooms._long.clear()


@pytest.mark.parametrize("after", [0, 1, 4])
def test_a_device_that_fails_ends_it_on_all(monkeypatch, after):
    if acp.procs() == 1:
        pytest.skip("nobody else waits")
    x, out = array_of(mine()), array_of(np.zeros(COUNT, int))
    start, begun = units._engine.device_start, []

    def fail(*given):
        begun.append(given)
        if len(begun) > after:
            raise acp.DeviceError("a device that fails")
        return start(*given)

    with monkeypatch.context() as patch:
        if acp.rank() == 0:
            patch.setattr(units._engine, "device_start", fail)
        with pytest.raises(acp.Error):
            acp.allreduce(x, out=out)
    acp.sync()
    acp.allreduce(x, out=out)
    assert (out.get() == total(range(acp.procs()))).all()
    assert (x.get() == mine()).all()


def test_a_room_that_another_thread_takes_first_is_not_taken(monkeypatch):
    class Raced(list):
        def copy(self):
            found = super().copy()
            self.clear()
            return found

    other = device_rooms.take_long("test", 2 << 20)
    monkeypatch.setattr(device_rooms, "_long", Raced([(2 << 20, other)]))
    mine = device_rooms.take_long("test", 2 << 20)
    assert mine is not other
    monkeypatch.setattr(device_rooms, "_long", [])
    device_rooms.give(other)
    device_rooms.give(mine)
    assert [room for _, room in device_rooms._long] == [other, mine]
    assert device_rooms.take_long("test", 1 << 20) is mine
