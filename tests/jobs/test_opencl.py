"""OpenCL arrays in started jobs, and the engine's own test of that kind of memory."""

import os
import subprocess
import sys
from importlib.util import find_spec

import launch
import numpy as np
import opencl
import pytest

import acp_mpi as acp

ROADS = {road: launch.ROADS[road] for road in ("any", "owner", "link")}


def test_the_kind_does_what_the_engine_relies_on():
    opencl.context()
    command = ["make", "-s", "-C", str(launch.TESTS / "engine"), "run-plain/test_opencl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "skipped" not in done.stdout, done.stdout


def imports():
    return sum(each.imports for each in acp.devices() if each.name.startswith("opencl"))


def kernels_and_copies_take_turns():
    """Each rank's kernel adds to what its left neighbour has put here, without any wait of it."""

    acp.init()
    queue = opencl.queue()
    add = opencl.program().add
    array = acp.zeros(5000, np.int32, device=queue)
    places = acp.allgather(array.ga)
    there = places[(acp.rank() + 1) % acp.procs()]
    for step in range(1, 6):
        add(queue, array.shape, None, array.buffer)
        copy = acp.empty(5000, np.int32, device=queue)
        acp.copy(copy.ga, array.ga, array.nbytes)
        acp.complete()
        acp.sync()
        acp.put(there, copy)
        acp.sync()
        assert (array.get() == step).all()
        copy.close()
    os.write(1, f"imports: {imports()}\n".encode())
    acp.sync()
    array.close()
    while imports():  # until the owner of the other one has closed it
        os.sched_yield()
    acp.finalize()


@pytest.mark.parametrize("road", ROADS)
def test_kernels_and_copies_take_turns(passes, road):
    opencl.needs_kernels()
    command = [*launch.mpiexec(2), *launch.program(kernels_and_copies_take_turns)]
    output = passes(command, ROADS[road])
    assert output.count(f"imports: {int(road == 'any')}") == 2, output


@pytest.mark.parametrize("road", ROADS)
def test_the_example_of_a_ring_runs_with_opencl(passes, road):
    opencl.context()
    example = str(launch.ROOT / "examples" / "device_ring.py")
    command = [sys.executable, example, "--device", "opencl", "--bytes", "200000"]
    output = passes([*launch.mpiexec(2), *command], ROADS[road])
    assert "200000 bytes (opencl) around 2 ranks, a step:" in output


@pytest.mark.skipif(bool(find_spec("cupy")), reason="CuPy is installed")
def test_a_device_that_is_not_there_is_said(start):
    example = str(launch.ROOT / "examples" / "device_ring.py")
    job = start([*launch.mpiexec(2), sys.executable, example, "--device", "cupy"])
    assert job.wait() == 1, job.output
    assert "device_ring: cupy: ModuleNotFoundError" in job.output
