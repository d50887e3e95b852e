"""Services: ranks that a program does not mean when it means all."""

import contextlib
import os
import signal

import launch
import pytest
from growing import await_leave, await_words, give_leave, newcomer, say_word
from macprunning import alone, macprun

import acp_mpi as acp

SERVICE = {"ACP_SERVICE": "1"}
RANKS = [0, 1]


def serve():
    """To a service all are those that came along."""
    with acp.init():
        assert acp.rank() == 2
        assert acp.ranks(services=True) == [0, 1, 2]
        acp.sync()
        acp.refresh()
        acp.sync()
        assert acp.allreduce(1) == 1
        say_word(2)
        await_leave()


def start_service(function):
    """Have all know of it and use it, which nothing here is to depend on."""
    acp.init()
    if acp.rank() == 0:
        group = acp.spawn_group(newcomer(function), mpi=False, env=SERVICE)
        assert list(group.ranks) == [2]
        await_words([2])
    acp.sync()
    assert acp.get(acp.query_starter_ga(2), bytearray(8)) == bytes(8)
    acp.sync()


def check_all_are_two():
    assert acp.ranks() == RANKS
    acp.sync()
    acp.barrier()
    assert acp.allgather(acp.rank()) == RANKS
    assert acp.allreduce(1) == 2
    table = acp.bcast(acp.Map() if acp.rank() == 0 else None)
    assert sorted(table.statistics().ranks) == RANKS
    acp.sync()


def do_without_it():
    start_service(serve)
    check_all_are_two()
    assert acp.refresh() == RANKS
    assert acp.ranks(services=True) == [0, 1, 2]
    check_all_are_two()
    with pytest.raises(acp.Error, match="reset: rank 2 is a service of this job"):
        acp.reset(1 - acp.rank())
    acp.sync()
    if acp.rank() == 0:
        give_leave([2])
    with pytest.raises(acp.PeerLostError):
        acp.recv(source=2)
    acp.reset(1 - acp.rank())
    check_all_are_two()
    assert acp.losses() == 0
    acp.finalize()


def serve_and_die():
    acp.init()
    say_word(2)
    await_leave()
    os.kill(os.getpid(), signal.SIGKILL)


def outlive_it():
    start_service(serve_and_die)
    if acp.rank() == 0:
        with contextlib.suppress(acp.PeerLostError):  # it may die before it has answered
            give_leave([2])
    with pytest.raises(acp.PeerLostError):
        acp.recv(source=2)
    with pytest.raises(acp.PeerLostError):
        acp.get(acp.query_starter_ga(2), bytearray(8))
    assert acp.losses() == 0  # so that no refresh is due
    acp.sync()
    other = 1 - acp.rank()
    request = acp.isend(acp.rank(), dest=other)
    assert acp.recv() == other
    request.wait()
    check_all_are_two()
    acp.finalize()


def begin_with_a_service():
    with acp.init():
        if acp.rank():
            assert acp.ranks() == [1, 2]
            with pytest.raises(acp.Error, match="reset: rank 0 is a service of this job"):
                acp.reset(3 - acp.rank())
        else:
            with pytest.raises(acp.Error, match="rank 1"):
                acp.recv(source=1)


def test_the_first_rank_may_be_the_service(passes):
    service = alone(1, "first", begin_with_a_service, options=["--env", "ACP_SERVICE=1"])
    passes(macprun(service, alone(2, "all", begin_with_a_service)))


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("program", [do_without_it, outlive_it])
def test_all_are_those_that_are_no_services(start, road, program):
    job = start([*launch.mpiexec(2), *launch.program(program)], launch.ROADS[road])
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def serve_by_mpi():
    if launch.group_rank() == 1:
        os.environ["ACP_SERVICE"] = "1"
    with pytest.raises(acp.Error, match="ACP_SERVICE=1 on a rank of MPI"):
        acp.init()


def test_a_rank_of_mpi_is_no_service(start):
    job = start([*launch.mpiexec(2), *launch.program(serve_by_mpi)])
    assert job.wait() == 0, job.output
