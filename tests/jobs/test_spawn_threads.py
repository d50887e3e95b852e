"""Several threads of a process that meet others at the same time."""

import os
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}
THREADS = 6


def are_in(function):
    """Return how many threads are in a function, or in what it has called."""
    code, count = function.__code__, 0
    for frame in sys._current_frames().values():
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        count += frame is not None
    return count


def ask_for_the_parents():
    """Ask while another thread is still about to hear it."""
    from mpi4py import MPI

    from acp_mpi.spawn.standin.comm import intercommunicators, strangers

    begin, hear = threading.Barrier(THREADS), strangers.hear

    def held_up(*given):
        launch.until(lambda: are_in(intercommunicators.parent) == THREADS)
        return hear(*given)

    def ask(number):
        begin.wait()
        return MPI.Comm.Get_parent()

    strangers.hear = held_up

    with ThreadPoolExecutor(THREADS) as pool:
        first, *others = pool.map(ask, range(THREADS))
    assert all(other is first for other in others)
    assert first != MPI.COMM_NULL
    first.send("all know", 0)
    first.Disconnect()


def spawn_one_with_threads():
    from mpi4py import MPI

    child = MPI.COMM_SELF.Spawn(sys.executable, launch.program(ask_for_the_parents)[1:])
    assert child.recv(source=0) == "all know"
    child.Disconnect()


def test_several_threads_ask_for_the_parents(passes):
    passes([*launch.mpiexec(1), *launch.program(spawn_one_with_threads)], HOOK)


def accept_two(port):
    from mpi4py import MPI

    for _ in range(2):
        client = MPI.COMM_SELF.Accept(port)
        for rank in range(client.Get_remote_size()):
            client.send(client.Get_remote_size(), rank)
        client.Disconnect()


def connect_by_two_threads():
    """Rank 1 asks with rank 2 and then alone, but looks for the second answer first."""
    from mpi4py import MPI

    from acp_mpi.spawn.standin.comm import ports, strangers

    world = MPI.COMM_WORLD
    pair = world.Split(0 if world.rank == 0 else 1)
    port = world.bcast(MPI.Open_port() if world.rank == 0 else None)
    if world.rank == 0:
        accept_two(port)
        return
    asked, tell, hear = threading.Event(), ports.tell, ports.hear

    def tell_first(*given):
        tell(*given)
        asked.set()

    def hear_last(*given):
        if threading.current_thread() is threading.main_thread():
            launch.until(lambda: are_in(strangers.pause))  # the other one has looked
        return hear(*given)

    def connect(comm):
        server = comm.Connect(port)
        assert server.recv(source=0) == comm.size
        server.Disconnect()

    def connect_alone():
        asked.wait()
        connect(MPI.COMM_SELF)

    if world.rank == 2:
        connect(pair)
        return
    ports.tell, ports.hear = tell_first, hear_last
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(connect_alone)
        connect(pair)
        other.result()


def test_several_threads_connect_to_a_port(passes):
    passes([*launch.mpiexec(3), *launch.program(connect_by_two_threads)], HOOK)


def join_by_a_socket(path, blocking):
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    with socket.socket(socket.AF_UNIX) as line:
        if world.rank == 0:
            line.bind(path)
            line.listen()
        world.barrier()
        if world.rank == 0:
            end, _ = line.accept()
        else:
            line.connect(path)
            end = line
        os.set_blocking(end.fileno(), bool(int(blocking)))
        other = MPI.Comm.Join(end.fileno())
        assert os.get_blocking(end.fileno()) == bool(int(blocking))
        assert other.sendrecv(world.rank, 0, source=0) == 1 - world.rank
        other.Disconnect()
        end.close()


@pytest.mark.parametrize("blocking", [0, 1])
def test_a_socket_stays_as_it_was(passes, tmp_path, blocking):
    program = launch.program(join_by_a_socket, tmp_path / "line", blocking)
    passes([*launch.mpiexec(2), *program], HOOK)
