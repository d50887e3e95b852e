"""The MPI window of a group: mpi4py's own calls and those of acp_mpi on the same memory."""

import numpy as np
import pytest
from support import ROAD, fetch, pattern, refused, right, starter, store

import acp_mpi as acp

pytestmark = pytest.mark.mpi


@pytest.fixture
def comm():
    return acp.group().comm


@pytest.fixture
def win():
    return acp.group().window


def displacement(ga):
    """Return where in the window of its rank an address is, as a program computes it."""
    return ga - acp.query_starter_ga(acp.query_rank(ga))


def place(ga, array):
    """Return the target of one of mpi4py's calls."""
    from mpi4py.util import dtlib

    return [displacement(ga), array.size, dtlib.from_numpy_dtype(array.dtype)]


def test_what_mpi_puts_is_there_for_all(win, comm):
    data = pattern(1000, acp.rank())
    win.Put(data, right(), place(starter(right(), 3001), data))
    win.Flush(right())
    comm.Barrier()
    for rank in range(acp.procs()):
        left = (rank - 1) % acp.procs()
        assert fetch(starter(rank, 3001), 1000) == pattern(1000, left).tobytes()
    mine = acp.view(starter(acp.rank(), 3001), (1000,), np.uint8)
    assert np.array_equal(mine, pattern(1000, (acp.rank() - 1) % acp.procs()))


def test_mpi_gets_what_acp_put(win, comm):
    store(starter(right(), 5000), pattern(777, acp.rank()))
    acp.sync()
    for rank in range(acp.procs()):
        data = np.zeros(777, np.uint8)
        win.Get(data, rank, place(starter(rank, 5000), data))
        win.Flush(rank)
        assert np.array_equal(data, pattern(777, (rank - 1) % acp.procs()))
    comm.Barrier()


def test_mpi_accumulates_in_global_memory(win, comm):
    from mpi4py import MPI

    total = acp.view(starter(acp.rank(), 64), (4,), np.int64)
    total[:] = 1000
    comm.Barrier()
    share = np.arange(4) + acp.rank()
    for rank in range(acp.procs()):
        win.Accumulate(share, rank, place(starter(rank, 64), share), MPI.SUM)
    win.Flush_all()
    comm.Barrier()
    procs = acp.procs()
    assert total.tolist() == [1000 + procs * i + procs * (procs - 1) // 2 for i in range(4)]
    comm.Barrier()


def test_the_window_is_the_group_s_and_as_large_on_all_ranks(win):
    from mpi4py import MPI

    assert win.Get_attr(MPI.WIN_DISP_UNIT) == 1
    assert acp.allgather(win.Get_attr(MPI.WIN_SIZE)) == [64 << 20] * acp.procs()
    assert win.Get_attr(MPI.WIN_BASE) == acp.query_address(starter(acp.rank()))
    assert acp.group(acp.group().name).window is win


def test_arrays_and_registered_memory_have_no_place_in_it():
    array = acp.zeros(100)
    key = acp.register_memory(np.zeros(100))
    for ga in (acp.query_ga(array), acp.query_ga(key)):
        assert displacement(ga) >= 64 << 20
    key.close()


def test_the_end_of_starter_memory_is_the_end_of_the_road():
    end = starter(right(), 10240)
    store(end - 16, pattern(16, acp.rank()))
    assert fetch(end - 16, 16) == pattern(16, acp.rank()).tobytes()
    with refused(acp.AddressError, "put", f"{end - 8:#x}", 16):
        acp.put(end - 8, bytes(16))
    for ga in (end, end + 4096, end + (1 << 40)):
        with refused(acp.AddressError, "get", f"{ga:#x}"):
            fetch(ga, 8)
    acp.sync()
    store(end - 16, bytes(16))


@pytest.mark.parametrize("flag", [False, True], ids=["by itself", "after data"])
def test_a_word_that_a_peer_puts_wakes_who_waits_for_it(flag):
    ga, turns = starter(right(), 2048), 5
    mine = starter(acp.rank(), 2048)
    acp.view(mine, (1,), np.int64)[0] = 0
    acp.sync()
    for turn in range(1, turns + 1):
        if acp.rank() > 0:
            acp.wait_until(mine, "==", turn)
        if flag:
            acp.put(ga + 64, pattern(100, turn), flag=(ga, turn))
        else:
            acp.put(ga, np.array([turn]))
        if acp.rank() == 0:
            acp.wait_until(mine, "==", turn)
        if flag:
            assert fetch(mine + 64, 100) == pattern(100, turn).tobytes()
        acp.sync()


def test_a_reset_permutes_the_ranks_of_the_window_too():
    old = acp.rank()
    acp.reset(right())
    store(starter(right(), 8), old.to_bytes(8, "little"))
    acp.sync()
    mine = acp.view(starter(acp.rank(), 8), (1,), np.int64)
    assert mine[0] == (old - 1) % acp.procs()
    acp.sync()
    acp.reset(old)


def test_many_copies_into_starter_memory():
    count = acp.procs() * 400
    source = acp.zeros(count, np.int64)
    source[:] = np.arange(count) + 1000 * acp.rank()
    ga = acp.query_ga(source)
    index = np.arange(400)
    for rank in range(acp.procs()):
        acp.sync()
        if rank == acp.rank():
            acp.complete(acp.copy_many(starter(right()) + 8 * index, ga + 8 * index, 8))
            back = acp.zeros(400, np.int64)
            acp.complete(
                acp.copy_many(acp.query_ga(back) + 8 * index, starter(right()) + 8 * index, 8)
            )
            assert np.array_equal(back, source[:400])
    acp.sync()


@pytest.mark.skipif(ROAD != "window", reason="only ACP_PATH=window forces that road")
def test_the_road_is_the_window():
    from acp_mpi.engine import _engine

    roads = [_engine.road(rank)[0] for rank in range(acp.procs())]
    assert roads == ["self" if rank == acp.rank() else "window" for rank in range(acp.procs())]
