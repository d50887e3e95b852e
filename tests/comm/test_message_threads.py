"""Several Python threads of every rank send and receive at once."""

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support import pattern, right, tries

import acp_mpi as acp
from acp_mpi.engine import _engine
from acp_mpi.job.membership import DOING

pytestmark = pytest.mark.mpi

THREADS = 4
SIZES = [0, 8, 256, 300, 5000, 70_000, 400_000]


def left():
    return (acp.rank() - 1) % acp.procs()


def together(*works):
    """Run all in threads that start at once; return the results or raise."""
    start = threading.Barrier(len(works))

    def run(work):
        start.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def test_pairs_of_threads_keep_their_order_under_load():
    count = tries(90)

    def send(tag):
        for step in range(count):
            acp.send(pattern(SIZES[step * 3 % len(SIZES)], step + tag), right(), tag)

    def receive(tag):
        for step in range(count):
            expected = pattern(SIZES[step * 3 % len(SIZES)], step + tag)
            room = np.zeros(len(expected), np.uint8)
            status = acp.Status()
            acp.recv(room, left(), tag, status)
            assert status.size == len(expected)
            assert (room == expected).all()

    works = [(work, tag) for tag in range(THREADS) for work in (send, receive)]
    together(*(lambda work=work, tag=tag: work(tag) for work, tag in works))


def test_one_thread_sends_all_and_wildcards_share_them():
    count = tries(300)

    def send():
        for step in range(count):
            acp.send((acp.rank(), step), right(), step)
        for _ in range(THREADS):
            acp.send(None, right(), count)

    def receive():
        got = []
        while (x := acp.recv(source=left())) is not None:
            got.append(x[1])
        return got

    _, *got = together(send, *[receive] * THREADS)
    for each in got:
        assert each == sorted(each)
    assert sorted(itertools.chain(*got)) == list(range(count))


def test_threads_of_a_rank_send_to_each_other():
    count = tries(300)

    def play(index):
        other = index ^ 1
        for step in range(count):
            if index % 2 == step % 2:
                acp.send((index, step), acp.rank(), other)
            else:
                assert acp.recv(source=acp.rank(), tag=index) == (other, step)

    together(*(lambda index=index: play(index) for index in range(THREADS)))


def test_waits_of_several_threads_for_different_requests():
    requests = [acp.irecv(source=left(), tag=tag) for tag in range(THREADS)]
    acp.sync()

    def wait(tag):
        return requests[tag].wait(timeout=600)

    def send():
        for tag in reversed(range(THREADS)):
            acp.send(tag, right(), tag)

    *got, _ = together(*(lambda tag=tag: wait(tag) for tag in range(THREADS)), send)
    assert got == list(range(THREADS))


def test_a_request_that_two_threads_wait_for():
    def once(step):
        request = acp.irecv(source=left())
        acp.sync()
        return together(
            lambda: request.wait(timeout=600),
            lambda: acp.waitall([request], timeout=600)[0],
            lambda: acp.send(step, right()),
        )

    for step in range(tries(60)):
        assert once(step) == [step, step, None]


WAYS_TO_WAIT = [
    lambda request: request.wait(timeout=600),
    lambda request: acp.waitall([request], timeout=600)[0],
    lambda request: acp.waitany([request], timeout=600)[1],
]


@pytest.mark.parametrize("wait", WAYS_TO_WAIT, ids=["wait", "waitall", "waitany"])
def test_cancelling_ends_the_wait_of_another_thread(wait):
    def cancel(request, *, asleep):
        while asleep and DOING[_engine.doing(acp.rank())] != "is in recv":
            os.sched_yield()
        return request.cancel()

    for step in range(tries(60)):
        request = acp.irecv(bytearray(8), left(), 9)
        both = together(
            lambda request=request: wait(request),
            lambda request=request, step=step: cancel(request, asleep=step % 2),
        )
        assert both == [None, True]
    assert acp.iprobe() is None


def test_cancelling_beside_a_sender_loses_nothing():
    count = tries(600)

    def send():
        for step in range(count):
            acp.send(step, right(), 2)

    def receive():
        got = []
        while len(got) < count:
            request = acp.irecv(source=left(), tag=2)
            if not request.cancel():
                got.append(request.wait())
        return got

    assert together(send, receive)[1] == list(range(count))


def test_timeouts_beside_a_sender_lose_nothing():
    count = tries(300)

    def send():
        for step in range(count):
            acp.send(pattern(step * 100, step), right(), 2)

    def receive():
        for step in range(count):
            while True:
                try:
                    got = acp.recv(source=left(), tag=2, timeout=1e-5)
                except TimeoutError:
                    continue
                assert (got == pattern(step * 100, step)).all()
                break

    together(send, receive)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("recv", lambda: acp.recv(source=acp.rank(), tag=77)),
        ("sendrecv", lambda: acp.sendrecv(1, acp.rank(), 76, source=acp.rank(), recvtag=77)),
        ("probe", lambda: acp.probe(acp.rank(), 77)),
        ("mprobe", lambda: acp.mprobe(acp.ANY_SOURCE, 77)),
        ("waitany", lambda: acp.waitany([acp.irecv(source=acp.rank(), tag=77)])),
        ("allreduce", lambda: acp.allreduce("objects", ranks=range(acp.procs())[::-1])),
        ("allreduce", lambda: acp.allreduce(np.ones(9), ranks=range(acp.procs())[::-1])),
    ],
)
def test_calls_of_other_threads_end_with_a_reset(name, call):
    n, r = acp.procs(), acp.rank()
    if n == 1 and name == "allreduce":
        return

    def hears():
        function = "irecv" if name == "waitany" else name
        with pytest.raises(acp.Error, match=f"{function}.*: reset came"):
            call()

    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(hears) if r % 2 == 0 or name != "allreduce" else None
        while waits and DOING[_engine.doing(r)] == "computes":
            assert not waits.done()
        acp.reset(r)
        if waits:
            waits.result()
    # Nothing of before has got past it.
    assert acp.allreduce(r, ranks=range(n)[::-1]) == sum(range(n))
    assert acp.allgather(r) == [*range(n)]
    assert acp.iprobe() is None
