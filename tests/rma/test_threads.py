"""Several Python threads of a process at once."""

import itertools
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support import SLOW_ROAD, fetch, pattern, refused, right, shared, stale_address, starter

import acp_mpi as acp
from acp_mpi.engine import _engine

pytestmark = pytest.mark.mpi

THREADS = 5
ROUNDS = 30 if SLOW_ROAD else 500
MIB = 1 << 20


def together(work):
    """Run work(i) in THREADS threads that start at once; return the results or raise."""
    start = threading.Barrier(THREADS)

    def run(index):
        start.wait()
        return work(index)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_no_atomic_of_any_thread_is_lost():
    counter, places = shared(1, np.uint64)
    drawn = together(lambda _: [acp.fetch_add8(places[0], 1) for _ in range(ROUNDS)])
    everyone = acp.allgather([*itertools.chain.from_iterable(drawn)])
    assert sorted([*itertools.chain.from_iterable(everyone)]) == list(
        range(THREADS * ROUNDS * acp.procs())
    )
    assert acp.rank() or counter[0] == THREADS * ROUNDS * acp.procs()


@pytest.mark.parametrize("size", [8, 1000, 100_000, 2 * MIB])
def test_threads_transfer_through_rows_of_their_own(size):
    rows, places = shared((THREADS, size))

    def work(index):
        ga = places[right()] + index * size
        for step in range(5 if size > 1000 else 50):
            data = pattern(size, step * THREADS + index)
            acp.put(ga, data)
            assert fetch(ga, size) == data.tobytes()

    together(work)
    acp.sync()
    assert rows.any()


def test_each_thread_continues_its_own_previous_operation():
    rows, places = shared((THREADS, ROUNDS + 1), np.uint64)

    def work(index):
        base = places[right()] + index * (ROUNDS + 1) * 8
        acp.put(base, (index + 1).to_bytes(8, "little"))
        for step in range(ROUNDS):
            acp.copy(base + 8 * (step + 1), base + 8 * step, 8, order=acp.HANDLE_CONT)
        acp.complete()

    together(work)
    acp.sync()
    for index in range(THREADS):
        assert (rows[index] == index + 1).all()


def test_handles_are_numbered_over_all_threads():
    source, own = shared(4 * MIB)
    sinks = [acp.empty(source.nbytes, np.uint8) for _ in range(THREADS)]

    def work(index):
        return [
            acp.copy(acp.query_ga(sinks[index]), own[acp.rank()], source.nbytes) for _ in range(3)
        ]

    handles = sorted([*itertools.chain.from_iterable(together(work))])
    assert len(set(handles)) == 3 * THREADS
    assert handles == list(range(handles[0], handles[0] + 6 * THREADS, 2))
    together(lambda _: acp.complete())


def test_one_thread_sleeps_while_another_sends():
    word, places = shared(1, np.uint64)

    def work(index):
        if index == 0:
            acp.wait_until(places[acp.rank()], "==", THREADS - 1, timeout=600)
            return word[0]
        acp.fetch_add8(places[right()], 1)
        return THREADS - 1

    assert together(work) == [THREADS - 1] * THREADS


def bad_address():
    """Return one of the right neighbour that names nothing there any more."""
    return [stale_address(rank) for rank in range(acp.procs())][right()]


def test_an_error_is_raised_in_the_thread_whose_call_it_was():
    _, places = shared(8)
    bad = bad_address()

    def work(index):
        for _ in range(ROUNDS):
            if index == 0:
                with refused(acp.AddressError, "get"):
                    acp.get(bad, bytearray(8))
            else:
                acp.get(places[right()], bytearray(8))

    together(work)


def test_who_completes_does_not_take_the_error_of_a_call_that_waits():
    bad = bad_address()
    stop = threading.Event()

    def work(index):
        while index and not stop.is_set():
            acp.complete()
        try:
            for _ in range(ROUNDS if index == 0 else 0):
                with refused(acp.AddressError, "get"):
                    acp.get(bad, bytearray(8))
                with refused(acp.AddressError, "fetch_add8"):
                    acp.fetch_add8(bad, 1)
                with refused(acp.AddressError, "put"):
                    acp.put(bad, bytes(8), flag=(starter(right()), 1))
        finally:
            stop.set()

    together(work)
    acp.sync()


def test_nor_that_of_a_call_that_waits_for_many():
    bad = bad_address()
    stop = threading.Event()
    rows = acp.remote(bad, (20, 2), np.uint8)
    elements = acp.List(dtype=np.uint8, rank=acp.rank())
    elements.append(1)

    def work(index):
        while index and not stop.is_set():
            acp.complete()
        try:
            for _ in range(ROUNDS // 5 if index == 0 else 0):
                with refused(acp.AddressError, "get"):
                    rows[:, 0]
                with refused(acp.AddressError, "put"):
                    rows[:, 0] = 1
                with refused(acp.AddressError, "List.push_back_ga"):
                    elements.push_back_ga(bad)
        finally:
            stop.set()

    together(work)
    assert list(elements) == [1]
    elements.destroy()


def test_threads_register_and_release_at_once():
    def work(index):
        for step in range(ROUNDS):
            buffer = bytearray(b"%d" % (index * ROUNDS + step))
            with acp.register_memory(buffer) as key:
                assert fetch(acp.query_ga(key), len(buffer)) == buffer
            acp.empty(100 + index, np.uint8)

    together(work)


def test_keys_of_threads_have_addresses_whichever_of_them_publishes(monkeypatch):
    register = _engine.register

    def slowly(*arguments):
        time.sleep(1e-4)  # the others run meanwhile
        return register(*arguments)

    def work(index):
        for step in range(ROUNDS // 5):
            buffer = bytearray(b"%d" % (index * ROUNDS + step))
            with acp.register_memory(buffer, index % acp.colors()) as key:
                time.sleep(1e-4)
                ga = acp.query_ga(key)
                assert acp.query_rank(ga) == acp.rank()
                assert fetch(ga, len(buffer)) == buffer

    monkeypatch.setattr(_engine, "register", slowly)
    together(work)


def test_a_name_that_threads_publish_at_once_stands_for_what_one_of_them_gave(monkeypatch):
    name = f"of {acp.rank()}"
    put = _engine.name_publish

    def slowly(*arguments):
        since = put(*arguments)
        time.sleep(1e-4)  # the others run meanwhile
        return since

    monkeypatch.setattr(_engine, "name_publish", slowly)
    for step in range(20):
        together(lambda index, step=step: acp.publish(name, (step, index)))
        assert acp.lookup(name, timeout=600)[0] == step


def test_signals_are_handled_also_where_many_threads_wait():
    """More than can be rung for; and the signal comes to another thread."""
    word, places = shared(1, np.uint64)
    mine = places[acp.rank()]
    old = signal.signal(signal.SIGALRM, lambda *ignored: acp.fetch_add8(mine, 1))
    with ThreadPoolExecutor(12) as pool:
        try:
            asleep = [pool.submit(acp.wait_until, mine, "==", 1, 60) for _ in range(12)]
            threading.Timer(
                0.3, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGALRM)
            ).start()
            acp.wait_until(mine, "==", 1, timeout=600)
        finally:
            signal.signal(signal.SIGALRM, old)
            acp.fetch_or8(mine, 1)
        for thread in asleep:
            thread.result()
    assert word[0] == 1


def test_threads_copy_while_the_main_thread_meets():
    rows, places = shared((THREADS, 1000))
    done = threading.Event()

    def work(index):
        while not done.is_set():
            acp.put(places[right()] + index * 1000, bytes([index + 1]) * 1000)

    with ThreadPoolExecutor(THREADS) as pool:
        try:
            running = [pool.submit(work, index) for index in range(THREADS)]
            for _ in range(20):
                acp.barrier(range(acp.procs()))
        finally:
            done.set()
        for thread in running:
            thread.result()
    acp.sync()
    for index in range(THREADS):
        assert set(rows[index].tolist()) <= {0, index + 1}
