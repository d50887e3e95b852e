"""Real Slurm on several hosts: `srun`, Spawn under it, and `macprun` in an allocation."""

import inspect
import os
import re
import shlex
import sys
from pathlib import Path

import launch
import pages
import pytest
from hosts import slurm
from hosts.group import join

pytestmark = pytest.mark.hosts
MACPRUN = Path(sys.executable).with_name("macprun")
# UCX would find shared memory between the hosts.
ENVIRONMENT = {"UCX_TLS": "tcp,self", "ACP_SPAWN": "1"}


@pytest.fixture
def cluster(two_hosts, start, tmp_path):
    """A network with Slurm on it, and the environment of those who use it."""
    with slurm.running(two_hosts, tmp_path, start, ENVIRONMENT) as cluster:
        yield cluster


@pytest.fixture
def mpi(cluster):
    """What `srun --mpi=` is to be."""
    wanted, reason = slurm.pmi(cluster)
    if reason:
        pytest.skip(f"this Slurm has no --mpi={wanted}: {reason}")
    return wanted


# One rank each: the nodes have one file system, where two ranks of MPICH on each would take the
# shared memory of the same name.
TWO = ("-N2", "-n2")


def places(output):
    return re.findall(r"rank (\d+) of (\d+) on (\S+)$", output, re.MULTILINE)


def test_srun_starts_ranks(cluster, mpi, passes):
    command = cluster.command("srun", f"--mpi={mpi}", *TWO, *launch.program(join))
    a, b = (host.name for host in cluster.network)
    said = places(passes(command, cluster.environment, 60.0))
    assert sorted(said) == [("0", "2", a), ("1", "2", b)]


def test_tasks_of_which_mpi_knows_nothing_are_warned(cluster, passes):
    code = "import acp_mpi as acp; acp.init(); print('procs', acp.procs()); acp.finalize()"
    command = cluster.command("srun", "--mpi=none", "-n2", sys.executable, "-c", code)
    output = passes(command, cluster.environment)
    assert output.count("procs 1") == 2
    assert output.count("srun has started 2 tasks") == 1
    assert "--mpi=pmi2" in output


def spawn():
    """Parents on two hosts spawn, together and each alone."""
    from mpi4py import MPI

    code = (
        "import os; from mpi4py import MPI; p = MPI.Comm.Get_parent(); m = p.Merge(True);"
        "assert m.allreduce(1) == m.Get_size(); print('child on', os.uname().nodename, flush=True);"
        "m.Free(); p.Disconnect()"
    )
    for comm in (MPI.COMM_WORLD, MPI.COMM_SELF):
        children = comm.Spawn(sys.executable, ["-c", code], 2)
        everybody = children.Merge(False)
        assert everybody.allreduce(1) == comm.Get_size() + 2
        everybody.Free()
        children.Disconnect()
    print("parent on", os.uname().nodename, flush=True)


def test_parents_under_srun_spawn(cluster, mpi, passes):
    command = cluster.command("srun", f"--mpi={mpi}", *TWO, *launch.program(spawn))
    output = passes(command, cluster.environment, 90.0)
    assert output.count("child on") == 6
    assert output.count("parent on") == 2


def test_macprun_takes_its_hosts_from_the_allocation(cluster, mpi, passes):
    """By the launcher of the MPI, by srun, and over the remote shell where there is no MPI."""
    words = [
        MACPRUN,
        "--ssh",
        cluster.network.agent,
        "-n",
        2,
        "--name",
        "alone",
        *launch.program(join),
    ]
    words += [":", "-n", 1, "--mpi", "--name", "sea", "--launcher", f"srun --mpi={mpi}"]
    words += [*launch.program(join), ":", "-n", 1, "--mpi", "--name", "ice", *launch.program(join)]
    command = cluster.command("salloc", "-N2", "-n4", *words)
    output = passes(command, cluster.environment, 90.0)
    a, b = (host.name for host in cluster.network)
    found = re.findall(r"\[(\w+\.\d)\] rank (\d) of 4 on (\S+)$", output, re.MULTILINE)
    assert sorted(found) == [
        ("alone.0", "0", a), ("alone.1", "1", a), ("ice.0", "3", b), ("sea.0", "2", b),
    ]  # fmt: skip


def test_macprun_in_a_batch_script_says_what_does_not_fit(cluster):
    line = shlex.join([str(MACPRUN), "-n", "5", "--name", "alone", *launch.program(join)])
    job = cluster.submit(line, "-N2", "-n4")
    assert job.await_end() == "FAILED"
    assert "5 processes need 5 slots, and the Slurm allocation has 4" in job.output


def test_the_page_on_clusters_starts_a_program(cluster, mpi):
    text = f"import os\nimport acp_mpi as acp\n{inspect.getsource(join)}join()\n"
    (cluster.folder / "app.py").write_text(text)
    script = slurm.script_of_page("app.py").replace("--mpi=pmi2", f"--mpi={mpi}")
    job = cluster.submit(script, *TWO, f"--chdir={cluster.folder}")
    assert job.await_end() == "COMPLETED", job.output
    assert len(places(job.output)) == 2, job.output


def test_children_find_a_place_in_an_allocation_that_is_full(cluster, mpi):
    """Open MPI would say that all nodes are filled."""
    line = shlex.join(launch.program(spawn))
    script = f"unset PRTE_MCA_rmaps_default_mapping_policy\nexec srun --mpi={mpi} {line}"
    job = cluster.submit(script, "-N1", "-n1")
    assert job.await_end() == "COMPLETED", job.output
    assert job.output.count("child on") == 4


def test_the_script_of_the_page_on_commands_measures_two_nodes(cluster, mpi):
    (script,) = (
        block.text for block in pages.blocks("docs/commands.md") if "#SBATCH" in block.text
    )
    job = cluster.submit(script, *TWO, env={"SLURM_MPI_TYPE": mpi})
    assert job.await_end() == "COMPLETED", job.output
    a, b = (host.name for host in cluster.network)
    assert f"{a} -> {b}" in job.output
