"""Device memory: arrays of other libraries, arrays of ours, and what cannot be done with them."""

import sys
import threading
import types

import far
import numpy as np
import pytest
from support import CAN_LOAD, ROAD

import acp_mpi as acp
from acp_mpi.engine import _engine
from acp_mpi.rma import device_memory
from acp_mpi.tools import device_roads

pytestmark = pytest.mark.mpi


@pytest.fixture(autouse=True)
def kind():
    far.begin()


def peer():
    return (acp.rank() + 1) % acp.procs()


def test_a_registered_tensor_is_copied_by_any_rank():
    mine = far.Tensor(np.arange(1000.0) + acp.rank())
    with acp.register_memory(mine, color=1) as key:
        places = acp.allgather(acp.query_ga(key))
        assert acp.query_rank(places[peer()]) == peer()
        assert acp.query_color(places[0]) == 1
        host = acp.zeros(1000)
        acp.wait(acp.copy(acp.query_ga(host), places[peer()], host.nbytes))
        assert (host == np.arange(1000.0) + peer()).all()
        acp.sync()
        acp.put(places[peer()] + 8, np.array([-1.0, -2.0]))
        acp.sync()
        assert mine.numpy()[:4].tolist() == [acp.rank(), -1, -2, acp.rank() + 3]
        assert acp.remote(places[peer()], 1000)[3] == peer() + 3
        acp.sync()
    mine.free()  # ends the process if anybody has it imported


def test_the_local_side_may_be_a_tensor_that_is_not_global():
    mine, other = far.Tensor(np.arange(8) * acp.rank()), far.Tensor(np.zeros(8, int))
    target = acp.zeros(8, int)
    places = acp.allgather(acp.query_ga(target))
    acp.put(places[peer()], mine)
    acp.sync()
    assert (target == np.arange(8) * ((acp.rank() - 1) % acp.procs())).all()
    assert acp.get(places[peer()], other) is other
    assert (other.numpy() == np.arange(8) * acp.rank()).all()
    acp.sync()
    handle = acp.iput(places[peer()], other, order=acp.iget(places[peer()], mine))
    acp.complete(handle)
    flag = acp.zeros(1, np.uint64)
    flags = acp.allgather(acp.query_ga(flag))
    acp.sync()
    acp.put(places[peer()], mine, flag=(flags[peer()], 7))
    acp.wait_until(acp.query_ga(flag), "==", 7)
    acp.sync()
    mine.free()
    other.free()


def test_an_operation_starts_after_what_the_program_has_enqueued():
    tensor = far.Tensor(np.zeros(4096, np.uint8))
    target = acp.zeros(4096, np.uint8)
    with acp.register_memory(tensor) as key:
        for value in (1, 2, 3):
            far.library().far_fill(0, value, tensor.address, value, 4096, 3_000_000)
            acp.wait(acp.copy(acp.query_ga(target), acp.query_ga(key), 4096))
            assert (target == value).all()
    tensor.free()


def test_an_array_of_a_device():
    with acp.zeros((5, 4), np.float32, device=(far.NUMBER, 1)) as array:
        assert array.shape == (5, 4)
        assert array.nbytes == 80
        assert array.device == "ext:1"
        assert len(array) == 5
        assert (array.get() == 0).all()
        array.set(np.arange(20).reshape(5, 4))
        array[1].set(100)
        assert array[1:3].get().tolist() == [[100] * 4, [8, 9, 10, 11]]
        assert array[-1][2].get() == 18
        assert array[3:1].get().shape == (0, 4)
        places = acp.allgather(array.ga)
        acp.sync()
        acp.put(places[peer()] + 16, np.full(4, acp.rank(), np.float32))
        acp.sync()
        assert (array.get()[1] == (acp.rank() - 1) % acp.procs()).all()
        source = acp.empty(20, np.float32, device=(far.NUMBER, 0))
        source.set(acp.rank())
        acp.sync()
        acp.copy_many([places[peer()], places[peer()] + 40], [source.ga, source.ga + 8], [8, 4])
        acp.complete()
        acp.sync()
        assert array.get()[0, 0] == array.get()[2, 2] == (acp.rank() - 1) % acp.procs()
        assert acp.query_ga(array) == array.ga
        assert acp.query_ga(array[1]) == array.ga + 16
        assert _engine.dlpack_place(array[1:].__dlpack__())[3] == (4, 4)
        assert device_memory.found(array, "put")[2] == 80
        acp.sync()
    assert array.closed
    assert "closed" in repr(array)
    array.close()
    with pytest.raises(acp.AddressError, match="closed"):
        array.get()
    with pytest.raises(acp.AddressError):
        acp.get(places[acp.rank()], bytearray(8))


def test_what_does_not_work_is_said_in_words():
    array = acp.zeros(8, np.uint64, device=(far.NUMBER, 0))
    for call in (
        lambda: acp.fetch_add8(array.ga, 1),
        lambda: acp.wait_until(array.ga, "==", 1, timeout=1),
        lambda: acp.query_address(array.ga),
    ):
        with pytest.raises(acp.AddressError, match=r"memory of a device.*host memory"):
            call()
    with pytest.raises(TypeError, match=r"device memory .*copy it to the host"):
        acp.query_ga(far.Tensor(np.arange(3)))
    with pytest.raises(acp.HeapFullError, match="on the device, where 1048576 are free"):
        acp.empty(1 << 30, np.uint8, device=(far.NUMBER, 0))
    with pytest.raises(acp.DeviceError, match="INVALID_DEVICE"):
        acp.empty(8, device=(far.NUMBER, 9))
    with pytest.raises(acp.DeviceError, match="no kind of memory has the number 7"):
        acp.empty(8, device="vulkan")
    for wrong in ("tape", "cuda:x", 3.5):
        with pytest.raises(TypeError, match="is not a device"):
            acp.empty(8, device=wrong)
    with pytest.raises(ValueError, match="step 1"):
        array[::2]


def test_memory_of_another_rank_is_viewed_as_it_is_mapped_here():
    array = acp.empty(1000, np.int32, device=(far.NUMBER, 0))
    array.set(np.arange(1000) + acp.rank())
    place = acp.allgather(array.ga)[peer()] + 40
    if not CAN_LOAD and acp.procs() > 1:
        with pytest.raises(acp.AddressError):
            acp.view(place, 10, np.int32)
        return
    view = acp.view(place, (5, 2), np.int32)
    assert isinstance(view, acp.DeviceArray)
    assert (view.ga, view.device) == (place, "ext:0")
    assert (view.get().ravel() == np.arange(10, 20) + peer()).all()
    with pytest.raises(ValueError, match=r"is a view.*array\.ga"):
        acp.register_memory(view)
    acp.sync()
    address, values = _engine.dlpack_place(view[2:].__dlpack__())[0], np.full(6, -acp.rank(), "i4")
    far.library().far_poke(address, values.ctypes.data, values.nbytes)  # as a kernel stores
    acp.put(place, view[4])
    acp.sync()
    expected = np.full(10, -((acp.rank() - 1) % acp.procs()))
    expected[2:4] = np.arange(12, 14) + acp.rank()
    assert (array.get()[10:20] == expected).all()
    acp.sync()
    closing = threading.Thread(target=array.close)
    closing.start()  # its memory stays until the view is closed, else the process ends
    far.library().far_peek(address, values.ctypes.data, values.nbytes)
    assert (values == -acp.rank()).all()
    view.close()
    closing.join()
    assert view.closed
    acp.sync()


def test_why_memory_of_another_rank_is_not_mapped_is_said():
    others = sorted(set(range(acp.procs())) - {acp.rank()})
    looks = [device_roads.look()]
    far.library().far_set(0, 1, 0, 1, 100_000)
    looks.append(device_roads.look())
    with acp.empty(8, device=(far.NUMBER, 0)) as array:
        place = acp.allgather(array.ga)[peer()]
        far.library().far_set(0, 1, 1, 1, 100_000)
        for look, reach in zip(looks, ("mapped", "by its owner: this memory cannot"), strict=True):
            ways = {rank: how for rank, name, how in look if name == "ext:0"}
            assert list(ways) == others
            if ROAD == "hosts":  # of the others some are on this one
                ways = {peer(): ways[peer()]}
            expected = reach if CAN_LOAD else "through host memory"
            assert all(how.startswith(expected) for how in ways.values())
        if CAN_LOAD and acp.procs() > 1:
            with pytest.raises(acp.AddressError, match="this memory cannot be exported; put, get"):
                acp.view(place, 8)
        acp.sync()


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


def test_short_arrays_share_a_block_which_goes_with_the_last():
    def blocks():
        return next(each for each in acp.devices() if each.name == "ext:1").blocks

    before = blocks()
    arrays = [acp.empty((3, k + 1), np.int16, device=(far.NUMBER, 1)) for k in range(20)]
    for k, array in enumerate(arrays):
        array.set(k + 100 * acp.rank())
    assert blocks() == before + 1
    places = acp.allgather([array.ga for array in arrays])[peer()]
    for k, place in enumerate(places):
        there = acp.remote(place, (3, k + 1), np.int16)
        assert (there[:] == k + 100 * peer()).all()
    acp.sync()
    kept = arrays.pop(7)
    place = kept.ga
    arrays.pop().close()
    arrays.clear()
    acp.put(place, np.full((3, 8), -7, np.int16))
    assert (kept.get() == -7).all()
    assert blocks() == before + 1
    long = acp.empty(1 << 20, np.uint8, device=(far.NUMBER, 1))  # has one of its own
    assert blocks() == before + 2
    long.close()
    kept.close()
    acp.empty(1 << 20, np.uint8, device=(far.NUMBER, 1)).close()  # dropped ones have ended by now
    assert blocks() == before
    acp.sync()


def test_the_part_of_a_short_array_that_has_gone_is_used_again():
    def block(array):
        return array._side("put")[0].address

    first = acp.empty(1000, np.uint8, device=(far.NUMBER, 1))
    second = acp.zeros(1000, np.uint8, device=(far.NUMBER, 1))
    place, kept = first._side("put")[1], block(second)
    assert acp.allgather(first.ga)[acp.rank()] == first.ga
    acp.sync()
    first.close()
    third = acp.empty(700, np.uint8, device=(far.NUMBER, 1))
    assert (block(third), third._side("put")[1]) == (kept, place)
    third.set(9)
    assert not second.get().any()
    long = acp.empty(1 << 18, np.uint8, device=(far.NUMBER, 1))
    place, ga = long._side("put")[1], long.ga
    del long  # the next one ends it
    with acp.empty(1 << 17, np.uint8, device=(far.NUMBER, 1)) as half:
        assert half._side("put")[1] == place
        assert half.ga != ga
        with pytest.raises(acp.AddressError):
            acp.get(ga, bytearray(8))
    for array in (second, third):
        array.close()
    acp.sync()


def test_no_part_is_used_again_while_anybody_views_the_block():
    array, other = (acp.zeros(1000, np.uint8, device=(far.NUMBER, 1)) for _ in range(2))
    places, own = acp.allgather(array.ga), acp.view(array.ga, 1000, np.uint8)
    views = [own, acp.view(places[peer()], 1000, np.uint8)] if CAN_LOAD else [own]
    acp.sync()
    begin = array._side("put")[1]
    array.close()
    for view in views:
        with acp.empty(1000, np.uint8, device=(far.NUMBER, 1)) as new:
            assert new._side("put")[1] != begin
        acp.sync()
        view.close()
        acp.sync()
    with acp.empty(1000, np.uint8, device=(far.NUMBER, 1)) as new:
        assert new._side("put")[1] == begin
    other.close()
    acp.sync()


def test_host_memory_has_an_address_in_kernels_or_it_is_said_why_not():
    flag = acp.zeros(1, np.uint64)
    with pytest.raises(acp.DeviceError, match="host memory has no address in kernels of ext"):
        acp.device_pointer(flag, (far.NUMBER, 0))


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


class Shown:
    """What has the CUDA array interface."""

    def __init__(self, **shown):
        self.__cuda_array_interface__ = {
            "shape": (4, 4), "typestr": "<f8", "data": (1 << 40, False), "version": 3, **shown
        }  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "error"),
    [
        ({"strides": (8, 32)}, "contiguous"),
        ({"strides": (64, 8)}, "contiguous"),
        ({"data": (1 << 40, True)}, "read-only"),
        ({"shape": (0, 4), "data": (0, False)}, "no elements"),
        ({"mask": object()}, "mask"),
    ],
)
def test_the_array_interface_is_read_with_care(shown, error):
    with pytest.raises((ValueError, TypeError), match=error):
        acp.register_memory(Shown(**shown))


def test_contiguous_strides_and_streams_are_understood(monkeypatch):
    monkeypatch.setattr(_engine, "device_adopt", lambda *given: (given[:5], 3))
    block, offset, size, stream = device_memory.found(Shown(strides=(32, 8), stream=5), "put")
    assert block == ("put", 2, -1, 1 << 40, 128)
    assert (offset, size, stream) == (3, 128, 5)
    assert device_memory.found(Shown(shape=(1, 4), strides=(99, 8)), "put")[2:] == (32, None)
    assert device_memory.found(Shown(data=(1 << 40, True)), "put")[2] == 128


class Capsules:
    """What gives its memory by DLPack alone."""

    def __init__(self, shape=(4, 4), place=(2, 1), **given):
        self.place, self.given, self.asked = place, {"shape": shape, **given}, []

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        return self


@pytest.fixture
def memory_of_the_driver(monkeypatch):
    """No driver is asked; a capsule shows what its exporter was given."""

    def place(capsule):
        shown = {"address": 1 << 40, "strides": None, "read_only": False, **capsule.given}
        of_device = (shown["address"], *capsule.place)
        return *of_device, shown["shape"], shown["strides"], 8, shown["read_only"], 0, 2

    monkeypatch.setattr(_engine, "device_adopt", lambda *given: (given[:5], 3))
    monkeypatch.setattr(_engine, "dlpack_place", place)


@pytest.mark.usefixtures("memory_of_the_driver")
@pytest.mark.parametrize("place", [(2, 1), (13, 0), (4, 0)])
def test_memory_is_found_by_dlpack(place):
    array = Capsules(place=place)
    kind = 2 if place[0] == 13 else place[0]  # CUDA's driver knows managed memory by its address
    assert device_memory.found(array, "put") == (
        ("put", kind, place[1], 1 << 40, 128),
        3,
        128,
        None,
    )
    assert array.asked == [{} if kind == 4 else {"stream": -1}]  # no order is asked for
    assert device_memory.found(Capsules(read_only=True), "put")[2] == 128
    for wrong, error in (({"strides": (1, 4)}, "contiguous"), ({"shape": (0,)}, "no elements")):
        with pytest.raises(ValueError, match=error):
            device_memory.found(Capsules(**wrong), "put")
    for function in ("get", "iget", "register_memory"):
        with pytest.raises(ValueError, match="read-only"):
            device_memory.found(Capsules(read_only=True), function)


@pytest.mark.usefixtures("memory_of_the_driver")
def test_a_tensor_of_pytorch_is_behind_its_current_stream(monkeypatch):
    class Tensor(Shown):
        device = "cuda:1"

    torch, asked = types.ModuleType("torch"), []
    torch.Tensor, torch.cuda = Tensor, types.SimpleNamespace()
    current = types.SimpleNamespace(cuda_stream=77)
    torch.cuda.current_stream = lambda device: asked.append(device) or current
    tensor = Tensor(version=2)
    assert device_memory.found(tensor, "put")[3] is None  # PyTorch has not been loaded
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert device_memory.found(tensor, "put")[3] == 77
    assert asked == ["cuda:1"]
    assert device_memory.found(Shown(), "put")[3] is None
    assert device_memory.found(Tensor(stream=5), "put")[3] == 5


def test_devices_are_named_as_other_libraries_do():
    device = type("Device", (), {"__module__": "cupy.cuda.device", "id": 3})
    torch = types.SimpleNamespace
    for given, expected in (
        ("cuda", (2, -1)), ("cuda:1", (2, 1)), ("opencl:2", (4, 2)), ((2, 5), (2, 5)),
        (torch(type="cuda", index=None), (2, -1)), (torch(type="cuda", index=2), (2, 2)),
        (device(), (2, 3)),
    ):  # fmt: skip
        assert device_memory.device_of(given, "empty") == expected


def test_a_registration_ends_while_others_copy():
    tensor, host = far.Tensor(np.full(100_000, acp.rank())), acp.zeros(100_000, int)
    key = acp.register_memory(tensor)
    there, copied = (
        acp.allgather(acp.query_ga(key))[peer()],
        acp.allgather(acp.query_starter_ga(acp.rank())),
    )
    acp.put(copied[acp.rank()], np.zeros(1, np.uint64))
    acp.sync()

    def copy():
        while True:
            acp.wait(acp.copy(acp.query_ga(host), there, host.nbytes))
            assert (host == peer()).all()
            acp.fetch_add8(copied[peer()], 1)

    def copy_on():
        with pytest.raises(acp.AddressError):
            copy()

    copying = threading.Thread(target=copy_on)
    copying.start()
    acp.wait_until(copied[acp.rank()], ">=", 3)
    key.close()
    tensor.free()  # ends the process if a copy runs there, or anybody has it imported
    copying.join()
    acp.sync()


def test_the_devices_are_listed():
    listed = [each for each in acp.devices() if each.name.startswith("ext")]
    assert [each.name for each in listed] == ["ext:0", "ext:1"]
    assert listed[0].model == "far device 0"
    assert listed[0].active
    assert listed[0].size == 2 << 20
    assert listed[0].uuid != listed[1].uuid
    assert len(listed[0].uuid) == 32
    assert not listed[0].reason
