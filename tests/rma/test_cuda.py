"""CUDA arrays, with a stand-in for the driver that checks every call."""

import os

import numpy as np
import pytest
import standin

import acp_mpi as acp

pytestmark = pytest.mark.mpi


@pytest.fixture(autouse=True)
def driver():
    return standin.driver()


def peer():
    return (acp.rank() + 1) % acp.procs()


def test_a_registered_array_is_copied_by_any_rank_and_given_back():
    mine = standin.Array(np.arange(1000.0) + acp.rank())
    with acp.register_memory(mine) as key:
        places = acp.allgather(acp.query_ga(key))
        host = acp.zeros(1000)
        acp.wait(acp.copy(acp.query_ga(host), places[peer()], host.nbytes))
        assert (host == np.arange(1000.0) + peer()).all()
        acp.sync()
        acp.put(places[peer()] + 8, np.array([-1.0, -2.0]))
        acp.sync()
        assert mine.numpy()[:4].tolist() == [acp.rank(), -1, -2, acp.rank() + 3]
        acp.sync()
    mine.free()
    acp.sync()


def test_arrays_of_ours_go_from_device_to_device():
    with acp.zeros(5000, np.int32, device="cuda") as array:
        assert array.device == "cuda:0"
        assert (array.get() == 0).all()
        source = standin.Array(np.full(5000, acp.rank(), np.int32))
        places = acp.allgather(array.ga)
        acp.sync()
        acp.put(places[peer()], source)
        acp.sync()
        assert (array.get() == (acp.rank() - 1) % acp.procs()).all()
        back = standin.Array(np.zeros(5000, np.int32))
        acp.get(places[peer()], back)
        assert (back.numpy() == acp.rank()).all()
        acp.sync()
    source.free()
    back.free()


def test_cuda_without_a_number_is_the_current_device_and_short_arrays_share_a_block_there():
    arrays = [acp.zeros(100, device=name) for name in ("cuda", "cuda:0", "cuda", (2, -1))]
    assert {array.device for array in arrays} == {"cuda:0"}
    assert len({array._side("put")[0].address for array in arrays}) == 1
    for k, array in enumerate(arrays):
        array.set(k)
    assert [array.get()[99] for array in arrays] == [0, 1, 2, 3]
    for array in arrays:
        array.close()


def test_an_operation_starts_behind_the_stream_of_its_array(driver):
    values = [np.full(1000, k, np.uint8) for k in (1, 2)]
    target = acp.zeros(1000, np.uint8)
    for stream in (None, standin.stream()):
        array = standin.Array(np.zeros(1000, np.uint8), stream)
        for value in values:
            driver.standin_hold(stream)
            array.fill(value)
            handle = acp.iput(acp.query_ga(target), array)
            driver.standin_go_on(stream)
            acp.wait(handle)
            assert (target == value).all()
        array.free()


def test_a_stream_goes_on_after_an_operation(driver):
    array, target = standin.Array(np.zeros(1000, np.uint8)), acp.zeros(1000, np.uint8)
    first, second = standin.stream(), standin.stream()
    seven, nine = np.full(1000, 7, np.uint8), np.full(1000, 9, np.uint8)
    driver.standin_hold(first)
    array.stream = first
    array.fill(seven)
    handle = acp.iput(acp.query_ga(target), array)
    acp.after(handle, second)  # returns, though the first stream stands still
    array.stream = second
    array.fill(nine)
    driver.standin_go_on(first)
    acp.wait(handle)
    assert (target == 7).all()
    acp.put(acp.query_ga(target), array)
    assert (target == 9).all()
    array.free()


def test_kernels_reach_global_memory_of_the_host(driver):
    flags = acp.zeros(1000, np.uint64)
    pointer = acp.device_pointer(flags)
    assert acp.device_pointer(flags[10:20]) == pointer + 80
    array = standin.Array(np.full(2, 5, np.uint64))
    standin.call(driver.cuMemcpyAsync, pointer + 16, array.address, 16, None)  # as a kernel stores
    while flags[3] != 5:
        os.sched_yield()
    assert flags[1:5].tolist() == [0, 5, 5, 0]
    array.free()


def test_devices_are_listed_and_errors_are_the_drivers():
    device = next(each for each in acp.devices() if each.name.startswith("cuda"))
    assert (device.name, device.model, device.active) == ("cuda:0", "stand-in 0", True)
    with pytest.raises(acp.HeapFullError, match="on the device"):
        acp.empty(1 << 40, np.uint8, device="cuda")
    with pytest.raises(acp.DeviceError, match="no device cuda:7"):
        acp.empty(8, device="cuda:7")
