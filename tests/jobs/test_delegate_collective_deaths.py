"""Collectives of a delegate of which a rank dies, or leaves, or a delegate itself dies."""

import os
import signal

import launch
import pytest
from delegating import pid_of
from dying import sync_before_the_end_of
from growing import PATIENCE, newcomer

import acp_mpi as acp


def fold_once(end):
    acp.init()
    d = acp.delegate(start=False)
    assert d.allreduce(1.0, ranks=[0, acp.rank()]).wait(PATIENCE) == 2.0
    if end == "death":
        os.kill(os.getpid(), signal.SIGKILL)
    acp.finalize()


def outlive_a_member():
    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    for end, word in (("death", "died"), ("leave", "closed|died")):
        (other,) = acp.spawn_group(newcomer(fold_once, end), mpi=False).ranks
        pair = [0, other]
        requests = [d.allreduce(1.0, ranks=pair) for _ in range(3)]
        assert requests[0].wait(PATIENCE) == 2.0
        for request in (*requests[1:], d.barrier(ranks=pair)):
            with pytest.raises(acp.PeerLostError, match=f"rank {other}, .* has ({word})"):
                request.wait(PATIENCE)
        assert d.allreduce(1.0, ranks=[0]).wait(PATIENCE) == 1.0
    acp.finalize()


def test_the_others_learn_that_a_member_has_gone(passes):
    passes(launch.program(outlive_a_member), {"ACP_MPI": "0"})


def close_and_come_again():
    acp.init()
    for _ in range(2):
        d = acp.delegate(start=False)
        acp.send(None, dest=0)
        assert d.allreduce(1.0, ranks=[0, acp.rank()]).wait(PATIENCE) == 2.0
        d.close()
        acp.send(None, dest=0)
        acp.recv(source=0)
    acp.finalize()


def do_without_a_member():
    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    (other,) = acp.spawn_group(newcomer(close_and_come_again), mpi=False).ranks
    for _ in range(2):
        acp.recv(source=other)
        assert d.allreduce(1.0, ranks=[0, other]).wait(PATIENCE) == 2.0
        acp.recv(source=other)
        for _ in range(2):
            with pytest.raises(acp.PeerLostError, match=f"rank {other}, .* has closed"):
                d.barrier(ranks=[0, other]).wait(PATIENCE)
        acp.send(None, dest=other)
    acp.finalize()


def test_nobody_waits_for_a_member_that_has_closed_its_delegate(passes):
    passes(launch.program(do_without_a_member), {"ACP_MPI": "0"})


def outlive_the_first():
    import numpy as np

    acp.init()
    here = acp.rank()
    if here == 0:
        acp.sync()
    d = acp.delegate(timeout=PATIENCE)
    if here:
        acp.sync()  # the process is a child of another
    assert d.allreduce(1.0).wait(PATIENCE) == 3.0
    if here == 0:
        for rank in (1, 2):
            acp.recv(source=rank)
        os.kill(os.getpid(), signal.SIGKILL)
    given = d.allreduce(np.ones(1))
    d.ping().wait(PATIENCE)  # that has come
    acp.send(None, dest=0)
    with pytest.raises(acp.PeerLostError, match=r"rank 0, .* has died"):
        given.wait(PATIENCE)
    launch.until(lambda: not acp.is_alive(0))
    for _ in range(2):  # before and after the delegate knows
        with pytest.raises(acp.PeerLostError, match=r"rank 0, .* has died"):
            d.barrier(ranks=[0, 1, 2]).wait(PATIENCE)
    print("told", flush=True)
    acp.finalize()


def test_the_others_learn_that_the_first_rank_has_died(start):
    job = start([*launch.mpiexec(3, survive=True), *launch.program(outlive_the_first)])
    job.wait()
    assert job.output.count("told") == 2, job.output


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def lose_a_rank(victim, when):
    """Each rank is a node. One is killed before it has a delegate, with one, or under way."""
    victim = int(victim)
    acp.init()
    here, others = acp.rank(), [rank for rank in range(3) if rank != victim]
    sync_before_the_end_of(victim)
    if here == victim and when == "early":
        die()
    d = acp.delegate(timeout=PATIENCE)
    if when != "early":
        assert d.allreduce(1.0).wait(PATIENCE) == 3.0
    if here == victim:
        if when == "under way":
            d.allreduce(1.0)
        for rank in others:
            acp.recv(source=rank)
        die()
    requests = [d.allreduce(1.0, ranks=[0, 1, 2]) for _ in range(3)]
    if when != "early":
        acp.send(None, dest=victim)
    for request in requests[when == "under way" :]:
        with pytest.raises(acp.PeerLostError):
            request.wait(PATIENCE)
    launch.until(lambda: not acp.is_alive(victim))
    with pytest.raises(acp.PeerLostError):
        d.barrier(ranks=[0, 1, 2]).wait(PATIENCE)
    assert d.allreduce(1.0, ranks=others).wait(PATIENCE) == 2.0
    print("told", flush=True)
    acp.refresh()
    acp.finalize()


@pytest.mark.parametrize("when", ["early", "idle", "under way"])
@pytest.mark.parametrize("victim", [0, 2])
def test_all_of_several_nodes_learn_of_a_death(start, victim, when):
    program = launch.program(lose_a_rank, victim, when)
    job = start([*launch.mpiexec(3, survive=True), *program], launch.ROADS["nodes"])
    job.wait()
    assert job.output.count("told") == 2, job.output


def lose_a_delegate(victim):
    """It folds, or brings the calls of its ranks; the next one does the same."""
    victim = int(victim)
    acp.init()
    here = acp.rank()
    d = acp.delegate(timeout=PATIENCE)
    for _ in range(2):
        assert d.allreduce(1.0).wait(PATIENCE) == 3.0
        request = d.allreduce(1.0) if here != 1 else None
        acp.sync()
        if here == victim:
            os.kill(pid_of(d), signal.SIGKILL)
        if request is not None:
            with pytest.raises(acp.PeerLostError):
                request.wait(PATIENCE)
        launch.until(lambda d=d: d.lost == (here == victim))
        d = acp.delegate(timeout=PATIENCE)
        acp.sync()
    assert d.allreduce(1.0).wait(PATIENCE) == 3.0
    assert acp.losses() == 0
    acp.finalize()


@pytest.mark.parametrize("victim", [0, 2])
def test_all_of_several_nodes_learn_of_the_death_of_a_delegate(passes, victim):
    passes([*launch.mpiexec(3), *launch.program(lose_a_delegate, victim)], launch.ROADS["nodes"])
