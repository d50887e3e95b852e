"""The MPI of the environment on several hosts, without acp_mpi."""

import launch
import pytest

pytestmark = pytest.mark.hosts


def put_to_the_right():
    import socket

    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    names = comm.allgather(socket.gethostname())
    hosts = list(dict.fromkeys(names))
    assert names == [hosts[rank % len(hosts)] for rank in range(comm.size)], names
    memory = np.full(1000, -1)
    window = MPI.Win.Create(memory, comm=comm)
    source = np.full(1000, comm.rank)  # MPI reads it until the fence
    window.Fence()
    window.Put(source, (comm.rank + 1) % comm.size)
    window.Fence()
    assert (memory == (comm.rank - 1) % comm.size).all()
    window.Free()
    if comm.rank == 0:
        print(len(hosts), "hosts", flush=True)


@pytest.mark.parametrize("hosts", [1, 2, 3, 4])
def test_ranks_are_dealt_out_to_the_hosts_in_turn(connect, passes, hosts):
    network = connect(hosts)
    before = [host.counters()[1] for host in network]
    command = [*launch.mpiexec(4, network=network), *launch.program(put_to_the_right)]
    assert f"{hosts} hosts" in passes(command)
    for host, sent in zip(network, before, strict=True):
        assert hosts == 1 or host.counters()[1] - sent > 8000, "what is put passes the wire"


def say_and_end(status):
    import os

    from mpi4py import MPI

    print(os.environ["WORD"], flush=True)
    MPI.COMM_WORLD.Barrier()  # the first that fails ends those that have not spoken
    MPI.Finalize()  # who is still in the barrier, or MPI's at all, fails when the other goes
    os._exit(int(status))


def test_output_and_status_come_back(two_hosts, start):
    command = [*launch.mpiexec(2, network=two_hosts), *launch.program(say_and_end, 3)]
    job = start(command, {"WORD": "a word's way"})
    assert job.wait() == 3
    assert job.output.count("a word's way") == 2
