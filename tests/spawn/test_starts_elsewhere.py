"""How processes without MPI are started, one by one and on other hosts."""

import json
import os
import select
import signal
import subprocess

from launching import MEETING

from acp_mpi.launch.macprun import launchers, nodes
from acp_mpi.launch.macprun.plan import Group, Plan


def test_processes_without_mpi_are_started_one_by_one():
    plan = Plan((Group("m", 2, ("prog",), hosts=("localhost", "other"), directory="/d"),),
                starter_size="64", ssh=("agent", "-q"))  # fmt: skip
    here, there = launchers.starts(
        plan, nodes.assign(plan, {}), MEETING, {"HOME": "/h", "A": "b c"}
    )
    assert (here.command, here.directory, here.script) == (("prog",), "/d", None)
    assert here.env["ACP_GROUP_RANK"] == "0"
    assert here.env["ACP_STARTER_SIZE"] == "64"
    assert (there.command, there.directory) == (("agent", "-q", "other", "sh"), None)
    assert there.script is not None
    assert "export A='b c'\n" in there.script
    assert f"export ACP_SECRET={MEETING.secret.hex()}\n" in there.script
    assert "HOME" not in there.script


def test_srun_starts_those_without_mpi_on_nodes_of_its_allocation(programs):
    """By one process a node; what is asked for by hand, and other hosts, are reached as ever."""
    env = {"PATH": str(programs("srun")), "SLURM_JOB_NODELIST": "n[1-2]", "A": "b c"}
    group = Group("m", 4, ("prog",), hosts=("n1:2", "other", "n2"), env={"C": "d"}, directory="/d")
    plan = Plan((group,))
    given = nodes.assign(plan, env)
    one, other, two = launchers.starts(plan, given, MEETING, env)
    assert (one.command[0], one.host, one.rank, one.ranks) == ("srun", "n1", None, (0, 1))
    assert "--nodelist=n1" in one.command
    assert other.command == ("ssh", "other", "sh")
    assert (two.host, two.ranks) == ("n2", (3,))
    ranks, command, directory, told = json.loads(one.script)
    assert (ranks, command, directory) == ([0, 1], ["prog"], "/d")
    assert (told["ACP_SECRET"], told["C"]) == (MEETING.secret.hex(), "d")
    assert "ACP_SECRET" not in one.env
    assert "A" not in told  # srun takes it along
    by_hand = launchers.starts(plan._replace(ssh=("agent",)), given, MEETING, env)
    assert [start.command[:2] for start in by_hand] == [
        ("agent", "n1"), ("agent", "n1"), ("agent", "other"), ("agent", "n2"),
    ]  # fmt: skip


def test_another_host_gets_the_folder_and_the_bytes_of_this_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    group = Group("m", 1, ("prog",), hosts=("other",), directory="sub", env={"A": "\udcff"})
    plan = Plan((group,))
    (start,) = launchers.starts(plan, nodes.assign(plan, {}), MEETING, {})
    assert f"cd {tmp_path}/sub || exit 127\n" in start.script
    assert b"export A='\xff'\n" in os.fsencode(start.script)


def on_another_host(command, folder):
    """Return a shell that runs there what it reads, with its input open."""
    group = Group("m", 1, ("sh", "-c", command), hosts=("other",), directory=str(folder))
    plan = Plan((group,))
    (start,) = launchers.starts(plan, nodes.assign(plan, {}), MEETING, os.environ)
    shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    shell.stdin.write(start.script.encode())
    shell.stdin.flush()
    return shell


def test_what_runs_on_another_host_ends_with_its_connection(tmp_path):
    with on_another_host("echo $$; exec sleep 1000", tmp_path) as shell:
        end = os.pidfd_open(int(shell.stdout.readline()))
        shell.stdin.close()
        assert shell.wait(20) == 143

    assert select.select([end], [], [], 20)[0]
    os.close(end)


def test_what_a_program_leaves_on_another_host_ends_with_it(tmp_path):
    """Else a connection whose output it has would never end."""
    with on_another_host("sleep 1000 & echo $!; exit 3", tmp_path) as shell:
        left = int(shell.stdout.readline())
        closed = select.select([shell.stdout], [], [], 20)[0]
        if not closed:
            os.kill(left, signal.SIGKILL)
        assert shell.wait(20) == 3
    assert closed
