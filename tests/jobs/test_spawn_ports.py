"""Ports and names as programs use them in all earnest: closed ones, dead clients, other jobs."""

import os
import signal
from pathlib import Path

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}


def open_a_port_for_another_job(folder):
    from mpi4py import MPI

    Path(folder, "being written").write_text(MPI.Open_port())
    os.rename(f"{folder}/being written", f"{folder}/port")
    launch.until(lambda: os.path.exists(f"{folder}/done"))


def connect_to_another_job(folder):
    from mpi4py import MPI

    launch.until(lambda: os.path.exists(f"{folder}/port"))
    port = Path(folder, "port").read_text()
    for call in (MPI.COMM_SELF.Connect, MPI.COMM_SELF.Accept):
        with pytest.raises(MPI.Exception) as caught:
            call(port)
        assert caught.value.Get_error_class() == MPI.ERR_PORT
        assert "another job" in caught.value.__notes__[0]
    Path(folder, "done").touch()


def test_the_port_of_another_job_is_refused(start, tmp_path):
    jobs = [
        start(launch.program(function, tmp_path), HOOK)
        for function in (open_a_port_for_another_job, connect_to_another_job)
    ]
    assert [job.wait() for job in jobs] == [0, 0], [job.output for job in jobs]


def wait_at_a_port(port):
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    parent.send(os.getpid(), 0)
    server = MPI.COMM_SELF.Connect(port)
    server.send("I live", 0)
    server.Disconnect()
    parent.Disconnect()


def the_dead_are_passed_over():
    from mpi4py import MPI

    import acp_mpi as acp
    from acp_mpi.engine import _engine
    from acp_mpi.job import membership

    port = MPI.Open_port()
    command, *arguments = launch.program(wait_at_a_port, port)

    def client():
        child = MPI.COMM_SELF.Spawn(command, arguments)
        (rank,) = (r for r in acp.groups()[-1].ranks)
        pid = child.recv(source=0)
        launch.until(lambda: membership.DOING[_engine.doing(rank)] == "is in recv")
        return child, rank, pid

    _, dead, pid = client()
    os.kill(pid, signal.SIGKILL)
    launch.until(lambda: dead not in acp.ranks())
    child, *_ = client()
    server = MPI.COMM_SELF.Accept(port)
    assert server.recv(source=0) == "I live"
    server.Disconnect()
    child.Disconnect()
    os._exit(0)  # without the dead one, which finalize would wait for


@pytest.mark.smoke
def test_a_client_that_has_died_is_passed_over(passes):
    passes(launch.program(the_dead_are_passed_over), HOOK)


def closed_ports():
    from mpi4py import MPI

    from acp_mpi.engine import _engine
    from acp_mpi.job import membership

    comm = MPI.COMM_WORLD
    for waits in (False, True):
        port = MPI.Open_port() if comm.rank == 0 else None
        if not waits and port:
            MPI.Close_port(port)
        port = comm.bcast(port)
        if comm.rank == 0:
            if waits:
                launch.until(lambda: membership.DOING[_engine.doing(1)] == "is in recv")
                MPI.Close_port(port)
            with pytest.raises(MPI.Exception) as caught:
                MPI.COMM_SELF.Accept(port)
        else:
            with pytest.raises(MPI.Exception) as caught:
                MPI.COMM_SELF.Connect(port)
        assert caught.value.Get_error_class() == MPI.ERR_PORT
    port = comm.bcast(MPI.Open_port() if comm.rank == 0 else None)
    if comm.rank == 0:
        other = MPI.COMM_SELF.Accept(port)
        MPI.Close_port(port)
    else:
        other = MPI.COMM_SELF.Connect(port)
    assert other.sendrecv(comm.rank, 0, source=0) == 1 - comm.rank
    other.Disconnect()


def test_who_connects_to_a_port_that_is_closed_hears_of_it(passes):
    passes([*launch.mpiexec(2), *launch.program(closed_ports)], HOOK)


def close_while_somebody_connects(folder):
    """Rank 1 has seen that the port is open, and asks when it is closed."""
    from mpi4py import MPI

    from acp_mpi.spawn.standin.comm import ports

    comm = MPI.COMM_WORLD
    seen, closed = Path(folder, "seen"), Path(folder, "closed")
    port = comm.bcast(MPI.Open_port() if comm.rank == 0 else None)
    if comm.rank == 0:
        launch.until(seen.exists)
        MPI.Close_port(port)
        closed.touch()
        comm.barrier()
        return
    look = ports._is_open

    def held_up(*sign):
        found = look(*sign)
        seen.touch()
        launch.until(closed.exists)
        return found

    ports._is_open = held_up
    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_SELF.Connect(port)
    assert caught.value.Get_error_class() == MPI.ERR_PORT
    assert "was closed before" in caught.value.__notes__[0]
    comm.barrier()


def test_who_asks_a_port_that_is_just_closed_hears_of_it(passes, tmp_path):
    passes([*launch.mpiexec(2), *launch.program(close_while_somebody_connects, tmp_path)], HOOK)


def connect_when_one_has_died():
    """While rank 0 waits at a port one dies, now or before."""
    from mpi4py import MPI

    import acp_mpi as acp
    from acp_mpi.engine import _engine
    from acp_mpi.job import membership

    parent = MPI.Comm.Get_parent()
    port, victim, pid = parent.recv()
    launch.until(lambda: membership.DOING[_engine.doing(0)] == "is in recv")
    if pid:
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(acp.PeerLostError):
            acp.recv(source=victim)
    server = MPI.COMM_SELF.Connect(port)
    server.send("I live", 0)
    server.Disconnect()
    parent.Disconnect()


def say_who_and_wait():
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    parent.send(os.getpid(), 0)
    parent.recv()


def accept_although_one_dies(when):
    from mpi4py import MPI

    import acp_mpi as acp

    def child(function):
        command, *arguments = launch.program(function)
        comm = MPI.COMM_SELF.Spawn(command, arguments)
        return comm, acp.groups()[-1].ranks[0]

    (dies, victim), (lives, _) = child(say_who_and_wait), child(connect_when_one_has_died)
    pid = dies.recv()
    if when == "before":
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(acp.PeerLostError):
            dies.recv()
    port = MPI.Open_port()
    lives.send((port, victim, 0 if when == "before" else pid), 0)
    server = MPI.COMM_SELF.Accept(port)
    assert server.recv(source=0) == "I live"
    server.Disconnect()
    lives.Disconnect()
    MPI.Close_port(port)
    os._exit(0)  # without the dead one, which finalize would wait for


def close_a_port_after_a_death():
    from mpi4py import MPI

    import acp_mpi as acp

    command, *arguments = launch.program(say_who_and_wait)
    child = MPI.COMM_SELF.Spawn(command, arguments)
    os.kill(child.recv(), signal.SIGKILL)
    with pytest.raises(acp.PeerLostError):
        child.recv()
    MPI.Close_port(MPI.Open_port())
    os._exit(0)  # without the dead one, which finalize would wait for


def test_a_port_is_closed_after_somebody_has_died(passes):
    passes(launch.program(close_a_port_after_a_death), HOOK)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_who_waits_at_a_port_goes_on_when_somebody_else_dies(passes, when):
    passes(launch.program(accept_although_one_dies, when), HOOK)


# Names ----------------------------------------------------------------------------------------


def publish_a_name_that_another_has_published():
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    port = MPI.Open_port()
    for rank in range(comm.size):
        if comm.rank == rank:
            MPI.Publish_name("twice", port)
        comm.barrier()
        with pytest.raises(MPI.Exception) as caught:
            MPI.Publish_name("twice", port)
        assert caught.value.Get_error_class() == MPI.ERR_SERVICE
        assert MPI.Lookup_name("twice") == comm.bcast(port, root=rank)
        comm.barrier()
        if comm.rank != rank:
            with pytest.raises(MPI.Exception) as caught:
                MPI.Unpublish_name("twice", port)
            assert caught.value.Get_error_class() == MPI.ERR_SERVICE
        comm.barrier()
        if comm.rank == rank:
            MPI.Unpublish_name("twice", port)
        comm.barrier()
    with pytest.raises(MPI.Exception) as caught:
        MPI.Lookup_name("twice")
    assert caught.value.Get_error_class() == MPI.ERR_NAME


def test_a_name_is_free_again_when_who_has_published_it_takes_it_back(passes):
    program = launch.program(publish_a_name_that_another_has_published)
    passes([*launch.mpiexec(3), *program], HOOK)
