"""Which group of a job gets which nodes."""

import socket

import pytest
from arriving import whole

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.connector import join
from acp_mpi.job.rendezvous.server import Server
from acp_mpi.launch.macprun import nodes
from acp_mpi.launch.macprun.nodes import Node
from acp_mpi.launch.macprun.plan import Group, Plan


def plan(*sizes, nodefile=None, **options):
    groups = (Group(f"g{i}", size, ("x",), **options) for i, size in enumerate(sizes))
    return Plan(tuple(groups), nodefile=nodefile)


def slurm(names, **counts):
    return nodes.slurm_nodes({"SLURM_JOB_NODELIST": names, **counts})


def test_the_nodes_of_slurm_are_expanded():
    found = slurm("n[08-10,12],login,r[1-2]c[3,5]", SLURM_JOB_CPUS_PER_NODE="4(x5),2,1(x3)")
    names = ["n08", "n09", "n10", "n12", "login", "r1c3", "r1c5", "r2c3", "r2c5"]
    assert [node.host for node in found] == names
    assert [node.slots for node in found] == [4, 4, 4, 4, 4, 2, 1, 1, 1]


def test_slurm_counts_tasks_if_it_was_asked_for_tasks():
    counts = {"SLURM_JOB_CPUS_PER_NODE": "8(x2)", "SLURM_TASKS_PER_NODE": "2,1"}
    assert slurm("a,b", **counts) == [Node("a", 8), Node("b", 8)]
    assert slurm("a,b", SLURM_NTASKS="3", **counts) == [Node("a", 2), Node("b", 1)]


def test_a_nodefile_has_hosts_once_or_often(tmp_path):
    file = tmp_path / "nodes"
    file.write_text("a\n# comment\n\na\nb:3\nc slots=2  # two\n")
    assert nodes.read_nodefile(str(file)) == [Node("a", 2), Node("b", 3), Node("c", 2)]


@pytest.mark.parametrize(
    "text", ["", "a:0", "-x", "a:x", "a b:", "a 4", "a slots=2 max_slots=4", "a:2 b:2"]
)
def test_a_nodefile_that_is_none_is_refused(tmp_path, text):
    file = tmp_path / "nodes"
    file.write_text(text)
    with pytest.raises(Error, match="nodes"):
        nodes.read_nodefile(str(file))


@pytest.mark.parametrize(
    "call",
    [
        lambda name: nodes.listening({"g": (Node(name, 1),)}),
        lambda name: Server(bytes(32), 1, listen=f"{name}:0"),
        lambda name: join(f"{name}:7", bytes(32), "g", 1, False, whole("g", 1)),
    ],
    ids=["where groups run", "where the rendezvous listens", "where groups meet"],
)
def test_a_host_that_nobody_knows_is_called_unknown(call):
    with pytest.raises(Error, match=r"host 'no-such-host.invalid' is unknown"):
        call("no-such-host.invalid")


@pytest.mark.parametrize("source", ["nodefile", "PBS", "Slurm"])
def test_nodes_are_split_over_the_groups_by_count(tmp_path, source):
    file = tmp_path / "nodes"
    file.write_text("a\na\nb\nb\nb\n")
    environ = {
        "nodefile": {"PBS_NODEFILE": "/none"},
        "PBS": {"PBS_NODEFILE": str(file)},
        "Slurm": {"SLURM_JOB_NODELIST": "a,b", "SLURM_JOB_CPUS_PER_NODE": "2,3"},
    }[source]
    given = nodes.assign(plan(1, 3, nodefile=str(file) if source == "nodefile" else None), environ)
    assert given == {"g0": (Node("a", 1),), "g1": (Node("a", 1), Node("b", 2))}
    assert nodes.shares_a_host("g0", given)


def test_this_host_is_known_by_the_name_that_slurm_has_for_it(monkeypatch):
    assert not nodes.is_here("node-7")
    monkeypatch.setenv("SLURMD_NODENAME", "node-7")
    assert nodes.is_here("node-7")
    assert not nodes.is_here("node-8")


def test_too_few_slots_are_an_error(tmp_path):
    file = tmp_path / "nodes"
    file.write_text("a:2\n")
    with pytest.raises(Error, match=r"3 processes need 3 slots, and .* has 2"):
        nodes.assign(plan(1, 2, nodefile=str(file)), {})


def test_a_group_takes_its_own_hosts():
    given = nodes.assign(plan(5, hosts=("a:2", "b")), {})
    assert given == {"g0": (Node("a", 3), Node("b", 2))}
    assert nodes.assign(plan(2, hosts=("a:2", "b")), {}) == {"g0": (Node("a", 2),)}
    assert nodes.assign(plan(3, hosts=("a", "b", "a")), {}) == {"g0": (Node("a", 2), Node("b", 1))}
    assert not nodes.shares_a_host("g0", given)


def test_a_launcher_that_finds_hosts_gets_none():
    own = plan(2, has_mpi=True, launcher=("mpirun", "--machinefile", "F"))
    assert nodes.assign(own, {"SLURM_JOB_NODELIST": "a"}) == {"g0": ()}


def test_groups_without_nodes_share_this_host():
    given = nodes.assign(plan(1, 2), {})
    assert given == {"g0": (Node("localhost", 1),), "g1": (Node("localhost", 2),)}
    assert nodes.shares_a_host("g0", given)


def test_the_groups_of_one_host_meet_on_its_loopback():
    here = {"g0": (Node("localhost", 1),), "g1": (Node(socket.gethostname(), 2),)}
    assert nodes.listening(here) == "127.0.0.1:0"


def test_a_host_that_nothing_is_known_of_is_named():
    there = {"g0": (Node("localhost", 1), Node("nowhere.invalid", 2))}
    with pytest.raises(Error, match=r"'nowhere\.invalid' reaches it: .*--listen HOST:PORT"):
        nodes.listening(there)
