"""`progress` in programs that know only mpi4py: how it begins, how programs end around it."""

import os
import sys
import threading
import time

import launch
import pytest

import acp_mpi as acp


def refuses(it, reason):
    """Enter it, and look at why that is refused."""
    try:
        it.__enter__()
    except acp.Error as error:
        if reason in str(error):
            return True
        raise
    raise AssertionError("it was entered")


def a_rank_is_put_to_while_it_computes():
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    memory = np.zeros(1, np.int64)
    win = MPI.Win.Create(memory, 8, comm=comm)
    comm.Barrier()
    if comm.rank == 0:
        with acp.progress():
            while memory[0] != comm.size - 1:  # no call of MPI
                pass
    else:
        win.Lock(0, MPI.LOCK_SHARED)
        win.Accumulate(np.ones(1, np.int64), 0)
        win.Unlock(0)
    assert not acp.is_initialized()
    win.Free()


def it_finalizes_mpi_inside():
    from mpi4py import MPI

    with acp.progress() as it:
        while it.statistics().looks < 3:
            pass
        MPI.Finalize()
        assert it.statistics().looks == 0  # no thread
    refuses(it, "before MPI.Finalize()")


def it_ends_with_an_open_block():
    inside = threading.Event()

    def hold():
        with acp.progress():
            inside.set()
            threading.Event().wait()

    threading.Thread(target=hold, daemon=True).start()
    inside.wait()


def it_ends_while_a_thread_enters_again_and_again():
    begun = threading.Event()

    def enter():
        while True:
            with acp.progress():
                begun.set()
                time.sleep(1e-3)

    acp.init()  # which ends at exit, after the thread that drives MPI
    threading.Thread(target=enter, daemon=True).start()
    begun.wait()


def it_asks_for_one_thread_only(level):
    import mpi4py

    mpi4py.rc.thread_level = level
    refuses(acp.progress(), f"thread level {level.upper()}")
    refuses(acp.progress(), 'mpi4py.rc.thread_level = "multiple"')


def it_forks_inside():
    from mpi4py import MPI

    with acp.progress() as it:
        child = os.fork()
        if child == 0:
            assert it.statistics() == acp.ProgressStatistics(0, 0.0)
            assert refuses(it, "forked child")
        else:
            assert len(os.listdir("/proc/self/task")) > 1
    if child == 0:  # it has left its parent's block, too
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not MPI.Is_finalized()


def it_starts_acp_inside():
    with acp.progress(), acp.init():
        assert acp.fetch_add8(acp.query_starter_ga(0), 1) < acp.procs()
        acp.sync()
    with acp.init(), acp.progress():
        acp.sync()


PROGRAMS = {
    "puts_to_a_rank_that_computes": (a_rank_is_put_to_while_it_computes, []),
    "finalizes_mpi_inside": (it_finalizes_mpi_inside, []),
    "ends_with_an_open_block": (it_ends_with_an_open_block, []),
    "ends_while_a_thread_enters": (it_ends_while_a_thread_enters_again_and_again, []),
    "has_one_thread_only": (it_asks_for_one_thread_only, ["serialized"]),
    "forks_inside": (it_forks_inside, []),
    "starts_acp_inside": (it_starts_acp_inside, []),
}


@pytest.mark.parametrize("which", PROGRAMS)
def test_a_program_that(start, which):
    program, arguments = PROGRAMS[which]
    job = start([*launch.mpiexec(2), *launch.program(program, *arguments)])
    assert job.wait() == 0, job.output


@pytest.mark.smoke
def test_without_a_launcher(start):
    job = start(launch.program(it_finalizes_mpi_inside))
    assert job.wait() == 0, job.output


def test_without_mpi4py_the_error_says_what_is_missing(start):
    program = (
        "import sys; sys.modules['mpi4py'] = None;import acp_mpi as acp; acp.progress().__enter__()"
    )
    job = start([sys.executable, "-c", program])
    assert job.wait() == 1
    assert "mpi4py" in job.output
