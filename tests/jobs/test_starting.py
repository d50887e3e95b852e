"""What other tests of jobs rely on: a job is over when all of its processes are."""

import contextlib
import os
import subprocess
import sys

import launch
import pytest

import acp_mpi as acp

BUSY = "while True: pass"


@pytest.mark.smoke
def test_a_job_passes_when_its_last_process_has_ended(passes, tmp_path):
    passes(["sh", "-c", f"(sleep 0.2; touch '{tmp_path}/late') & exit 0"])
    assert (tmp_path / "late").exists()


def test_who_is_left_of_a_job_is_named_and_killed(start):
    job = start(["sh", "-c", "sleep 1000 & exit 0"])
    assert job.wait() == 0
    with pytest.raises(launch.Hang, match="sleep 1000"):
        job.wait_for_all(0.1)
    launch.until(lambda: not job.processes())


def greet():
    with acp.init():
        acp.sync()


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_a_thousand_starts_go_well_beside_other_work(start):
    with contextlib.ExitStack() as stack:
        for _ in range(10 * (os.cpu_count() or 1)):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
            stack.callback(busy.kill)
        for number in range(1000):
            job = start([*launch.mpiexec(2), *launch.program(greet)])
            assert job.wait(600.0) == 0, f"start {number}:\n{job.output}"
