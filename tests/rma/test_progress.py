"""`progress`: a program's own MPI windows move while their owner computes."""

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI
from support import pattern, right

import acp_mpi as acp

pytestmark = pytest.mark.mpi
WORDS = 1000


@pytest.fixture
def comm():
    return acp.group().comm


@pytest.fixture
def window(comm):
    """A window as programs make them, and its memory."""
    memory = np.zeros(WORDS, np.int64)
    win = MPI.Win.Create(memory, 8, comm=comm)
    win.Lock_all()
    yield win, memory
    win.Unlock_all()
    win.Free()


def threads():
    return {int(entry.name) for entry in Path("/proc/self/task").iterdir()}


def await_only(before):
    """Wait until no new thread is left: one that has been joined is still on its way out.

    So may be one of those before, of the last test.
    """
    compute_until(lambda: threads() <= before)


def compute_until(condition):
    """Compute without a call of MPI; the test's own limit ends it."""
    numbers = np.arange(1000.0)
    while not condition():
        numbers = np.sqrt(numbers + 1)


def test_a_put_arrives_while_its_target_computes(window, comm):
    win, memory = window
    comm.Barrier()
    with acp.progress():
        data = pattern(8 * WORDS, acp.rank()).view(np.int64)
        left = (acp.rank() - 1) % acp.procs()
        expected = pattern(8 * WORDS, left).view(np.int64)
        sender = threading.Thread(target=lambda: (win.Put(data, right()), win.Flush(right())))
        sender.start()
        compute_until(lambda: np.array_equal(memory, expected))
        sender.join()
    comm.Barrier()


def test_every_other_rank_s_calls_go_on_while_rank_0_computes(window, comm):
    win, memory = window
    comm.Barrier()
    if acp.rank() == 0:
        with acp.progress():
            compute_until(lambda: memory[0] == acp.procs() - 1)
    else:
        one, old = np.ones(WORDS, np.int64), np.empty(WORDS, np.int64)
        win.Accumulate([one[1:], MPI.INT64_T], 0, [1, WORDS - 1, MPI.INT64_T], MPI.SUM)
        win.Flush(0)
        win.Get(old, 0)
        win.Flush(0)
        assert 1 <= old[1] <= acp.procs() - 1
        win.Fetch_and_op(one[:1], old[:1], 0, 0, MPI.SUM)
        win.Flush(0)
    comm.Barrier()
    if acp.rank() == 0:
        assert memory.tolist() == [acp.procs() - 1] * WORDS


def test_nothing_is_left_at_the_end():
    before = threads()
    with acp.progress() as it:
        assert len(threads() - before) == 1
        compute_until(lambda: it.statistics().looks > 2)
    await_only(before)
    assert it.statistics() == acp.ProgressStatistics(0, 0.0)


def test_blocks_nest_and_are_entered_again():
    before = threads()
    it = acp.progress(1e-3)
    for _ in range(2):
        with it, acp.progress(1e-5), it:
            assert len(threads() - before) == 1
            (thread,) = threads() - before
        await_only(before)
    with it:
        with acp.progress(1e-5):
            (thread,) = threads() - before
        assert threads() - before == {thread}
    await_only(before)


def test_several_threads_enter_at_once():
    before, inside = threads(), threading.Barrier(4)

    def enter():
        for _ in range(50):
            with acp.progress():
                pass
        with acp.progress():
            inside.wait()
            inside.wait()

    others = [threading.Thread(target=enter) for _ in range(3)]
    for each in others:
        each.start()
    inside.wait()
    compute_until(lambda: len(threads() - before) == 4)  # theirs, and one that drives MPI
    inside.wait()
    for each in others:
        each.join()
    await_only(before)


def interrupt_itself():
    with acp.progress():
        os.kill(os.getpid(), signal.SIGINT)
        compute_until(lambda: False)


def test_an_error_or_ctrl_c_ends_it_too():
    before = threads()
    with pytest.raises(KeyboardInterrupt):
        interrupt_itself()
    await_only(before)


@pytest.mark.parametrize("interval", [0, -1.0, 1e-7, 2.0, float("nan")])
def test_an_interval_that_is_none(interval):
    for other in ("1e-4", None):
        with pytest.raises(TypeError, match=r"progress: interval=.* not a number of seconds; "):
            acp.progress(other)
    with pytest.raises(ValueError, match=r"progress: interval=.* 1e-06 to 1 seconds"):
        acp.progress(interval)
