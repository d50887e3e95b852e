"""Processes that ranks start or fork: they are not the rank; the rank outlives them."""

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing import util

import launch
import pytest
from growing import await_words, greet_at_once, newcomer

import acp_mpi as acp

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

RANKS = 2


def fork(end):
    """Return the exit status of a forked child that ends by `end`, as Python ends a program."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    end()
    raise SystemExit  # an end of the program, which runs its exit hooks


def fail():
    raise ValueError("no more fuel")


def fork_children():
    acp.init()
    ends = {lambda: None: 0, lambda: sys.exit(3): 3, fail: 1, lambda: acp.abort("no fuel"): 1,
            acp.finalize: 0}  # fmt: skip
    for end, status in ends.items():
        assert fork(end) == status, end
        acp.sync()
    acp.finalize()
    assert fork(lambda: sys.exit(4)) == 4
    assert fork(be_alone) == 0


def test_the_end_of_a_forked_child_is_its_own(passes):
    passes([*launch.mpiexec(RANKS), *launch.program(fork_children)])


def be_alone():
    with acp.init():
        assert (acp.rank(), acp.procs()) == (0, 1)
        acp.sync()


helper_ends: list[util.Finalize] = []


def answer(number):
    """Be a helper: of no job but its own, and alone in MPI."""
    be_alone()
    from mpi4py import MPI

    assert MPI.COMM_WORLD.size == 1
    if not helper_ends:  # multiprocessing ends its processes without atexit
        helper_ends.append(util.Finalize(None, MPI.Finalize, exitpriority=0))
    return number + 1


def be_two():
    """Be a rank that a launcher of its own has started."""
    with acp.init():
        assert acp.procs() == 2
        assert acp.allgather(acp.rank()) == [0, 1]


def check(command):
    made = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stdout + made.stderr


def have_helpers(with_mpi):
    sys.path.append(os.path.dirname(__file__))
    from test_helpers import answer  # as the processes of a pool can import it

    acp.init()
    places = {name: value for name, value in os.environ.items() if "LOCAL" in name}
    assert any("RANK" in name for name in places) == (with_mpi == "True")
    check(launch.program(be_alone))
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(answer, range(3)) == [1, 2, 3]
            pool.close()
            pool.join()  # killed, they would leave what MPI has in /dev/shm
    check([*launch.mpiexec(2), *launch.program(be_two)])
    acp.sync()
    acp.finalize()
    check(launch.program(be_alone))


def test_what_a_rank_starts_is_not_the_rank(passes):
    passes([*launch.mpiexec(RANKS), *launch.program(have_helpers, True)], limit=100.0)


def test_what_a_process_without_mpi_starts_is_not_that(without_mpi, all_pass):
    """Though it finds in its environment where the group meets."""
    all_pass({"alone": without_mpi(RANKS, launch.program(have_helpers, False))})


def spawn_by_mpi():
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    with acp.init():
        if parent == MPI.COMM_NULL:
            children = MPI.COMM_WORLD.Spawn(sys.executable, launch.program(spawn_by_mpi)[1:], 1)
            children.Disconnect()
        else:
            assert acp.procs() == MPI.COMM_WORLD.size == 1
            parent.Disconnect()


def test_mpi_s_own_spawn_still_makes_ranks(passes):
    passes([*launch.mpiexec(RANKS), *launch.program(spawn_by_mpi)])


def grow_without_a_starter():
    from acp_mpi.spawn.groups import fork_server_client

    acp.init()
    for rank in (1, 2):
        group = acp.spawn_group(newcomer(greet_at_once), 1, mpi=False)
        assert list(group.ranks) == [rank]
        await_words([rank])
        os.kill(fork_server_client._starter.pid, signal.SIGKILL)
        os.waitid(os.P_PID, fork_server_client._starter.pid, os.WEXITED | os.WNOWAIT)
    acp.finalize()


def test_a_starter_that_was_killed_has_a_successor(start):
    job = start(launch.program(grow_without_a_starter), {"ACP_MPI": "0"})
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def signal_to_all_while_a_starter_begins():
    from acp_mpi.spawn.groups import fork_server_client

    acp.init()
    signal.signal(signal.SIGUSR1, lambda *ignored: None)
    fork_server_client.begin()
    os.killpg(0, signal.SIGUSR1)  # what Hydra tells the others when a rank ends early
    with pytest.raises(KeyboardInterrupt):
        os.killpg(0, signal.SIGINT)  # what Ctrl-C does: to all of this terminal's job
    starter = fork_server_client._starter.pid
    assert list(acp.spawn_group(newcomer(greet_at_once), 1, mpi=False).ranks) == [1]
    await_words([1])
    assert fork_server_client._starter.pid == starter
    acp.finalize()


def test_signals_of_terminals_and_launchers_do_not_end_a_starter_that_begins(passes):
    passes(launch.program(signal_to_all_while_a_starter_begins), {"ACP_MPI": "0"})


def end_all_children_first():
    from acp_mpi.spawn.groups import fork_server_client

    acp.init()
    fork_server_client.begin()
    os.kill(fork_server_client._starter.pid, signal.SIGKILL)
    os.wait()
    acp.finalize()


def test_a_program_may_wait_for_all_its_children(passes):
    passes(launch.program(end_all_children_first), {"ACP_MPI": "0"})


class _NoTable:
    """What a registry cannot read."""

    def pack(self):
        return b"no table"


def grow_with_a_registry_that_crashes():
    from acp_mpi.job.join import Job

    acp.init()
    Job.table = lambda self: _NoTable()
    with pytest.raises(acp.Error, match=r"(?s)cannot be reached.*its last words.*Traceback"):
        acp.spawn_group(newcomer(greet_at_once), 1, mpi=False)
    with pytest.raises(acp.Error, match=r"(?s)cannot be reached.*its last words.*Traceback"):
        acp.spawn_group(newcomer(greet_at_once), 1, mpi=False)
    acp.finalize()


def test_a_registry_that_crashed_is_quoted(start):
    job = start(launch.program(grow_with_a_registry_that_crashes), {"ACP_MPI": "0"})
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())
