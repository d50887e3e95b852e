"""`macprun --delegates`: a delegate on each node from the beginning, beside the groups."""

import os
import re
import shlex
import signal
from pathlib import Path

import launch
import pytest
from delegating import pid_of
from growing import PATIENCE
from macprunning import MACPRUN, alone, is_said, macprun, mpi, nothing_is_left

import acp_mpi as acp

OPTIONS = ["--delegates"]


def use(ranks, delegates, folder):
    """All ranks find the delegate of their node, which is none of them."""
    import numpy as np

    acp.init()
    d = acp.delegate(start=False)
    assert acp.delegate(timeout=PATIENCE) is d
    everybody = list(range(int(ranks)))
    assert acp.ranks() == everybody == acp.refresh()
    found = acp.allgather(d.rank)
    assert len(set(found)) == int(delegates)
    assert set(found) <= set(acp.ranks(services=True)) - set(everybody)
    assert d.call("growing:half_and", 4.0, 1.0).wait(PATIENCE) == 3.0  # beside the program
    path = Path(folder, f"{acp.rank()}.npy")
    d.save(path, np.arange(10.0)).wait(PATIENCE)
    assert np.load(path).sum() == 45.0
    acp.sync()
    print("used", flush=True)
    acp.finalize()


def groups_of(n, folder, options=((), ())):
    first, second = options
    return [
        mpi(2, "ocean", use, 3, n, folder, options=first),
        alone(1, "ice", use, 3, n, folder, options=second),
    ]


@pytest.mark.smoke
def test_ranks_of_all_groups_find_the_one_of_their_node(start, tmp_path):
    job = start(macprun(*groups_of(1, tmp_path), options=OPTIONS))
    assert job.wait() == 0, job.output
    assert job.output.count("used") == 3
    nothing_is_left(job, job.pid)


def test_each_node_has_one(passes, tmp_path):
    two = [["--env", f"ACP_NODE={name}"] for name in ("a", "b")]
    passes(macprun(*groups_of(2, tmp_path, two), options=OPTIONS))


def test_a_job_file_may_say_it(passes, tmp_path):
    file = tmp_path / "job.toml"
    command = shlex.join(launch.program(use, 2, 1, tmp_path))
    file.write_text(f"delegates = true\n[[group]]\nprocesses = 2\ncommand = '''{command}'''\n")
    passes([str(MACPRUN), "-np", "2", str(file)])


def outlive_it():
    acp.init()
    d = acp.delegate(start=False)
    acp.sync()
    if acp.rank() == 0:
        os.kill(pid_of(d), signal.SIGKILL)
    with pytest.raises(acp.PeerLostError):
        d.call("time:sleep", PATIENCE).wait(PATIENCE)
    acp.sync()
    assert acp.losses() == 0
    again = acp.delegate(timeout=PATIENCE)
    assert again.rank != d.rank
    again.ping().wait(PATIENCE)
    acp.finalize()


def test_its_death_is_no_failure_of_the_job(start):
    job = start(macprun(alone(2, "ice", outlive_it), options=OPTIONS))
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def wait_for_a_file(path):
    acp.init()
    print("joined", flush=True)
    launch.until(lambda: os.path.exists(path))
    acp.finalize()


def test_it_is_shown_as_a_service_and_takes_no_signal_of_the_groups(start, passes, tmp_path):
    go = tmp_path / "go"
    job = start(macprun(alone(1, "ice", wait_for_a_file, go), options=OPTIONS))
    is_said(job, "joined")
    text = passes([str(MACPRUN), "status", str(job.pid)])
    assert "  ice: 1 rank, without MPI\n" in text
    assert "  delegate-0: 1 service, without MPI\n" in text
    assert re.search(r"^ +1 delegate-0\.0 ", text, re.M)
    pid = re.search(r"^ +1 delegate-0\.0 +\S+ +(\d+)", text, re.M)[1]
    os.kill(int(pid), signal.SIGUSR1)
    os.kill(int(pid), signal.SIGINT)
    go.touch()
    assert job.wait() == 0, job.output


def test_check_shows_where_they_are_to_run(passes):
    words = ["-n", "2", "--hosts", "far,localhost", "true", ":", "-n", "1", "true"]
    text = passes([str(MACPRUN), "check", *OPTIONS, *words])
    assert "delegate-0: slot 3, without MPI, on far:1" in text
    assert "delegate-1: slot 4, without MPI, on localhost:1" in text
    assert text.count("-m acp_mpi.delegates") == 2


def test_a_launcher_that_has_its_own_hosts_is_refused(start):
    group = [1, "--mpi", "--launcher", "mpiexec -hosts a,b", "true"]
    job = start(macprun(group, options=OPTIONS))
    assert job.wait() == 2, job.output
    assert "--delegates: the launcher line of group 'group0'" in job.output
