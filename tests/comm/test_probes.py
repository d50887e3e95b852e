"""Looking for messages, and taking one so that nobody else receives it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support import pattern, refused, right, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def left():
    return (acp.rank() - 1) % acp.procs()


def test_a_probe_tells_the_size_before_the_receive():
    for size in (0, 8, 1000, 100_000, 3 << 20):
        acp.send(pattern(size), right(), 5)
        status = acp.probe(left(), 5)
        assert (status.source, status.tag, status.size) == (left(), 5, size)
        room = np.zeros(status.count("u1"), np.uint8)
        acp.recv(room, left(), 5)
        assert (room == pattern(size)).all()


def test_iprobe_returns_at_once():
    assert acp.iprobe() is None
    acp.sync()
    acp.send(1, right(), 5)
    acp.probe(left(), 5, timeout=600)
    assert acp.iprobe(left(), 5).tag == 5
    assert acp.iprobe(left(), 6) is None
    assert acp.recv() == 1
    assert acp.iprobe() is None


def test_a_probe_finds_the_first_that_fits():
    for tag in (4, 2, 4):
        acp.send(tag, right(), tag)
    assert acp.probe(left(), 2).tag == 2
    assert acp.probe(left()).tag == 4
    assert [acp.recv(source=left(), tag=tag) for tag in (2, 4, 4)] == [2, 4, 4]


def test_a_message_that_was_taken_is_nobody_elses():
    acp.send("first", right(), 3)
    acp.send("second", right(), 3)
    message = acp.mprobe(left(), 3)
    assert (message.status.source, message.status.tag) == (left(), 3)
    assert acp.recv(source=left(), tag=3) == "second"
    assert acp.iprobe(left()) is None
    assert message.recv() == "first"


def test_a_taken_message_is_received_once():
    acp.send("x", right())
    message = acp.mprobe(left())
    message.recv()
    for receive in (message.recv, message.irecv):
        with refused(ValueError, "Message.recv|Message.irecv"):
            receive()


def test_a_taken_message_fills_a_buffer():
    for size in (0, 8, 1000, 100_000, 3 << 20):
        room = np.zeros(size, np.uint8)
        acp.send(pattern(size, 2), right(), 5)
        assert acp.mprobe(left(), 5).recv(room) is room
        assert (room == pattern(size, 2)).all()
        room[:] = 0
        acp.send(pattern(size, 2), right(), 5)
        request = acp.mprobe(left(), 5).irecv(room)
        assert request.wait() is room
        assert (room == pattern(size, 2)).all()


def test_improbe_takes_what_is_there():
    assert acp.improbe() is None
    acp.sync()
    acp.send([1], right())
    acp.probe(left(), timeout=600)
    message = acp.improbe(left())
    assert acp.improbe(left()) is None
    assert message.recv() == [1]


def test_a_taken_message_that_is_dropped_is_gone():
    acp.send(pattern(200_000), right())
    acp.send("next", right())
    acp.mprobe(left())
    assert acp.recv(source=left()) == "next"
    assert acp.iprobe(left()) is None


def test_a_probe_times_out():
    for probe in (acp.probe, acp.mprobe):
        with refused(TimeoutError, f"{probe.__name__} from rank {left()}, tag 1"):
            probe(left(), 1, timeout=0.01)


def test_a_probe_wakes_when_the_message_comes():
    for step in range(tries(60)):
        if acp.rank() == 0:
            acp.send(step, right(), 1)
        assert acp.probe(left(), 1, timeout=600).tag == 1
        assert acp.recv(source=left(), tag=1) == step
        if acp.rank() != 0:
            acp.send(step, right(), 1)


def test_threads_take_each_message_once():
    threads, count = 4, tries(200)
    got = [[] for _ in range(threads)]
    start = threading.Barrier(threads + 1)

    def take(index):
        start.wait()
        while (x := acp.mprobe(left(), 1).recv()) is not None:
            got[index].append(x)

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(take, index) for index in range(threads)]
        start.wait()
        for step in range(count):
            acp.send(step, right(), 1)
        for _ in range(threads):
            acp.send(None, right(), 1)
        for thread in running:
            thread.result()
    assert sorted(x for each in got for x in each) == list(range(count))
    for each in got:
        assert each == sorted(each)
