"""Device memory: what is copied, what is shared, and what cannot be done with it."""

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

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("far_kind")]


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
