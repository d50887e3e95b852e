"""A delegate saves, loads and brings together memory of a device."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import launch
import pytest
from delegating import the_delegate
from growing import PATIENCE

import acp_mpi as acp


def arrays_of(kind):
    """Return a function that makes an array of a library, one that makes ours, and a queue."""
    if kind == "far":
        import far

        far.begin()
        return far.Tensor, lambda n: acp.zeros(n, device=(far.NUMBER, 0)), None
    if kind == "cuda":
        import standin

        standin.driver()
        return standin.Array, lambda n: acp.zeros(n, device="cuda"), None
    import opencl
    from pyopencl import array

    queue = opencl.queue()
    return lambda x: array.to_device(queue, x), lambda n: acp.zeros(n, device=queue), queue


def save_and_load_of_a_device(folder, kind, local):
    import numpy as np

    acp.init()
    d = the_delegate(local == "True")
    theirs, ours, queue = arrays_of(kind)
    values = np.random.default_rng(acp.rank()).random(100_000)
    one, two = (Path(folder, f"{acp.rank()}-{i}.npy") for i in range(2))
    mine, array = theirs(values), ours(100_000)
    array.set(values)
    for snapshot in (True, False):
        d.save(one, mine, snapshot=snapshot).wait(PATIENCE)
        d.save(two, array[100:300], snapshot=snapshot).wait(PATIENCE)
        assert np.array_equal(np.load(one), values)
        assert np.array_equal(np.load(two), values[100:300])
    d.save(two, values[::-1]).wait(PATIENCE)
    d.load(two, array[:500], at=7).wait(PATIENCE)
    assert np.array_equal(array.get()[:501], [*values[::-1][7:507], values[500]])
    d.load(two, mine).wait(PATIENCE)
    d.save(one, mine).wait(PATIENCE)
    assert np.array_equal(np.load(one), values[::-1])
    with pytest.raises(ValueError, match="has 100000 elements"):
        d.load(one, array, at=1).wait(PATIENCE)
    with pytest.raises(TypeError, match="elements of float64"):
        d.load(one, theirs(np.zeros(5, "f4"))).wait(PATIENCE)
    if queue is not None:
        save_behind_a_queue(d, queue, array, one)
    acp.sync()
    acp.finalize()


def save_behind_a_queue(d, queue, array, path):
    """What the queue is to do first, and has not begun, is in the file."""
    import numpy as np
    import opencl
    import pyopencl as cl

    held = opencl.Held(queue)
    cl.enqueue_fill_buffer(queue, array.buffer, np.float64(3), 0, array.nbytes)

    def let_go():
        acp.waitall([d.ping() for _ in range(100)], timeout=PATIENCE)
        held.go_on()

    with ThreadPoolExecutor() as pool:
        over = pool.submit(let_go)
        d.save(path, array).wait(PATIENCE)
        over.result()
    assert (np.load(path) == 3).all()


def bring_together(kind):
    import numpy as np

    acp.init()
    d = the_delegate()
    theirs, ours, _ = arrays_of(kind)
    here, ranks = acp.rank(), acp.ranks()
    for length in (5, 70_000):
        given = [np.arange(length) + 10.0 * rank for rank in ranks]
        mine, array, out = theirs(given[here]), ours(length), np.zeros(length)
        assert d.allreduce(mine, out=array).wait(PATIENCE) is array
        assert np.array_equal(array.get(), sum(given))
        d.allreduce(array, out=array).wait(PATIENCE)
        assert np.array_equal(array.get(), len(ranks) * sum(given))
        d.allreduce(mine, "max", out=out).wait(PATIENCE)
        assert np.array_equal(out, given[-1])
        total = d.reduce(mine, root=0).wait(PATIENCE)
        rows = d.gather(mine, 0).wait(PATIENCE)
        if here == 0:
            assert np.array_equal(total, sum(given))
            assert np.array_equal(rows, given)
        array.set(given[here])
        assert d.bcast(array, ranks[-1]).wait(PATIENCE) is array
        assert np.array_equal(array.get(), given[-1])
    acp.sync()
    acp.finalize()


def needs(kind):
    if kind == "opencl":
        import opencl

        opencl.context()
    elif not shutil.which("gcc"):
        pytest.skip("gcc is missing")


@pytest.mark.parametrize("kind", ["far", "cuda", "opencl"])
def test_memory_of_devices_is_brought_together(passes, kind):
    needs(kind)
    passes([*launch.mpiexec(2), *launch.program(bring_together, kind)])


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("kind", ["far", "cuda", "opencl"])
def test_memory_of_a_device_is_saved_and_loaded(passes, folder, kind, local):
    needs(kind)
    program = launch.program(save_and_load_of_a_device, folder, kind, local)
    passes([*launch.mpiexec(2), *program])
