"""Spawn in jobs that span hosts, and onto other hosts."""

import os
import sys
from pathlib import Path

import launch
import pytest

pytestmark = pytest.mark.hosts
HOOK = {"ACP_SPAWN": "1", "UCX_TLS": "tcp,self"}  # UCX would find shared memory between the hosts
MACPRUN = Path(sys.executable).with_name("macprun")
CHILD = (
    "import os; from mpi4py import MPI; p = MPI.Comm.Get_parent(); m = p.Merge(True);"
    "assert m.allreduce(1) == m.Get_size(); m.gather(os.uname().nodename, 0);"
    "p.gather((MPI.COMM_WORLD.rank, os.uname().nodename), 0); m.Free(); p.Disconnect()"
)


def by_the_agent(network):
    """Return the environment in which launchers reach other hosts of the network."""
    return {
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": str(network.agent),
        "PRTE_MCA_plm_ssh_agent": str(network.agent),
    }


def spawn(comm, size, **hints):
    """Spawn children, talk in both communicators, and return where they are."""
    from mpi4py import MPI

    info = MPI.Info.Create(hints) if hints else MPI.INFO_NULL
    children = comm.Spawn(sys.executable, ["-c", CHILD], size, info=info)
    everybody = children.Merge(False)
    assert everybody.allreduce(1) == comm.Get_size() + size
    names = everybody.gather(os.uname().nodename, 0)
    root = MPI.ROOT if comm.Get_rank() == 0 else MPI.PROC_NULL
    found = children.gather(None, root)
    everybody.Free()
    children.Disconnect()
    if comm.Get_rank() == 0:
        assert names[comm.Get_size() :] == [name for _, name in found]
        return [name for _, name in sorted(found)]
    return None


def spawn_from_everywhere():
    from mpi4py import MPI

    import acp_mpi as acp

    hosts = MPI.COMM_WORLD.allgather(os.uname().nodename)
    assert len(set(hosts)) > 1
    spawn(MPI.COMM_WORLD, 2)
    assert spawn(MPI.COMM_SELF, 1) == [os.uname().nodename]  # beside who asks for it
    if "macprun" in sys.argv:
        assert acp.procs() > MPI.COMM_WORLD.Get_size()
    print("all well on", os.uname().nodename, flush=True)


def test_ranks_on_several_hosts_spawn(two_hosts, passes):
    command = launch.mpiexec(2, network=two_hosts)
    output = passes([*command, *launch.program(spawn_from_everywhere)], HOOK, 90.0)
    assert output.count("all well") == 2


def spawn_onto(*hosts):
    from mpi4py import MPI

    for key in ("host", "hosts"):
        found = spawn(MPI.COMM_SELF, 2, **{key: ",".join(hosts)})
        assert found == list(hosts), found
    assert spawn(MPI.COMM_SELF, 1, host=hosts[1]) == [hosts[1]]
    assert spawn(MPI.COMM_SELF, 3, hosts=f"{hosts[0]}:2,{hosts[1]}") == [hosts[0]] * 2 + [hosts[1]]
    print("all well")


def test_children_run_on_the_hosts_that_are_named(three_hosts, passes):
    parent, *others = three_hosts
    program = launch.program(spawn_onto, *(host.name for host in others))
    place = HOOK | by_the_agent(three_hosts) | {"ACP_INTERFACES": "eth0"}
    assert "all well" in passes(parent.command(program), place, 90.0)


def spawn_where_nobody_can_come_from(host):
    from mpi4py import MPI

    with pytest.raises(MPI.Exception) as caught:
        spawn(MPI.COMM_SELF, 1, host=host)
    (note,) = caught.value.__notes__
    assert host in note
    assert "ACP_INTERFACES" in note


def test_a_job_on_the_loopback_interface_says_what_it_needs(two_hosts, passes):
    program = launch.program(spawn_where_nobody_can_come_from, two_hosts[0].name)
    passes(two_hosts.switch.command(program), HOOK | by_the_agent(two_hosts))


def live_beside():
    import acp_mpi as acp

    acp.init()
    acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 7)
    acp.finalize()


def spawn_in_macprun():
    from mpi4py import MPI

    import acp_mpi as acp

    acp.init()
    spawn_from_everywhere()
    MPI.COMM_WORLD.barrier()
    if MPI.COMM_WORLD.Get_rank() == 0:
        for rank in acp.group("apart").ranks:
            acp.put(acp.query_starter_ga(rank), (7).to_bytes(8, "little"))
    acp.finalize()


def test_a_group_of_a_macprun_job_on_several_hosts_spawns(two_hosts, passes):
    hosts = ",".join(host.name for host in two_hosts)
    words = [MACPRUN, "--ssh", two_hosts.agent, "-n", 2, "--name", "apart", "--hosts", hosts]
    words += [*launch.program(live_beside), ":", "-n", 2, "--mpi", "--name", "ocean"]
    words += ["--hosts", hosts, *launch.program(spawn_in_macprun)]
    command = two_hosts.switch.command([str(word) for word in words])
    output = passes(command, HOOK | by_the_agent(two_hosts), 90.0)
    assert output.count("all well") == 2
