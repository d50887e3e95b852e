"""Device memory and streams: what begins behind them, and what they wait for."""

import types

import far
import numpy as np
import pytest

import acp_mpi as acp

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("far_kind")]


def peer():
    return (acp.rank() + 1) % acp.procs()


def test_an_operation_starts_after_what_the_program_has_enqueued():
    tensor = far.Tensor(np.zeros(4096, np.uint8))
    target = acp.zeros(4096, np.uint8)
    with acp.register_memory(tensor) as key:
        for value in (1, 2, 3):
            far.library().far_fill(0, value, tensor.address, value, 4096, 3_000_000)
            acp.wait(acp.copy(acp.query_ga(target), acp.query_ga(key), 4096))
            assert (target == value).all()
    tensor.free()


class Stream:
    """As CuPy has it; `number` is its own."""

    def __init__(self, number):
        self.ptr = number


def test_an_operation_starts_behind_the_stream_that_it_is_given():
    tensor, target = far.Tensor(np.zeros(4096, np.uint8)), acp.zeros(4096, np.uint8)
    ga = acp.query_ga(target)
    with acp.register_memory(tensor) as key:
        calls = (
            lambda stream: acp.wait(acp.copy(ga, acp.query_ga(key), 4096, stream=stream)),
            lambda stream: acp.wait(acp.copy_many(ga, acp.query_ga(key), 4096, stream=stream)),
            lambda stream: acp.wait(acp.iput(ga, tensor, stream=stream)),
            lambda stream: acp.put(ga, tensor, stream=stream),
            lambda stream: acp.get(acp.query_ga(key), target, stream=stream),
            lambda stream: acp.wait(acp.iget(acp.query_ga(key), target, stream=stream)),
        )
        for value, call in enumerate(calls, 1):
            far.library().far_fill(0, 1 + value % 3, tensor.address, value, 4096, 3_000_000)
            call(Stream(1 + value % 3) if value % 2 else 1 + value % 3)
            assert (target == value).all()
            acp.put(ga, bytes(4096))
        far.library().far_fill(0, 1, tensor.address, 99, 4096, 3_600_000_000_000)
        for stream in (2, False, -1):  # does not wait for an hour
            acp.wait(acp.copy(ga, acp.query_ga(key), 4096, stream=stream))
            assert (target == len(calls)).all()
        with pytest.raises(TypeError, match="is not a stream"):
            acp.put(ga, tensor, stream="first")
        with pytest.raises(acp.DeviceError, match="INVALID_STREAM"):
            acp.put(ga, tensor, stream=77)
    far.library().far_synchronize(0, 1)
    assert (tensor.numpy() == 99).all()
    tensor.free()


class Pointer:
    """A number as ctypes has it."""

    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    "shown",
    [
        lambda number: types.SimpleNamespace(ptr=number),  # of CuPy
        lambda number: types.SimpleNamespace(cuda_stream=number),  # of PyTorch
        lambda number: types.SimpleNamespace(handle=Pointer(number)),  # of Numba
        lambda number: type("S", (), {"__cuda_stream__": lambda self: (0, number)})(),
        np.int64,
    ],
)
def test_streams_of_all_libraries_are_understood(shown):
    tensor, target = far.Tensor(np.zeros(4096, np.uint8)), acp.zeros(4096, np.uint8)
    ga = acp.query_ga(target)
    far.library().far_fill(0, 2, tensor.address, 7, 4096, 3_000_000)
    acp.put(ga, tensor, stream=shown(2))
    assert (target == 7).all()
    far.library().far_fill(0, 1, tensor.address, 8, 4096, 3_600_000_000_000)
    acp.put(ga, tensor, stream=shown(2))  # not behind that one
    assert (target == 7).all()
    with pytest.raises(acp.DeviceError, match="INVALID_STREAM"):
        acp.put(ga, tensor, stream=shown(77))
    far.library().far_synchronize(0, 1)
    tensor.free()


def test_a_stream_goes_on_after_an_operation():
    tensor, target = far.Tensor(np.zeros(4096, np.uint8)), acp.zeros(4096, np.uint8)
    ga, fill = acp.query_ga(target), far.library().far_fill
    with acp.register_memory(tensor) as key:
        for value, start in (
            (1, lambda: acp.iput(ga, tensor, stream=1)),
            (2, lambda: acp.copy(ga, acp.query_ga(key), 4096, stream=1)),
            (3, lambda: acp.copy(acp.query_ga(key), ga, 4096, stream=1)),
        ):
            fill(0, 1, tensor.address, value, 4096, 30_000_000)
            handle = start()
            acp.after(handle, Stream(2))
            fill(0, 2, tensor.address, 100, 4096, 0)  # behind the copy
            acp.wait(handle)
            far.library().far_synchronize(0, 2)
            assert (tensor.numpy() == 100).all()
            assert (target == min(value, 2)).all()
        handle = acp.iput(ga, np.full(4096, 9, np.uint8))
        acp.after(handle, 2)  # no device runs it: it is waited for
        assert (target == 9).all()
        acp.after(acp.HANDLE_NULL, None)
        with pytest.raises(TypeError, match="no stream"):
            acp.after(handle, False)
        fill(0, 1, tensor.address, 1, 4096, 30_000_000)
        handle = acp.iput(ga, tensor, stream=1)
        with pytest.raises(acp.DeviceError, match="INVALID_STREAM"):
            acp.after(handle, 77)
        acp.wait(handle)
    tensor.free()


def test_a_copy_that_a_device_refuses_starts_behind_the_stream_too():
    tensor, host = far.Tensor(np.zeros(4096, np.uint8)), acp.zeros(4096, np.uint8)
    with (
        acp.register_memory(tensor) as key,
        acp.zeros(4096, np.uint8, device=(far.NUMBER, 1)) as other,
    ):
        there = acp.allgather(other.ga)[peer()]
        for value in (1, 2, 3):  # no path leads from one device to the other
            far.library().far_fill(0, value, tensor.address, value, 4096, 3_000_000)
            acp.wait(acp.copy(there, acp.query_ga(key), 4096, stream=value))
            acp.get(there, host)
            assert (host == value).all()
        far.library().far_fill(0, 0, tensor.address, 4, 4096, 3_000_000)
        acp.put(there, tensor)
        acp.get(there, host)
        assert (host == 4).all()
        acp.sync()
    tensor.free()


def test_a_call_with_a_stream_refuses_what_it_refuses_without_one():
    a = acp.zeros(8, np.uint64)
    ga = acp.query_ga(a)
    with pytest.raises(ValueError, match="get: the buffer is not contiguous; use no stream, or"):
        acp.get(ga, np.zeros(8, np.uint64)[::2], stream=False)
    for flag in ((ga + 56, 1, 2), (ga + 56, "x"), (ga + 57, 1)):
        with pytest.raises((TypeError, acp.AlignmentError), match="put"):
            acp.put(ga, np.ones(1, np.uint64), flag=flag, stream=False)
    assert not a.any()
    acp.put(ga, np.ones(1, np.uint64), flag=(ga + 56, 1), stream=False)
    assert a.tolist() == [1, 0, 0, 0, 0, 0, 0, 1]
