"""Device memory at the end of a job: of the addresses, of the arrays, of a process."""

import os
import sys
from pathlib import Path

import far
import launch
import numpy as np
import pytest
import standin
from support import CAN_LOAD

import acp_mpi as acp

RANKS = 3
ROADS = {road: launch.ROADS[road] for road in ("any", "owner", "nodes")}


def begin():
    """Return a registered tensor, its key, an array, and the addresses of the rank on the right."""
    acp.init()
    far.begin()
    tensor = far.Tensor(np.arange(1000.0))
    key = acp.register_memory(tensor)
    array = acp.zeros(100, device=(far.NUMBER, 0))
    places = acp.allgather((acp.query_ga(key), array.ga))
    theirs = places[(acp.rank() + 1) % acp.procs()]
    acp.copy(array.ga, theirs[1], 800)
    acp.copy(theirs[0], array.ga, 80)
    acp.complete()
    acp.sync()
    return tensor, key, array, theirs


def views(theirs):
    """Return views of the memory of the rank on the right; of none where it cannot be mapped."""
    return [acp.view(each, 100) for each in theirs] if CAN_LOAD else []


def outlive_finalize():
    tensor, key, array, theirs = begin()
    seen = views(theirs)
    acp.finalize()
    assert all(view.closed for view in seen)
    tensor.free()  # ends the process if anybody has it imported
    assert key.closed
    with pytest.raises(acp.NotInitializedError, match=r"acp\.init"):
        array.get()
    assert len(array[3:]) == 97  # its memory stays, and ends with it
    array.close()
    array.close()
    acp.init()
    far.begin()
    with acp.zeros(5, device=(far.NUMBER, 0)) as again:
        again.set(3)
        assert again.get()[4] == 3
    acp.finalize()


def outlive_reset():
    tensor, key, array, theirs = begin()
    seen = views(theirs)
    acp.reset((acp.rank() + 1) % acp.procs())
    assert all(view.closed for view in seen)
    assert key.closed
    tensor.free()
    array.set(acp.rank())
    places = acp.allgather(array.ga)  # a new one
    host = np.zeros(100)
    acp.get(places[acp.rank() - 1], host)
    assert host[99] == (acp.rank() - 1) % acp.procs()
    acp.sync()
    array.close()


def end_with_all_open():
    _, _, array, theirs = begin()
    acp.copy(array.ga, theirs[1], 800)
    sys.exit(0)


def are_dropped():
    tensor, _, array, theirs = begin()
    del array
    acp.empty(5, device=(far.NUMBER, 1)).set(1)  # ends the address of the one that is gone
    acp.sync()
    with pytest.raises(acp.AddressError):
        acp.get(theirs[1], np.zeros(100))
    acp.sync()
    assert tensor.numpy()[20] == 20


def a_child_does_not_use_it():
    _, _, array, _ = begin()
    child = os.fork()
    if child == 0:
        with pytest.raises(acp.NotInitializedError):
            array.get()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert array.get()[0] == 0


def loads_no_driver():
    """A program without device memory loads neither the driver nor a module for it."""
    acp.init()
    array = acp.zeros(1000)
    places = acp.allgather(acp.query_ga(array))
    acp.put(places[(acp.rank() + 1) % acp.procs()], np.ones(1000))
    acp.send(array, (acp.rank() + 1) % acp.procs())
    acp.recv(array)
    acp.sync()
    assert not drivers()
    assert not {"torch", "cupy", "jax", "numba", "pyopencl"} & set(sys.modules)
    assert not {name for name in sys.modules if name.startswith("acp_mpi") and "device" in name}
    acp.empty(1, device="cuda")
    assert "libcuda" in drivers()


def drivers():
    maps = Path("/proc/self/maps").read_text()
    return [name for name in ("libcuda", "libOpenCL", "libpocl") if name in maps]


ENDS = [outlive_finalize, outlive_reset, end_with_all_open, are_dropped, a_child_does_not_use_it]


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_memory_goes_back_when_nobody_uses_it(passes, end, road):
    passes([*launch.mpiexec(RANKS), *launch.program(end)], ROADS[road])


def test_a_program_without_device_memory_loads_no_driver(passes, tmp_path):
    standin.build(tmp_path)
    passes(
        [*launch.mpiexec(2), *launch.program(loads_no_driver)], {"LD_LIBRARY_PATH": str(tmp_path)}
    )
