"""Processes without MPI in a real Slurm: `srun` starts one process a node, which starts them."""

import os
import re
import signal
import sys
from pathlib import Path

import launch
import pytest
from hosts import slurm

import acp_mpi as acp

pytestmark = pytest.mark.hosts
MACPRUN = Path(sys.executable).with_name("macprun")


@pytest.fixture
def cluster(two_hosts, start, tmp_path):
    """Slurm on a network of two hosts."""
    with slurm.running(two_hosts, tmp_path, start) as cluster:
        yield cluster


def macprun(function, count, *options):
    """Return the words that start a group of processes without MPI, and one of a single one."""
    program = launch.program(function)
    return [
        *("salloc", "-N2", "-n4", MACPRUN, *options, "-n", count, "--name", "many"),
        *(*program, ":", "-n", 1, "--name", "one", *program),
    ]


def join():
    with acp.init():
        acp.fetch_add8(acp.query_starter_ga(0), 1)
        acp.sync()
        assert acp.fetch_add8(acp.query_starter_ga(0), 0) == acp.procs()
        acp.sync()
        steps = [name for name in os.environ if name.startswith(("SLURM_STEP", "SLURM_PROCID"))]
        print("half a line, ", end="", flush=True)
        print(f"rank {acp.rank()} of {acp.procs()} on {os.uname().nodename}", steps, flush=True)
        print("with", os.environ["COLOUR"], file=sys.stderr)


def test_srun_starts_the_ranks_of_each_node(cluster, passes):
    a, b = (host.name for host in cluster.network)
    command = cluster.command(*macprun(join, 3))
    output = passes(command, cluster.environment | {"COLOUR": "two words"}, 60.0)
    found = re.findall(
        r"^\[(\w+\.\d)\] half a line, rank (\d) of 4 on (\S+) \[\]$", output, re.MULTILINE
    )
    assert sorted(found) == [
        ("many.0", "0", a), ("many.1", "1", a), ("many.2", "2", b), ("one.0", "3", b),
    ]  # fmt: skip
    for label, *_ in found:
        assert f"[{label}] with two words\n" in output


def fail_on_the_other_node():
    if os.environ["ACP_GROUP_RANK"] == "2":
        sys.exit(3)
    try:
        acp.init()
    except acp.Error as reason:
        print("refused:", reason, flush=True)


def test_a_rank_that_ends_before_it_joins_is_told_of_while_others_wait(cluster, start):
    job = start(cluster.command(*macprun(fail_on_the_other_node, 3)), cluster.environment)
    assert job.wait(60.0) == 3, job.output
    assert "macprun: group 'many' failed first: rank 2: exit code 3" in job.output
    refused = re.findall(r"^\[(\w+.\d)\] refused: .*rank 2: exit code 3$", job.output, re.MULTILINE)
    assert sorted(refused) == ["many.0", "many.1", "one.0"], job.output


def show_signals():
    signal.signal(signal.SIGUSR1, lambda *_: print("had USR1", flush=True))
    acp.init()
    print("joined", flush=True)
    acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1)


def started(cluster, start):
    """Return a job of ranks that wait, and the process of its macprun."""
    job = start(cluster.command(*macprun(show_signals, 3)), cluster.environment)
    launch.until(lambda: job.output.count("joined") == 4, job, limit=90.0)
    (pid,) = (
        pid for pid in job.processes() if str(MACPRUN) in launch.command_line(pid).split()[1:2]
    )
    return job, pid


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signals_go_along_and_ranks_end_with_macprun(cluster, start, number):
    job, pid = started(cluster, start)
    os.kill(pid, signal.SIGUSR1)
    launch.until(lambda: job.output.count("had USR1") == 4, job)
    os.kill(pid, number)
    job.wait()
    launch.until(lambda: not job.processes())
