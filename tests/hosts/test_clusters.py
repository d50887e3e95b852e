"""The page on clusters, and the ends of batch jobs: under a real Slurm."""

import os
import re
import shlex
import signal

import launch
import pages
import pytest
from hosts import slurm

import acp_mpi as acp

pytestmark = pytest.mark.hosts
ENVIRONMENT = {"UCX_TLS": "tcp,self"}  # UCX would find shared memory between the hosts
NODES = ("-N2", "-n4")
PAGE = "docs/clusters.md"
MEMBER = """
import os, sys
import acp_mpi as acp
acp.init()
acp.put(acp.query_starter_ga(0) + 8 * acp.rank(), (1).to_bytes(8, "little"))
print(f"rank {acp.rank()} on {os.uname().nodename}", flush=True)
acp.refresh()
acp.sync()
acp.finalize()
"""
MAIN = """
import os, sys
import acp_mpi as acp
acp.init()
workers = acp.spawn_group([sys.executable, "worker.py"], 4)
acp.refresh()
acp.sync()
words = acp.get(acp.query_starter_ga(0) + 8, bytearray(32))
print("all have written" if list(words[::8]) == [1] * 4 else "missing", flush=True)
acp.finalize()
"""
GROWING = """
import acp_mpi as acp
acp.init()
{page}
print("came:", list(workers.ranks), flush=True)
acp.wait_until(acp.query_starter_ga(0), "==", 7)
print("had seven", flush=True)
acp.finalize()
"""
# A piece of its work is to wait a moment; before it leaves it says so to rank 0.
PIECE = """try:
        acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 9, timeout=0.1)
    except TimeoutError:
        print(f"rank {acp.rank()} works", flush=True)
"""
LEAVING = """acp.put(acp.query_starter_ga(0), (7).to_bytes(8, "little"))
acp.leave()
print("has left", flush=True)
"""


@pytest.fixture
def cluster(two_hosts, start, tmp_path):
    with slurm.running(two_hosts, tmp_path, start, ENVIRONMENT) as cluster:
        yield cluster


def hand_in(cluster, script, *options, **programs):
    """Hand in a script, or the one of the page with this word, and write what it runs."""
    for program, text in programs.items():
        (cluster.folder / f"{program}.py").write_text(text)
    if "\n" not in script:
        script = slurm.script_of_page(script)
    return cluster.submit(script, f"--chdir={cluster.folder}", *options)


def places(output):
    return sorted(re.findall(r"rank (\d+) on (\S+)$", output, re.MULTILINE))


def test_several_programs_share_an_allocation(cluster):
    a, b = (host.name for host in cluster.network)
    job = hand_in(cluster, "macprun", master=MEMBER, worker=MEMBER)
    assert job.await_end() == "COMPLETED", job.output
    assert places(job.output) == [("0", a), ("1", a), ("2", b), ("3", b)]


def test_python_alone_starts_a_group_on_all_nodes(cluster):
    if launch.mpi_name() != "mpich":
        pytest.skip("Open MPI's mpiexec keeps a group on the node of the caller")
    job = hand_in(cluster, "main.py", main=MAIN, worker=MEMBER)
    job.await_output("all have written")
    assert {host for _, host in places(job.output)} == {host.name for host in cluster.network}
    assert job.await_end() == "COMPLETED", job.output


def test_workers_join_from_a_batch_job_of_their_own_and_leave_on_sigterm(cluster):
    starting, leaving = (b.text for b in pages.blocks(PAGE) if b.language == "python")
    worker = leaving.replace("...  # a piece of work\n", PIECE).replace("acp.leave()\n", LEAVING)
    (cluster.folder / "worker.sh").write_text(slurm.script_of_page("exec python worker.py"))
    script = slurm.script_of_page("main.py").replace("--ntasks=4", "--ntasks=2")
    job = hand_in(cluster, script, main=GROWING.format(page=starting), worker=worker)
    job.await_output("came: [1]")
    cluster.ask("scancel", str(int(job.number) + 1))
    job.await_output("had seven")
    assert job.await_end() == "COMPLETED", job.output


def wait_for_sigterm():
    def end(*_):
        print("had SIGTERM", flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    acp.init()
    print("joined", flush=True)
    while True:
        signal.pause()


def outlive():
    """Wait; after the loss of a rank go on without it."""
    acp.init()
    print("joined", flush=True)
    try:
        acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1)
    except acp.PeerLostError:
        acp.refresh()
        acp.sync()
        print("goes on with", list(acp.ranks()), flush=True)
    acp.finalize()


def started(cluster, function, *options):
    """Return a batch job whose three ranks wait, on two nodes."""
    line = shlex.join(launch.program(function))
    job = hand_in(cluster, f"#!/bin/sh\nmacprun -n 3 --name w {line}\n", *NODES, *options)
    job.await_output("joined", 3)
    return job


def nothing_is_left(cluster):
    """Wait until no process of a rank is left on any host."""
    launch.until(
        lambda: (
            not any(
                "program.py" in launch.command_line(pid)
                for host in cluster.network
                for pid in host.processes()
            )
        ),
        limit=90.0,
    )


def test_scancel_is_sigterm_for_all_ranks_and_leaves_none(cluster):
    job = started(cluster, wait_for_sigterm)
    cluster.ask("scancel", job.number)
    for rank in range(3):
        job.await_output(f"[w.{rank}] had SIGTERM")
    assert job.await_end() == "CANCELLED"
    nothing_is_left(cluster)


@pytest.mark.slow
def test_the_time_limit_is_sigterm_for_all_ranks_and_leaves_none(cluster):
    """Slurm looks at it twice a minute."""
    job = started(cluster, wait_for_sigterm)
    cluster.ask("scontrol", "update", f"JobId={job.number}", "TimeLimit=0")
    for rank in range(3):
        job.await_output(f"[w.{rank}] had SIGTERM")
    assert job.await_end() == "TIMEOUT"
    nothing_is_left(cluster)


def test_ranks_go_on_without_a_node_that_goes_down(cluster):
    job = started(cluster, outlive, "--no-kill")
    away = cluster.network[1].name
    cluster.ask("scontrol", "update", f"NodeName={away}", "State=DOWN", "Reason=test")
    job.await_output("goes on with [0, 1]", 2)
    job.await_end()
    assert "Node failure" in job.output
    assert "macprun: group 'w' failed first: rank 2: " in job.output


def test_nodes_may_have_names_that_no_host_has(two_hosts, start, tmp_path):
    with slurm.running(two_hosts, tmp_path, start, ENVIRONMENT, renamed=True) as cluster:
        a, b = (host.name for host in two_hosts)
        job = hand_in(cluster, "macprun", master=MEMBER, worker=MEMBER)
        assert job.await_end() == "COMPLETED", job.output
        assert places(job.output) == [("0", a), ("1", a), ("2", b), ("3", b)]
        assert job.output.count("srun") == 0, job.output


def test_the_launcher_of_mpich_works_where_pmix_is_usual(two_hosts, start, tmp_path):
    if launch.mpi_name() != "mpich":
        pytest.skip("PMIx is that of Open MPI")
    with slurm.running(two_hosts, tmp_path, start, ENVIRONMENT, mpi="pmix") as cluster:
        _, reason = slurm.pmi(cluster, "pmix")
        if reason:
            pytest.skip(f"this Slurm has no --mpi=pmix: {reason}")
        script = slurm.script_of_page("macprun").replace("-n 3", "-n 1 --mpi")
        job = hand_in(cluster, script, master=MEMBER, worker=MEMBER)
        assert job.await_end() == "COMPLETED", job.output
        by_itself = "export SLURM_MPI_TYPE=none\nmpiexec -n 1 python worker.py"
        job = hand_in(cluster, f"#!/bin/sh\n{by_itself}\n", *NODES)
        assert job.await_end() == "COMPLETED", job.output
