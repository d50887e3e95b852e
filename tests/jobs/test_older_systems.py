"""Jobs on Linux 4.18, with a Python that was built against an old C library."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import launch
import older
import pytest
from macprunning import alone, is_said, macprun, mpi, nothing_is_left

import acp_mpi as acp
from acp_mpi.util import _system

OLDER = [sys.executable, str(Path(older.__file__))]


@pytest.fixture
def begin(start):
    """begin(command, env) starts a job on an older system."""
    before = ["env", f"PYTHONPATH={older.PYTHON}", *OLDER]
    works = subprocess.run([*OLDER, "true"], capture_output=True, text=True, check=False)
    if works.returncode:
        pytest.skip(f"system calls cannot be refused here: {works.stderr.splitlines()[-1]}")
    return lambda command, env=None: start([*before, *command], env)


def is_older():
    assert not hasattr(os, "pidfd_open")
    with pytest.raises(OSError, match="not implemented"):
        _system.pidfd_open(os.getpid())


def exchange():
    """Reach all the others, and tell of it."""
    is_older()
    with acp.init():
        count = acp.query_starter_ga(acp.rank())
        for rank in range(acp.procs()):
            acp.fetch_add8(acp.query_starter_ga(rank), 1)
        acp.sync()
        assert acp.view(count, (1,), "u8")[0] == acp.procs()
        print("exchanged", flush=True)


def exchange_and_fail():
    exchange()
    sys.exit(7)


def hear_of_a_death():
    is_older()
    acp.init()
    acp.sync()
    print(f"joined {os.getpid()}\n", end="", flush=True)
    if acp.rank() == acp.procs() - 1:
        signal.pause()
    with pytest.raises(acp.PeerLostError):
        acp.barrier([acp.rank(), acp.procs() - 1])
    print("heard", flush=True)
    acp.refresh()
    acp.finalize()


def be_started():
    is_older()
    with acp.init():
        acp.sync()
        print("started", flush=True)


def start_others():
    is_older()
    with acp.init():
        group = acp.spawn_group(launch.program(be_started), 2, mpi=False, name="late")
        acp.sync()
        assert len(group.ranks) == 2


def use_a_spawned_process():
    is_older()
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        parent.send("hello", 0)
        parent.Disconnect()
        return
    child = MPI.COMM_WORLD.Spawn(sys.executable, launch.program(use_a_spawned_process)[1:], 1)
    print("said:", child.recv(source=0), flush=True)
    child.Disconnect()


def test_a_job_of_macprun(begin):
    job = begin(macprun(alone(2, "master", exchange), mpi(2, "worker", exchange)))
    assert job.wait() == 0, job.output
    assert job.output.count("exchanged") == 4


def test_ranks_of_mpi_hear_of_a_death(begin):
    command = launch.program(hear_of_a_death)
    job = begin([*launch.mpiexec(3, survive=True), *command])
    is_said(job, "joined", 3)
    ranks = [pid for pid in job.processes() if launch.executable(pid).startswith("python")]
    said = {int(line.split()[1]) for line in job.output.splitlines() if "joined" in line}
    assert said <= set(ranks)
    last = max(said, key=_rank)
    os.kill(last, signal.SIGKILL)
    is_said(job, "heard", 2)
    job.wait()
    nothing_is_left(job, job.pid, ())


def _rank(pid):
    words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    (rank,) = (w for w in words if w.startswith((b"PMI_RANK=", b"PMIX_RANK=")))
    return int(rank.partition(b"=")[2])


def test_the_supervisor_hears_of_the_end_of_a_rank(begin):
    job = begin(macprun(alone(1, "good", exchange), alone(1, "bad", exchange_and_fail)))
    assert job.wait() == 7, job.output


def test_groups_are_started(begin):
    job = begin([*launch.mpiexec(1), *launch.program(start_others)])
    assert job.wait() == 0, job.output
    assert job.output.count("started") == 2


def test_comm_spawn(begin):
    job = begin([*launch.mpiexec(1), *launch.program(use_a_spawned_process)], {"ACP_SPAWN": "1"})
    assert job.wait() == 0, job.output
    assert "said: hello" in job.output
