"""Messages between ranks: what is sent is what is received, in order, whoever comes first."""

import numpy as np
import pytest
from support import alone, case, pattern, refused, right, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

KIB, MIB = 1 << 10, 1 << 20
SIZES = [0, 1, 8, 255, 256, 257, 4 * KIB, 64 * KIB - 1, 64 * KIB + 1, MIB, 5 * MIB + 3]


def left():
    """Return the rank whose right neighbour this one is."""
    return (acp.rank() - 1) % acp.procs()


@pytest.mark.parametrize("size", SIZES)
def test_bytes_arrive_in_a_buffer(size):
    room = np.zeros(size, np.uint8)
    acp.send(pattern(size, acp.rank()), right(), 3)
    assert acp.recv(room, left(), 3) is room
    assert (room == pattern(size, left())).all()


def test_what_was_received_without_a_buffer_leaves_nothing_in_the_heap():
    def receive_many(size):
        for _ in range(200):
            acp.send(b"x" * size, acp.rank(), 1)
            assert len(acp.recv(source=acp.rank(), tag=1)) == size
        return acp.heap_statistics(acp.rank()).used

    for size in (8, 300, 100 * KIB):
        with case("bytes", size):
            used = receive_many(size)
            assert receive_many(size) <= used


@pytest.mark.parametrize("size", SIZES)
def test_a_receive_that_was_posted_is_filled(size):
    room = np.zeros(size, np.uint8)
    request = acp.irecv(room, left(), 3)
    acp.sync()
    acp.send(pattern(size, acp.rank()), right(), 3)
    assert request.wait() is room
    assert (room == pattern(size, left())).all()
    assert (request.status.source, request.status.tag, request.status.size) == (left(), 3, size)


@pytest.mark.parametrize("size", SIZES)
def test_the_posted_buffer_may_be_global_memory(size):
    room = acp.zeros(size, np.uint8)
    request = acp.irecv(room, left(), 3)
    acp.sync()
    source = acp.empty(size, np.uint8)
    source[:] = pattern(size, acp.rank())
    acp.send(source, right(), 3)
    request.wait()
    assert (room == pattern(size, left())).all()


def test_a_buffer_may_be_changed_when_send_returns():
    for size in SIZES:
        data = pattern(size, 1).copy()
        acp.send(data, right())
        data[:] = 0
        assert acp.recv(source=left()).tobytes() == pattern(size, 1).tobytes()


def test_both_send_much_before_they_receive():
    size = 64 * MIB if acp.procs() <= 2 else 8 * MIB
    data = pattern(size, acp.rank())
    room = np.zeros(size, np.uint8)
    acp.send(data, right())
    acp.recv(room, left())
    assert (room == pattern(size, left())).all()


def test_a_rank_sends_to_itself():
    for size in SIZES:
        acp.send(pattern(size), acp.rank(), 5)
        assert (acp.recv(source=acp.rank(), tag=5) == pattern(size)).all()
        request = acp.irecv(source=acp.rank(), tag=5)
        acp.send(pattern(size, 1), acp.rank(), 5)
        assert (request.wait() == pattern(size, 1)).all()


def test_messages_of_a_pair_come_in_the_order_of_their_sends():
    rng = np.random.default_rng(4)
    sizes = rng.choice([0, 8, 300, 5000, 70_000, 300_000], tries(150))
    for step, size in enumerate(sizes):
        acp.send(pattern(size, step), right(), 1)
    for step, size in enumerate(sizes):
        assert acp.recv(source=left(), tag=1).tobytes() == pattern(size, step).tobytes()


def test_receives_are_matched_in_the_order_in_which_they_were_posted():
    count = tries(150)
    rooms = [np.zeros(1 + step % 3 * 1000, np.uint32) for step in range(count)]
    requests = [acp.irecv(room, left(), acp.ANY_TAG) for room in rooms]
    acp.sync()
    for step, room in enumerate(rooms):
        acp.send(np.full(room.shape, step, np.uint32), right(), step)
    acp.waitall(requests)
    for step, room in enumerate(rooms):
        assert (room == step).all()
        assert requests[step].status.tag == step


def test_a_receive_takes_what_fits_and_leaves_the_rest():
    for tag in range(10):
        acp.send(tag, right(), tag)
    for tag in reversed(range(10)):
        assert acp.recv(source=left(), tag=tag) == tag


def test_any_source_receives_from_all():
    if not alone():
        for step in range(20):
            acp.send((acp.rank(), step), 0, 2)
        return
    seen = dict.fromkeys(range(1, acp.procs()), 0)
    for _ in range(20 * len(seen)):
        status = acp.Status()
        rank, step = acp.recv(tag=2, status=status)
        assert (rank, step) == (status.source, seen[rank])
        seen[rank] += 1


def test_a_wildcard_and_a_named_receive_are_matched_in_their_order():
    first = acp.irecv()
    second = acp.irecv(source=left(), tag=7)
    third = acp.irecv(tag=7)
    fourth = acp.irecv(source=left())
    acp.sync()
    for step in range(4):
        acp.send(step, right(), 7)
    assert acp.waitall([first, second, third, fourth]) == [0, 1, 2, 3]


def test_the_largest_tag_is_a_tag():
    acp.send("far", right(), 2**62)
    assert acp.recv(source=left(), tag=2**62) == "far"


def test_sendrecv_turns_in_a_ring():
    value = acp.rank()
    for _ in range(acp.procs()):
        value = acp.sendrecv(value, right(), 4, source=left(), recvtag=4)
    assert value == acp.rank()


def test_sendrecv_of_long_buffers():
    room = np.zeros(3 * MIB, np.uint8)
    status = acp.Status()
    got = acp.sendrecv(pattern(3 * MIB, acp.rank()), right(), buffer=room, source=left(),
                       status=status)  # fmt: skip
    assert got is room
    assert (room == pattern(3 * MIB, left())).all()
    assert (status.source, status.size) == (left(), 3 * MIB)


def test_the_status_counts_elements():
    acp.send(np.arange(5.0), right(), 1)
    status = acp.Status()
    acp.recv(source=left(), status=status)
    assert (status.size, status.count(8), status.count("f4"), status.count()) == (40, 5, 10, 40)
    with refused(ValueError, "count", 40, 16):
        status.count("c16")
    with refused(TypeError, "count", "'nope'"):
        status.count("nope")


def test_a_message_longer_than_its_buffer_is_an_error_and_is_gone():
    for size, room in [(9, 8), (300, 20), (100_000, 300), (2 * MIB, MIB), (1, 0)]:
        for posted in (False, True):
            buffer = np.zeros(room, np.uint8)
            if posted:
                request = acp.irecv(buffer, left())
                acp.sync()
            acp.send(pattern(size, 2), right())
            with pytest.raises(acp.TruncationError, match=rf"{size} bytes.*{room}; "):
                request.wait() if posted else acp.recv(buffer, left())
            assert (buffer == pattern(size, 2)[:room]).all()
            assert acp.iprobe(left()) is None
            acp.sync()


def test_a_shorter_message_leaves_the_rest_of_the_buffer():
    room = np.full(1000, 7, np.uint8)
    acp.send(b"\1" * 10, right())
    status = acp.Status()
    acp.recv(room, left(), status=status)
    assert status.size == 10
    assert room[:10].tolist() == [1] * 10
    assert (room[10:] == 7).all()


def test_a_buffer_that_is_not_contiguous_is_filled():
    room = np.zeros((40, 50))
    acp.send(np.arange(1000.0), right())
    acp.recv(room[:, ::2], left())
    assert (room[:, ::2].reshape(-1) == np.arange(1000.0)).all()
    assert not room[:, 1::2].any()


@pytest.mark.slow
def test_a_message_of_more_than_two_gib():
    if not alone() and acp.rank() != 1:
        return
    size = (2 << 30) + 12345
    data = np.zeros(size, np.uint8)
    data[:: MIB // 2] = np.arange(len(data[:: MIB // 2])) % 251
    data[-1] = 9
    peer = 1 - acp.rank() if acp.procs() > 1 else 0
    if acp.rank() == 0:
        request = acp.isend(data, peer)
        if acp.procs() > 1:
            request.wait()
            return
    room = np.empty(size, np.uint8)
    acp.recv(room, 0)
    assert room[-1] == 9
    assert (room[:: MIB // 2][:-1] == data[:: MIB // 2][:-1]).all()
