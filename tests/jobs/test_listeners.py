"""Where MPI listens: nowhere in a group that is on this host, as its launcher can start no other.

What listens for TCP reads and writes memory for whoever connects, and other users of the host can.
"""

import os
from pathlib import Path

import launch
from macprunning import alone, macprun, mpi

LISTENS = "0A"  # as the kernel's tables of TCP have it


def listening():
    """Return inode and port of each TCP socket of this process on which it listens."""
    held = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            held.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # of the list itself
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and f"socket:[{words[9]}]" in held:
                found.add((int(words[9]), int(words[1].rpartition(":")[2], 16)))
    return found


def own_port():
    """Return where the links of this process are reached: their handshake asks for the secret."""
    from acp_mpi.engine import _engine
    from acp_mpi.job.rendezvous.row import Process, endpoints

    row = _engine.row()
    ((_, port),) = endpoints(row, Process.of(row).host)
    return port


def talk_and_look():
    """Send messages of all sizes by MPI, and join."""
    inherited = listening()  # a launcher's own, which its processes keep
    from mpi4py import MPI

    import acp_mpi as acp

    world = MPI.COMM_WORLD
    if "ch4:ofi" in MPI.Get_library_version():  # of MPICH, which has no hint for that
        inherited = inherited | listening()
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    for size in (1, 10_000, 3_000_000):
        sent, got = bytes([1 + world.rank]) * size, bytearray(size)
        world.Sendrecv(sent, right, recvbuf=got, source=left)
        assert got == bytes([1 + left]) * size
    acp.init()
    acp.sync()
    assert {port for _, port in listening() - inherited} <= {own_port()}
    print("MPI listens nowhere", flush=True)
    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        parent.send(True, 0)
        parent.Disconnect()


def without_mpi():
    import acp_mpi as acp

    acp.init()
    acp.sync()


def test_mpi_of_a_group_of_macprun_listens_nowhere(passes):
    output = passes(macprun(mpi(2, "ocean", talk_and_look), alone(1, "master", without_mpi)))
    assert output.count("MPI listens nowhere") == 2


def spawn_groups_that_look():
    from mpi4py import MPI

    for count in (1, 2):
        command, *arguments = launch.program(talk_and_look)
        children = MPI.COMM_SELF.Spawn(command, arguments, count)
        assert all(children.recv(source=child) for child in range(count))
        children.Disconnect()


def test_mpi_of_children_of_spawn_listens_nowhere(passes):
    assert passes(launch.program(spawn_groups_that_look), {"ACP_SPAWN": "1"}).count("nowhere") == 3
