"""What went wrong in the C library: starts that hang, jobs that mix, errors nobody sees."""

import itertools
import logging
import os
import re
import sys
from pathlib import Path

import launch
import numpy as np
import pytest
from dying import sync_before_the_end_of

import acp_mpi as acp

RANKS = 3


# Fault 1: start and end lose wake-ups ---------------------------------------------------------


def start_and_end():
    with acp.init():
        assert acp.allgather(acp.rank()) == list(range(acp.procs()))


def start_and_end_many_times(times):
    for _ in range(int(times)):
        start_and_end()
        assert not acp.is_initialized()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("road", launch.ROADS)
def test_a_process_can_start_and_end_fifty_times(passes, road):
    command = [*launch.mpiexec(RANKS), *launch.program(start_and_end_many_times, 50)]
    passes(command, launch.ROADS[road], limit=250.0)


@pytest.mark.timeout(300)
def test_ten_jobs_start_and_end(passes):
    for index in range(10):
        passes([*launch.mpiexec(1 + index % 4), *launch.program(start_and_end)])


def test_a_process_alone_starts_and_ends_without_a_launcher(passes):
    for mpi in "01":
        passes(launch.program(start_and_end), {"ACP_MPI": mpi})


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_thousand_jobs_start_and_end(passes):
    roads = list(launch.ROADS.values())
    for index in range(1000):
        passes(
            [*launch.mpiexec(1 + index % 4), *launch.program(start_and_end)],
            roads[index // 4 % len(roads)],
        )


def end_without_finalize():
    acp.init()
    acp.fetch_add8(acp.query_starter_ga(0), 1)


def test_a_program_that_does_not_finalize_ends_all_the_same(passes):
    passes([*launch.mpiexec(RANKS), *launch.program(end_without_finalize)])


# Fault 4 and 6: the end of one is known to all ------------------------------------------------


def fail_on_one_rank():
    acp.init()
    if acp.rank() == 1:
        raise ZeroDivisionError("the reason")
    acp.sync()


@pytest.mark.parametrize("road", launch.ROADS)
def test_an_uncaught_exception_ends_its_group_with_the_traceback(start, road):
    job = start([*launch.mpiexec(RANKS), *launch.program(fail_on_one_rank)], launch.ROADS[road])
    assert job.wait() != 0
    assert "in fail_on_one_rank" in job.output
    assert "ZeroDivisionError: the reason" in job.output
    assert job.output.index("Traceback") < job.output.index("ZeroDivisionError")
    launch.until(lambda: not job.processes())


def fail_below_a_hook_of_an_earlier_job():
    acp.init()
    ours = sys.excepthook

    def over(*what):
        print("said by the program in", os.getpid())
        ours(*what)

    sys.excepthook = over
    acp.finalize()
    fail_on_one_rank()


def test_a_hook_that_was_put_over_that_of_an_earlier_job(fails):
    program = launch.program(fail_below_a_hook_of_an_earlier_job)
    output = fails([*launch.mpiexec(RANKS), *program])
    said = re.findall(r"said by the program in (\d+)", output)  # others may hear of the loss
    assert said
    assert len(said) == len(set(said))
    assert "ZeroDivisionError: the reason" in output


def fail_inside_with():
    with acp.init():
        if acp.rank() == 0:
            raise KeyError("inside")
        acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1)


@pytest.mark.smoke
def test_an_exception_inside_a_with_block_is_no_hang_either(fails):
    assert "KeyError: 'inside'" in fails([*launch.mpiexec(2), *launch.program(fail_inside_with)])


def abort_on_one_rank():
    acp.init()
    if acp.rank() == acp.procs() - 1:
        acp.abort("enough is enough")
    acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1)


@pytest.mark.parametrize("ranks", [1, RANKS])
def test_abort_ends_the_group_with_the_message(fails, ranks):
    output = fails([*launch.mpiexec(ranks), *launch.program(abort_on_one_rank)])
    assert "enough is enough" in output
    assert f"rank {ranks - 1}" in output


def abort_with_a_closed_stream():
    acp.init()
    if acp.rank() == acp.procs() - 1:
        sys.stderr.close()
        acp.abort("nobody reads this")
    acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1)


def test_abort_ends_the_group_where_nothing_can_be_said(fails):
    fails([*launch.mpiexec(2), *launch.program(abort_with_a_closed_stream)])


def abort_one_of_several():
    acp.init()
    acp.allgather(acp.rank())  # on other nodes only those that know a rank hear of its end
    sync_before_the_end_of(0)
    if acp.rank() == 0:
        acp.abort("enough is enough")
    with pytest.raises(acp.PeerLostError) as caught:
        acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1)
    assert caught.value.rank in (0, None)
    acp.refresh()
    acp.sync()
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_abort_is_the_loss_of_a_rank_for_all_beyond_the_group(without_mpi, road):
    jobs = without_mpi(RANKS, launch.program(abort_one_of_several), launch.ROADS[road])
    assert [job.wait() for job in jobs] == [1, 0, 0], "\n".join(job.output for job in jobs)
    assert "rank 0: enough is enough" in jobs[0].output


def wait_for_more_than_a_minute(call):
    """Rank 1 comes when rank 0 has said what it waits for."""

    class Release(logging.Handler):
        def emit(self, record):
            print(record.getMessage(), flush=True)
            acp.put(acp.query_starter_ga(1), b"\1" * 8)

    acp.init()
    if acp.rank() == 0:
        logging.getLogger("acp_mpi.runtime").addHandler(Release())
    else:
        acp.wait_until(acp.query_starter_ga(1), "!=", 0)
        acp.put(acp.query_starter_ga(0), b"\1" * 8)
    if call == "sync":
        acp.sync()
    elif acp.rank() == 0:
        acp.wait_until(acp.query_starter_ga(0), "!=", 0)
    acp.finalize()


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("call", ["sync", "wait_until"])
@pytest.mark.parametrize("road", ["any", "link"])
def test_who_waits_for_a_minute_says_once_who_is_missing(without_mpi, road, call):
    program = launch.program(wait_for_more_than_a_minute, call)
    jobs = without_mpi(2, program, launch.ROADS[road])
    for job in jobs:
        assert job.wait(100) == 0, job.output
    said = f"rank 0 has waited for 60 s and is in {call}; rank 1 (group alone) is in wait_until"
    assert jobs[0].output.count(said) == 1, jobs[0].output


def begin_more_than_a_minute_late(path):
    """MPI process 1 comes when process 0 has said that it waits."""
    from mpi4py import MPI

    class Release(logging.Handler):
        def emit(self, record):
            print(record.getMessage(), flush=True)
            Path(path).touch()

    if MPI.COMM_WORLD.rank == 0:
        logging.getLogger("acp_mpi.runtime").addHandler(Release())
    else:
        launch.until(Path(path).exists, limit=90.0)
    acp.init()
    acp.finalize()


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_who_begins_a_minute_before_the_others_says_so(passes, tmp_path):
    program = launch.program(begin_more_than_a_minute_late, tmp_path / "said")
    said = "MPI process 0 of 2 has waited for 60 s for the others of its communicator; acp.init()"
    output = passes([*launch.mpiexec(2), *program], limit=150.0)
    assert output.count(said) == 1, output


def finalize_on_one_rank():
    acp.init()
    if acp.rank() == 0:
        acp.finalize()
    else:
        with pytest.raises(acp.Error, match=r"sync: rank 0 .*finalize"):
            acp.sync()


@pytest.mark.parametrize("road", launch.ROADS)
def test_who_waits_in_sync_for_a_rank_in_finalize_is_told(passes, road):
    passes([*launch.mpiexec(RANKS), *launch.program(finalize_on_one_rank)], launch.ROADS[road])


# Fault 5: jobs on one machine -----------------------------------------------------------------


def fill_and_check(seed):
    with acp.init():
        mine = acp.view(acp.query_starter_ga(acp.rank()), (10240,), np.uint8)
        assert not mine.any(), "starter memory shows another job's data"
        mine[:] = int(seed)
        acp.sync()
        for _ in range(20):
            for rank in range(acp.procs()):
                data = acp.get(acp.query_starter_ga(rank), np.empty(10240, np.uint8))
                assert (data == int(seed)).all(), "two jobs share memory"
            acp.sync()


@pytest.mark.smoke("any")
@pytest.mark.parametrize("road", launch.ROADS)
def test_two_jobs_on_one_machine_do_not_see_each_other(start, road):
    jobs = [
        start([*launch.mpiexec(2), *launch.program(fill_and_check, seed)], launch.ROADS[road])
        for seed in (1, 2)
    ]
    for job in jobs:
        assert job.wait() == 0, job.output


# Faults 9 and 11: without memory push_back crashes, other calls say nothing, 0 means two things ---


def insert_many(mapping, data):
    for number in range(1000):
        assert mapping.insert(number, data)  # new, or an error: never "not new"


def push_many(push, data):
    for _ in range(1000):
        push(data)


def use_containers_of_a_full_heap():
    with acp.init(heap_size=8 << 20):
        made = None
        if acp.rank() == 0:
            made = (
                acp.Vector("V999"),
                acp.Deque("V999"),
                acp.List(dtype=bytes),
                acp.Map(ranks=[0]),
            )
        vector, deque, chain, mapping = acp.bcast(made)
        data, blocks = b"x" * 999, []
        if acp.rank() == acp.procs() - 1:
            mapping[b"first"] = data
            for size in (1 << 20, 1 << 14, 1 << 10, 1 << 5, 0):
                with pytest.raises(acp.HeapFullError):
                    blocks.extend(acp.malloc(size, 0) for _ in itertools.count())
            for push in (vector.push_back, deque.push_front, chain.push_back):
                name = rf"{type(push.__self__).__name__}\.{push.__name__}"
                with pytest.raises(acp.HeapFullError, match=f"^{name}: "):
                    push_many(push, data)
            with pytest.raises(acp.HeapFullError, match=r"^Map\.insert: "):
                insert_many(mapping, data)
            assert not mapping.insert(b"first", b"")
            with pytest.raises(acp.HeapFullError, match=r"^Vector: .* on rank 0"):
                acp.Vector("q", rank=0)
            with pytest.raises(acp.HeapFullError):
                acp.Workspace(1000)
            assert set(vector) <= {data}
            assert set(deque) <= {data}
            assert set(chain) <= {data}
            assert set(mapping.values()) == {data}
            for ga in blocks:
                acp.free(ga)
            sizes = [len(vector), len(deque), len(chain), len(mapping)]
            vector.push_back(data)
            deque.push_front(data)
            chain.push_back(data)
            assert mapping.insert("one more", data)
            assert [len(vector), len(deque), len(chain), len(mapping)] == [n + 1 for n in sizes]
        acp.sync()


@pytest.mark.parametrize("road", launch.ROADS)
def test_a_full_heap_is_an_error_and_leaves_containers_as_they_were(passes, road):
    program = launch.program(use_containers_of_a_full_heap)
    passes([*launch.mpiexec(RANKS), *program], launch.ROADS[road])
