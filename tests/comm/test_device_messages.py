"""Messages, channels and collectives take arrays of a device."""

import tracemalloc

import far
import numpy as np
import opencl
import pytest
from far import array_of

import acp_mpi as acp
from acp_mpi.rma import device_rooms

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("far_kind")]

LONG = 300_000  # bytes of a message that does not travel at once


def right():
    return (acp.rank() + 1) % acp.procs()


def left():
    return (acp.rank() - 1) % acp.procs()


@pytest.mark.parametrize("count", [0, 3, LONG // 8])
def test_a_device_array_is_sent_and_received(count):
    mine = array_of(np.arange(count) + acp.rank())
    sending = acp.isend(mine, right())
    if count:
        mine.set(-1)  # its elements have been read
    got = acp.recv(source=left())
    sending.wait()
    assert type(got) is np.ndarray
    assert got.dtype == mine.dtype
    assert (got == np.arange(count) + left()).all()
    acp.send(got, left())
    status, request = acp.Status(), acp.irecv(mine, right())
    assert request.wait() is mine
    assert (mine.get() == np.arange(count) + acp.rank()).all()
    assert request.status.size == mine.nbytes
    assert acp.sendrecv(mine, right(), 0, mine, left(), status=status) is mine
    assert status.size == mine.nbytes
    assert (mine.get() == np.arange(count) + left()).all()


def test_tensors_of_other_libraries_are_sent_behind_their_stream():
    mine, other = far.Tensor(np.zeros((2, 2048), "u1")), far.Tensor(np.zeros((2, 2048), "u1"))
    far.library().far_fill(0, 0, mine.address, acp.rank() + 1, 4096, 3_000_000)
    acp.send(mine, right())
    assert acp.recv(other, left()) is other
    assert (other.numpy() == left() + 1).all()
    acp.send(mine, right())
    assert acp.recv(source=left()).shape == (2, 2048)
    mine.free()
    other.free()


def test_what_a_short_message_does_not_fill_stays_and_a_long_one_is_cut():
    there, here = array_of(np.full(8, -1.0)), np.full((8, 2), -1.0)
    for buffer, look in ((there, there.get), (here[:, 0], lambda: here[:, 0])):
        acp.send(np.arange(3.0), right())
        acp.recv(buffer, left())
        assert look().tolist() == [0, 1, 2, -1, -1, -1, -1, -1]
        acp.send(np.arange(9.0), right())
        with pytest.raises(acp.TruncationError):
            acp.recv(buffer, left())
        assert look().tolist() == list(range(8))
    acp.sync()


def test_elements_of_another_type_are_refused_as_of_host_arrays():
    there = array_of(np.zeros(4, "f4"))
    acp.send(np.arange(4), right())
    with pytest.raises(TypeError, match="type int64 and the buffer of float32"):
        acp.recv(there, left())
    assert acp.recv(source=left()).tolist() == [0, 1, 2, 3]
    acp.sync()


def test_device_arrays_inside_objects_arrive_as_host_arrays():
    acp.send({"a": array_of(np.arange(4) + acp.rank())}, right())
    got = acp.recv(source=left())["a"]
    assert type(got) is np.ndarray
    assert got.tolist() == list(range(left(), left() + 4))


@pytest.mark.parametrize("dtype", [None, "i8", object])
@pytest.mark.parametrize("count", [4, LONG // 8])
def test_channels_carry_device_arrays(dtype, count):
    if acp.procs() == 1:
        return
    sender = acp.Channel(acp.rank(), right(), dtype=dtype)
    receiver = acp.Channel(left(), acp.rank(), dtype=dtype)
    mine = array_of(np.arange(count) + acp.rank())
    expected = np.arange(count) + left()
    sending = sender.isend(mine)
    got = receiver.recv()
    assert (np.frombuffer(got, "i8") == expected).all()
    sending.wait()
    if dtype is not object:
        sending = sender.isend(mine)
        request = receiver.irecv(mine)
        request.wait()
        sending.wait()
        assert (mine.get() == expected).all()
        sending = sender.isend(np.arange(2))
        assert receiver.recv(mine) is mine
        sending.wait()
        assert mine[:3].get().tolist() == [0, 1, expected[2]]
        sending = sender.isend(np.arange(count + 1))
        with pytest.raises(acp.TruncationError):
            receiver.recv(mine)
        sending.wait()
        assert (mine.get() == np.arange(count)).all()
    acp.sync()


def test_collectives_move_and_fold_device_arrays():
    n, r = acp.procs(), acp.rank()
    ranks = np.arange(n)
    x, y = array_of(np.arange(n * 4) + r), array_of(np.zeros(n * 4, int))
    one, all_of_one = array_of(np.full(4, r)), np.repeat(ranks, 4)
    top = n - 1

    assert acp.bcast(x, top, out=y) is y
    assert (y.get() == np.arange(n * 4) + top).all()
    assert acp.allreduce(x, out=y) is y
    folded = np.arange(n * 4) * n + ranks.sum()
    assert (y.get() == folded).all()
    alone = acp.allreduce(x, "max")
    assert type(alone) is np.ndarray
    assert (alone == np.arange(n * 4) + top).all()
    acp.reduce(x, "sum", top, out=y if r == top else ())
    assert (y.get() == folded).all()
    y.set(0)
    acp.gather(one, top, out=y if r == top else ())
    assert (y.get() == (all_of_one if r == top else 0)).all()
    acp.scatter(x if r == 0 else None, 0, out=one)
    assert (one.get() == np.arange(4) + 4 * r).all()
    one.set(r)
    assert acp.iallgather(one, out=y).wait() is y
    assert (y.get() == all_of_one).all()
    acp.alltoall(x, out=y)
    assert (y.get() == (ranks[:, None] + np.arange(4) + 4 * r).ravel()).all()
    x.set(np.arange(n * 4))
    acp.allreduce(x, out=x)  # in its place
    assert (x.get() == np.arange(n * 4) * n).all()
    with pytest.raises(TypeError, match="x has elements of type int64 and out of float32"):
        acp.allreduce(x, out=array_of(np.zeros(n * 4, "f4")))
    acp.sync()


@pytest.mark.parametrize("fold", [acp.allreduce, acp.scan])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_fold_takes_host_memory_for_its_array_once(monkeypatch, fold, in_place):
    taken, rooms = device_rooms.take_long, []

    def take(function, size):
        rooms.append(size)
        return taken(function, size)

    monkeypatch.setattr(device_rooms, "take_long", take)
    size = 4 * device_rooms.BYTES
    x, y = array_of(np.full(size // 8, acp.rank())), array_of(np.zeros(size // 8, int))
    out = x if in_place else y
    tracemalloc.start()
    fold(x, out=out)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rooms == [size]
    assert most < size / 5
    assert (out.get() == sum(range(acp.procs() if fold is acp.allreduce else acp.rank() + 1))).all()
    acp.sync()


def test_arrays_and_buffers_of_opencl_are_sent_and_received():
    opencl.context()
    import pyopencl as cl
    from pyopencl import array

    queue = opencl.queue()
    mine = array.to_device(queue, np.arange(1000.0) + acp.rank())
    acp.send(mine, right())
    assert acp.recv(mine, left()) is mine
    assert (mine.get() == np.arange(1000.0) + left()).all()
    acp.send(mine, left())
    assert acp.recv(source=right()).tolist() == (np.arange(1000.0) + acp.rank()).tolist()
    assert acp.allreduce(mine)[1] == acp.procs() + sum(range(acp.procs()))
    if acp.procs() > 1:
        sender = acp.Channel(acp.rank(), right(), dtype="f8")
        receiver = acp.Channel(left(), acp.rank(), dtype="f8")
        sending = sender.isend(mine)
        assert receiver.recv()[0] == (left() - 1) % acp.procs()
        sending.wait()
    whole = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 8000)
    acp.send(mine, right())
    acp.recv(whole, left())
    cl.enqueue_copy(queue, mine.base_data, whole)
    assert mine.get()[0] == (left() - 1) % acp.procs()
    acp.sync()


@pytest.mark.parametrize("call", ["query_ga", "SegmentedBuffer", "Vector"])
def test_what_does_not_take_device_memory_says_so(call):
    tensor = far.Tensor(np.arange(4.0))
    calls = {
        "query_ga": lambda: acp.query_ga(tensor),
        "SegmentedBuffer": lambda: acp.SegmentedBuffer(tensor, 2, to=right()),
        "Vector": lambda: acp.Vector(float, tensor),
    }
    with pytest.raises(TypeError, match=r"device memory .*copy it to the host first"):
        calls[call]()
    acp.sync()
    tensor.free()
