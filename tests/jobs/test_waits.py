"""Waits beside losses: who chooses whose losses end a wait waits on, and hears of the next."""

import contextlib
import os
import signal

import launch
import pytest
from dying import sync_before_the_end_of

import acp_mpi as acp

RANKS = 4


def poll_until_lost(word, victim):
    """Wait again and again for what does not come, each time for less than a moment."""
    while acp.is_alive(victim):
        with contextlib.suppress(TimeoutError, acp.PeerLostError):
            acp.wait_until(word, "==", 99, timeout=0.001)


def wait_beside_losses():
    """Ranks 3 and 2 die one after the other; rank 1 writes all the time what rank 0 waits for."""
    acp.init()
    me, word = acp.rank(), acp.query_starter_ga(0) + 8
    end_of_two = acp.query_starter_ga(2) + 8
    assert acp.losses() == 0
    assert all(map(acp.is_alive, acp.ranks()))
    sync_before_the_end_of(3)
    if me == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if me == 2:
        while not acp.fetch_add8(end_of_two, 0):
            os.sched_yield()
        os.kill(os.getpid(), signal.SIGKILL)
    if me == 1:
        mine = acp.query_starter_ga(1) + 8
        for turn in range(1, 4):
            while acp.fetch_add8(mine, 0) < turn:
                os.sched_yield()
            acp.put(word, turn.to_bytes(8, "little"))
    else:
        wait_beside_the_first(word)
        hear_of_the_second(word, end_of_two)
        assert acp.refresh() == [0, 1]
        assert acp.losses() == 2
    acp.barrier([0, 1])
    os._exit(0)  # the end is for those who have agreed on who lives


def wait_beside_the_first(word):
    go_on = acp.query_starter_ga(1) + 8
    poll_until_lost(word, 3)
    assert acp.losses() == 1
    with pytest.raises(acp.PeerLostError):
        acp.wait_until(word, "==", 99)
    with pytest.raises(acp.PeerLostError) as caught:
        acp.wait_until(word, "==", 99, ranks=[1, 3])
    assert caught.value.rank == 3
    with pytest.raises(acp.PeerLostError):
        acp.wait_until(word, "==", 99, losses=0)
    acp.fetch_add8(go_on, 1)
    acp.wait_until(word, "==", 1, ranks=[1, 2])
    acp.fetch_add8(go_on, 1)
    acp.wait_until(word, "==", 2, losses=acp.losses())


def hear_of_the_second(word, end_of_two):
    """Though the first is not accepted, and nobody waits for long."""
    with contextlib.suppress(acp.PeerLostError):  # it may die before it answers
        acp.fetch_add8(end_of_two, 1)
    poll_until_lost(word, 2)
    assert acp.losses() == 2
    with pytest.raises(acp.PeerLostError):
        acp.wait_until(word, "==", 99, losses=1)
    acp.fetch_add8(acp.query_starter_ga(1) + 8, 1)
    acp.wait_until(word, "==", 3, losses=2)


@pytest.mark.parametrize("road", ["any", "link", "nodes"])
def test_waits_go_on_beside_losses_that_do_not_concern_them(without_mpi, road):
    jobs = without_mpi(RANKS, launch.program(wait_beside_losses), launch.ROADS[road])
    statuses = [job.wait() for job in jobs]
    assert statuses == [0, 0, -signal.SIGKILL, -signal.SIGKILL], [job.output for job in jobs]


WAITS = {
    "recv": lambda: acp.recv(source=1),
    "recv into a buffer": lambda: acp.recv(bytearray(8), source=1, tag=3),
    "recv from anybody": lambda: acp.recv(tag=1),
    "irecv": lambda: acp.irecv(source=2, tag=1).wait(),
    "probe": lambda: acp.probe(source=1),
    "probe of anybody's": lambda: acp.probe(tag=1),
    "lookup": lambda: acp.lookup("nobody's"),
    "waitany": lambda: acp.waitany([acp.irecv(tag=4), acp.irecv(tag=5)]),
    "waitany, one rank named": lambda: acp.waitany([acp.irecv(source=1, tag=4), acp.irecv(tag=5)]),
    "wait_until": lambda: acp.wait_until(acp.query_starter_ga(0), "==", 99, ranks=acp.ranks()[1:]),
    "iallreduce": lambda: acp.iallreduce(1).wait(),
}


def wait_for_who_ends():
    """All others are in finalize: nothing comes from them but what they have sent before."""
    acp.init()
    acp.sync()
    if acp.rank() == 0:
        for call, wait in WAITS.items():
            with pytest.raises(acp.Error, match=r"already in finalize and will not come") as caught:
                wait()
            assert not isinstance(caught.value, acp.PeerLostError), call
        with pytest.raises(acp.Error, match=r"rank \d+ is already in finalize"):
            acp.sync()
        assert acp.lookup("the last name") == "published"
        assert acp.recv(source=2, tag=7) == "the last word"
    elif acp.rank() == 2:
        acp.send("the last word", 0, tag=7)
        acp.publish("the last name", "published")
    acp.finalize()


# With more ranks than a wait opens links to, those of other nodes are heard of by way of a tree.
@pytest.mark.parametrize(("ranks", "road"), [(3, "any"), (3, "link"), (3, "nodes"), (10, "nodes")])
def test_nobody_waits_for_ranks_in_finalize(without_mpi, ranks, road):
    for job in without_mpi(ranks, launch.program(wait_for_who_ends), launch.ROADS[road]):
        assert job.wait() == 0, job.output
