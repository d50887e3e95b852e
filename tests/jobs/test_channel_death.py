"""SIGKILL at an end of a channel: what was published is received, then the loss is told."""

import collections
import os
import random
import signal
from pathlib import Path

import launch
import pytest

import acp_mpi as acp


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def until_lost(call):
    """Call it until it raises the loss of rank 2; return the results."""
    results = []
    try:
        while True:
            results.append(call())
    except acp.PeerLostError as error:
        assert error.rank == 2, error  # noqa: PT017
        return results


def ahead(begin):
    """Return a call that returns the oldest of three requests, which go on."""
    waiting = collections.deque()

    def call():
        while len(waiting) < 3:
            waiting.append(begin())
        request = waiting.popleft()
        request.wait()
        return request

    return call


def kill_at_both_ends(folder, seed):
    """Rank 2 sends to 0, receives of 1, and dies anywhere; a channel between 0 and 1 goes on.

    With an odd seed by requests.
    """
    acp.init()
    rank, count = acp.rank(), random.Random(int(seed)).randrange(300)
    before = acp.heap_statistics().used
    between = acp.Channel(0, 1, size=100, slots=2, dtype=object) if rank < 2 else None
    if rank == 2:
        to, of = acp.Channel(2, 0, size=16, slots=4), acp.Channel(1, 2, size=16, slots=4)
        for i in range(count):
            to.send(i.to_bytes(4, "little") * (1 + i % 9))
            assert of.recv() == i.to_bytes(4, "little")
        die()
    if rank == 0:
        of = acp.Channel(2, 0, size=16, slots=4)
        if int(seed) % 2:
            requests = until_lost(ahead(lambda: of.irecv(bytearray(40))))
            got = [bytes(request.wait()[: request.status.size]) for request in requests]
        else:
            got = until_lost(of.recv)
        assert got == [i.to_bytes(4, "little") * (1 + i % 9) for i in range(count)]
        with pytest.raises(acp.PeerLostError):
            of.recv(timeout=0)
        of.close()
        between.send(count)
    else:
        to = acp.Channel(1, 2, size=16, slots=4)
        numbers = (i.to_bytes(4, "little") for i in range(1000))
        if int(seed) % 2:
            sent = until_lost(ahead(lambda: to.isend(next(numbers))))
        else:
            sent = until_lost(lambda: to.send(next(numbers)))
        assert count <= len(sent) <= count + 4
        assert between.recv() == count
    between.close()
    acp.barrier([0, 1])
    while acp.heap_statistics().used > before:
        pass  # the progress thread gives the rings back
    Path(folder, f"{rank} survived").touch()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("road", launch.ROADS)
def test_what_a_dead_sender_has_published_is_received(two_survive, tmp_path, road, seed):
    two_survive(launch.program(kill_at_both_ends, tmp_path, seed), road)
