"""Buffers and arrays of OpenCL, with the driver that is installed here."""

import numpy as np
import opencl
import pytest
from support import CAN_LOAD

import acp_mpi as acp
from acp_mpi.engine import _engine

pytestmark = pytest.mark.mpi


@pytest.fixture(autouse=True)
def queue():
    opencl.context()
    return opencl.queue()


def peer():
    return (acp.rank() + 1) % acp.procs()


def left():
    return (acp.rank() - 1) % acp.procs()


def on_device(queue, values):
    from pyopencl import array

    return array.to_device(queue, np.ascontiguousarray(values))


def test_arrays_and_buffers_of_the_program_are_copied_by_any_rank(queue):
    mine = on_device(queue, np.arange(1000.0) + acp.rank())
    with acp.register_memory(mine) as key, acp.register_memory(mine.base_data, color=1) as whole:
        places = acp.allgather(acp.query_ga(key))
        host = acp.zeros(1000)
        acp.wait(acp.copy(acp.query_ga(host), places[peer()], host.nbytes))
        assert (host == np.arange(1000.0) + peer()).all()
        acp.sync()
        acp.put(places[peer()] + 8, np.array([-1.0, -2.0]))
        acp.sync()
        assert mine.get()[:4].tolist() == [acp.rank(), -1, -2, acp.rank() + 3]
        acp.get(acp.query_ga(whole), host)
        assert host[2] == -2
        acp.sync()
        other = on_device(queue, np.full(1000, -3.0))
        acp.put(places[peer()], other[500:])  # a part, whose buffer begins before it
        acp.sync()
        assert (mine.get()[:501] == [-3.0] * 500 + [acp.rank() + 500]).all()
        acp.get(places[peer()], other[:500])
        assert (other.get() == -3).all()
        acp.sync()


def test_arrays_of_ours_go_from_device_to_device(queue):
    import pyopencl as cl
    from pyopencl import array as arrays

    with (
        acp.zeros(300_000, np.int32, device=queue) as array,
        acp.empty(300_000, np.int32, device=opencl.context()) as source,
    ):
        assert array.device.startswith("opencl:")
        assert (array.get() == 0).all()
        source.set(acp.rank())
        places = acp.allgather(array.ga)
        acp.sync()
        acp.put(places[peer()], source[:70_000])
        acp.copy(places[peer()] + 280_000, source.ga, 4 * 230_000)
        acp.complete()
        acp.sync()
        assert (array.get() == left()).all()
        theirs = arrays.Array(queue, array.shape, array.dtype, data=array.buffer)
        assert (theirs.get() == left()).all()
        theirs[:4096].set(np.full(4096, 77, np.int32))
        assert array[1024:].buffer.size == array.nbytes - 4096
        acp.sync()
        back = np.empty(4097, np.int32)
        acp.get(places[peer()], back)
        assert back.tolist() == [77] * 4096 + [acp.rank()]
        acp.get(places[peer()], source[: len(back)])
        assert source[: len(back)].get().tolist() == back.tolist()
        handle, offset = array.buffer.int_ptr, 4 * 10
        assert _engine.dlpack_place(array[10:].__dlpack__())[:2] == (handle, 4)
        assert _engine.dlpack_place(array[10:].__dlpack__())[7] == offset
        with pytest.raises(ValueError, match="no part at byte 4"):
            _ = array[1:].buffer
        if CAN_LOAD:
            with acp.view(places[peer()], 100, np.int32) as view:
                its = cl.CommandQueue(view.buffer.context)
                assert (arrays.Array(its, 100, view.dtype, data=view.buffer).get() == 77).all()
        acp.sync()
    assert (theirs[5000:].get() == left()).all()  # the program's buffer keeps the memory


def test_operations_start_behind_the_queue_of_the_array_or_the_one_that_is_named(queue):
    import pyopencl as cl

    target = acp.zeros(1000, np.uint8)
    ga, other = acp.query_ga(target), opencl.queue()
    with (
        acp.zeros(1000, np.uint8, device=queue) as array,
        acp.zeros(1000, np.uint8, device=opencl.context()) as plain,
    ):
        theirs = on_device(queue, np.zeros(1000, np.uint8))
        calls = (
            (queue, array.buffer, lambda: acp.iput(ga, array)),
            (queue, array.buffer, lambda: acp.copy(ga, array.ga, 1000)),
            (queue, theirs.base_data, lambda: acp.iput(ga, theirs)),
            (other, array.buffer, lambda: acp.iput(ga, array, stream=other)),
            (other, plain.buffer, lambda: acp.copy(ga, plain.ga, 1000, stream=other)),
        )
        for value, (where, buffer, call) in enumerate(calls, 1):
            values = np.full(1000, value, np.uint8)
            with opencl.Held(where) as held:
                begun = cl.enqueue_copy(where, buffer, values, is_blocking=False)
                where.flush()
                handle = call()
                held.go_on()
                acp.wait(handle)
            assert (target == value).all()
            begun.wait()  # it waits, too, when it is dropped
        with opencl.Held(queue):  # nothing waits for it here
            acp.put(ga, plain)
            assert (target == 5).all()
            for stream in (False, other):
                acp.put(ga, array, stream=stream)
                assert (target == 4).all()


def test_what_does_not_work_is_said_in_words(queue):
    from pyopencl import array as arrays

    matrix = on_device(queue, np.zeros((4, 4)))
    with pytest.raises(ValueError, match="not contiguous"):
        acp.register_memory(matrix[:, 1:])
    with pytest.raises(ValueError, match="no elements"):
        acp.put(acp.query_ga(acp.zeros(1)), arrays.empty(queue, 0, np.float64))
    with pytest.raises(TypeError, match=r"device memory \(opencl\).*copy it to the host"):
        acp.query_ga(matrix)
    with pytest.raises(acp.HeapFullError, match="INVALID_BUFFER_SIZE"):
        acp.empty(1 << 45, np.uint8, device=queue)
    with pytest.raises(acp.DeviceError, match="no device opencl:77"):
        acp.empty(8, device="opencl:77")
    with acp.empty(8, device="opencl") as array:
        with pytest.raises(TypeError, match="is not a stream"):
            acp.put(array.ga, bytes(8), stream=queue.context)
        acp.put(array.ga, bytes(8), stream=7)  # a number is a stream of other kinds
    device = next(each for each in acp.devices() if each.name == "opencl:0")
    assert device.model
    assert not device.reason
