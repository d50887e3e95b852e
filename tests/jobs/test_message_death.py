"""SIGKILL while messages are under way: the wait for that rank ends, others go on."""

import os
import signal
from pathlib import Path

import launch
import pytest
from dying import sync_before_the_end_of

import acp_mpi as acp

MIB = 1 << 20
SIZES = [8, 3000, 5 * MIB]


def survive(folder):
    Path(folder, f"{acp.rank()} survived").touch()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def lost(call):
    """Whether it raises the loss of the last rank."""
    try:
        call()
    except acp.PeerLostError as error:
        assert error.rank in (acp.procs() - 1, 2), error  # noqa: PT017
        assert "refresh" in str(error)  # noqa: PT017
        return True
    return False


def kill_in_waits(folder):
    """Ranks 0 and 1 wait for 2, which dies; messages between them go on."""
    acp.init()
    rank = acp.rank()
    acp.sync()
    if rank == 2:
        for size in SIZES:
            acp.send(b"1" * size, 0, 1)
            acp.send(b"1" * size, 1, 1)
        for other in (0, 1):
            acp.recv(source=other, tag=2)
        die()
    other = 1 - rank
    from_the_dead = acp.irecv(source=2, tag=9)
    from_the_living = acp.irecv(source=other, tag=9)
    for size in SIZES:
        assert acp.recv(source=2, tag=1) == b"1" * size
    acp.send(None, 2, 2)
    assert lost(lambda: acp.recv(source=2, tag=3))
    assert lost(from_the_dead.wait)
    assert lost(lambda: acp.probe(2, 3))
    assert lost(lambda: acp.mprobe(2, 3))
    assert lost(lambda: acp.sendrecv(b"x", other, 10, None, 2, 10))
    assert acp.recv(source=other, tag=10) == b"x"
    assert lost(lambda: acp.waitany([from_the_living, acp.irecv(source=2, tag=3)]))
    assert lost(lambda: acp.waitall([acp.irecv(source=2, tag=3), acp.isend(rank, other, 11)]))
    assert acp.recv(source=other, tag=11) == other
    assert not from_the_living.done
    for size in SIZES:
        acp.send(bytes([rank]) * size, other, 4)
        assert acp.recv(source=other, tag=4) == bytes([other]) * size
    acp.send("alive", other, 9)
    assert from_the_living.wait() == "alive"
    assert lost(lambda: send_until_it_fails(2))
    assert lost(lambda: acp.recv(tag=77))  # from anybody, and one of them is dead
    acp.refresh()
    acp.send("again", other, 78)
    assert acp.recv(tag=78) == "again"
    acp.barrier([0, 1])
    survive(folder)


def send_until_it_fails(rank):
    for _ in range(10_000):
        acp.send(b"x" * 1000, rank, 5)


@pytest.mark.smoke("link")
@pytest.mark.parametrize("road", launch.ROADS)
def test_the_wait_for_the_dead_ends_and_the_others_go_on(two_survive, tmp_path, road):
    two_survive(launch.program(kill_in_waits, tmp_path), road)


def kill_in_a_storm(folder, seed):
    """Rank 2 dies in the middle of sends of all sizes; what came whole is received whole."""
    import random

    acp.init()
    rng = random.Random(int(seed))
    rank = acp.rank()
    room = bytearray(6 * MIB)
    sync_before_the_end_of(2)
    if rank == 2:
        for step in range(rng.randrange(200)):
            size = rng.choice([4, 200, 5000, 100_000, 5 * MIB])
            acp.send(step.to_bytes(4, "little") * (size // 4), step & 1, 1)
            if step & 1 and rng.random() < 0.3:
                acp.isend(bytearray(b"y" * 5 * MIB), 0, 2)
        die()
    step = rank
    try:
        while True:
            status = acp.Status()
            acp.recv(room, 2, 1, status)
            assert room[: status.size] == step.to_bytes(4, "little") * (status.size // 4)
            step += 2
    except acp.PeerLostError as error:
        assert error.rank == 2, error  # noqa: PT017
    go_on(folder, room)


def go_on(folder, room):
    """Messages between ranks 0 and 1 are what they were."""
    rank = acp.rank()
    other = 1 - rank
    for size in SIZES * 5:
        acp.send(bytes([rank]) * size, other, 4)
        acp.recv(room, other, 4)
        assert room[:size] == bytes([other]) * size
    acp.barrier([0, 1])
    survive(folder)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("road", launch.ROADS)
def test_a_death_in_the_middle_of_messages(two_survive, tmp_path, road, seed):
    two_survive(launch.program(kill_in_a_storm, tmp_path, seed), road)


def kill_who_helps(folder, seed):
    """Rank 2 dies while it waits for long messages, and copies them with those who send."""
    import random
    import threading

    acp.init()
    rng = random.Random(int(seed))
    room = bytearray(6 * MIB)
    sync_before_the_end_of(2)
    if acp.rank() == 2:
        threading.Timer(rng.random() / 4, die).start()
        while True:
            for other in (0, 1):
                acp.recv(room, other, 1)
                acp.send(None, other, 2)
    long = bytes(5 * MIB)
    try:
        while True:
            acp.send(long[: rng.choice([100_000, MIB, 5 * MIB])], 2, 1)
            acp.recv(source=2, tag=2)
    except acp.PeerLostError as error:
        assert error.rank == 2, error  # noqa: PT017
    go_on(folder, room)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("road", ["any", "owner"])
def test_a_receiver_dies_while_it_copies(two_survive, tmp_path, road, seed):
    two_survive(launch.program(kill_who_helps, tmp_path, seed), road)


def kill_who_has_spoken_first(folder):
    """Only rank 2 has ever spoken: what the others know of it came by links that it opened."""
    acp.init()
    rank, word = acp.rank(), acp.query_starter_ga(acp.rank())
    if rank == 2:
        for other in (0, 1):
            acp.fetch_add8(acp.query_starter_ga(other), 1)
        die()
    acp.wait_until(word, "==", 1)
    assert lost(lambda: acp.recv(source=2))
    survive(folder)
    os._exit(0)  # they have not agreed on who lives


@pytest.mark.parametrize("road", launch.ROADS)
def test_who_was_only_spoken_to_hears_of_the_death(two_survive, tmp_path, road):
    program = launch.program(kill_who_has_spoken_first, tmp_path)
    two_survive(["env", "ACP_PEER_TIMEOUT=3600", *program], road)  # it is not silence that tells
