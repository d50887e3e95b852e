"""Collectives that go on beside the program."""

import contextlib
import functools
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from filled import data, everyone
from support import tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

THREADS = 8  # more than there are lanes
MIB = 1 << 20


def test_several_under_way_at_once() -> None:
    n, r = acp.procs(), acp.rank()
    requests: list[tuple[Any, Callable[[Any], bool]]] = []
    for i, count in enumerate([1, 20_000, 0, 300_000, 64] * 2):
        x = data(count, seed=i)
        total = sum(everyone(count, seed=i)) if n else x
        requests += [
            (acp.iallreduce(x), lambda got, total=total: np.array_equal(got, total)),
            (acp.iallgather((r, i)), lambda got, i=i: got == [(k, i) for k in range(n)]),
            (acp.ibarrier(), lambda got: got is None),
            (
                acp.ibcast(x.copy(), i % n, out=np.empty_like(x)),
                lambda got, c=count, i=i: np.array_equal(got, data(c, seed=i, rank=i % n)),
            ),
        ]
    for request, right in reversed(requests) if r % 2 else requests:
        assert right(request.wait())
        assert request.test()
        assert request.done


def test_a_request_is_done_without_being_waited_for() -> None:
    x = np.full(50_000, acp.rank() + 1.0)
    request = acp.iallreduce(x)
    acp.sync()
    while not request.test():
        acp.inquire(0)
    n = acp.procs()
    assert request.wait()[0] == n * (n + 1) / 2


def test_collectives_among_other_requests() -> None:
    n, r = acp.procs(), acp.rank()
    message = acp.irecv(source=(r - 1) % n, tag=5)
    fold, all_here = acp.iallreduce(r), acp.ibarrier()
    acp.send(r, (r + 1) % n, tag=5)
    assert acp.waitall([fold, message, all_here]) == [n * (n - 1) // 2, (r - 1) % n, None]
    assert acp.testall([fold, all_here])
    assert not fold.cancel()


def test_threads_start_collectives_at_once() -> None:
    me = acp.rank()

    def start_many() -> None:
        for _ in range(tries(150)):
            requests = [acp.iallreduce(np.full(4, me), ranks=[me]) for _ in range(20)]
            assert all(request.wait()[0] == me for request in requests)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for each in [pool.submit(start_many) for _ in range(4)]:
                each.result()
    finally:
        sys.setswitchinterval(usual)


def test_a_timeout_of_the_operation_itself_is_why_it_fails() -> None:
    if acp.procs() == 1:
        pytest.skip("nothing is folded")

    def late(a: Any, b: Any) -> Any:
        raise TimeoutError("of the operation")

    request = acp.iallreduce(np.ones(3), late)

    def ask() -> None:
        while not request.test():
            acp.inquire(0)

    with pytest.raises((TimeoutError, acp.Error), match=r"of the operation|has left"):
        ask()


@pytest.mark.parametrize("name", ["iallreduce", "allreduce"])
def test_one_timeout_is_for_all_that_an_operation_folds(name: str) -> None:
    n, r = acp.procs(), acp.rank()
    if n == 1:
        pytest.skip("nothing is folded")
    seconds, x = 3.0, np.full(200_000, r + 1.0)
    begun: list[int] = []

    def outlasts(a: Any, b: Any) -> Any:
        if r == 0 and not begun:
            begun.append(r)
            while time.monotonic() < start + seconds:
                pass
            for other in range(1, n):
                acp.send("folded", other)
        return a + b

    if r != 0:
        request = acp.iallreduce(x, outlasts, commutative=True)
    acp.sync()  # the others have begun
    start = time.monotonic()
    if r == 0:  # needs parts that the others fold when they hear that it waits no more
        if name == "iallreduce":
            request = acp.iallreduce(x, outlasts, commutative=True)
            call = functools.partial(request.wait, seconds)
        else:
            call = functools.partial(acp.allreduce, x, outlasts, commutative=True, timeout=seconds)
        with pytest.raises(TimeoutError):
            call()
        for other in range(1, n):
            acp.send("gave up", other)
    else:
        assert acp.recv(source=0) == "folded"
        with contextlib.suppress(TimeoutError):  # if it waits for longer, it gets what it needs
            acp.recv(source=0, timeout=0.8 * seconds)
    if name == "iallreduce":
        assert request.wait(60)[0] == n * (n + 1) / 2
    elif r != 0:
        with contextlib.suppress(acp.Error):  # "rank 0 has left", for those that lack something
            request.wait(60)


def test_a_reset_while_an_operation_folds_ends_the_request() -> None:
    n, r = acp.procs(), acp.rank()
    if n == 1:
        pytest.skip("nothing is folded")

    def resets(a: Any, b: Any) -> Any:
        acp.reset(r)
        return a + b

    request = acp.ireduce(np.ones(3), resets)
    if r == 0:
        with pytest.raises(acp.Error, match="reset came"):
            request.wait(60)
    else:
        acp.reset(r)
    assert acp.allreduce(1) == n


def test_it_fails_while_other_threads_transfer() -> None:
    if acp.procs() == 1:
        pytest.skip("nothing is folded")
    right = (acp.rank() + 1) % acp.procs()
    room = acp.empty(THREADS * MIB, np.uint8)
    place = acp.allgather(acp.query_ga(room))[right]
    over = threading.Event()

    def transfer(i: int) -> None:
        mine = np.zeros(MIB, np.uint8)
        while not over.is_set():
            acp.put(place + i * MIB, mine)

    def fails(a: Any, b: Any) -> Any:
        raise ValueError("of the operation")

    with ThreadPoolExecutor(THREADS) as pool:
        threads = [pool.submit(transfer, i) for i in range(THREADS)]
        try:
            for _ in range(20):
                with pytest.raises((ValueError, acp.Error), match=r"of the operation|has left"):
                    acp.iallreduce(np.ones(3), fails).wait()
        finally:
            over.set()
        for each in threads:
            each.result()
    acp.sync()


def test_the_same_ranks_named_and_not_named_are_under_way_together() -> None:
    n, r = acp.procs(), acp.rank()
    for i in range(tries(100)):
        requests = [
            (acp.iallreduce(np.full(4, 1.0)), n),
            (acp.iallreduce(np.full(4, 1000.0), ranks=range(n)), 1000 * n),
            (acp.iallgather((i, r)), [(i, each) for each in range(n)]),
            (acp.iallgather((-i, r), ranks=range(n)), [(-i, each) for each in range(n)]),
        ]
        for request, result in requests if (i + r) % 2 else reversed(requests):
            got = request.wait(60)
            assert (got.tolist() == [result] * 4) if isinstance(result, int) else (got == result)


@pytest.mark.parametrize("what", ["arrays", "objects", "functions"])
def test_memory_of_requests_that_are_dropped_comes_back(what: str) -> None:
    n, r = acp.procs(), acp.rank()
    kept = []
    for i in range(40):
        out = np.full(5000, np.nan)
        kept.append(weakref.ref(out))
        if what == "arrays":
            acp.iallreduce(np.ones(5000), out=out)
        elif what == "functions":  # which this process must call
            acp.iallreduce(np.ones(5000), lambda a, b: a + b, out=out)
        else:
            acp.iallgather(out)  # in two parts: the second begins when the first is seen to be over
            acp.ireduce(np.ones(9), root=i % n, out=out[:9] if r == i % n else ())
        del out
    while any(ref() is not None for ref in kept):
        acp.ibarrier(ranks=[r])
    acp.sync()


def test_a_request_that_somebody_holds_is_left_to_them() -> None:
    def refuse(a: Any, b: Any) -> None:
        raise ZeroDivisionError

    held = acp.iallreduce(np.ones(3), refuse)
    for _ in range(100):  # as they begin those that have been dropped are asked
        acp.ibarrier(ranks=[acp.rank()])
    acp.sync()
    assert not held.claimed
    if acp.procs() == 1:  # nothing to fold
        held.wait()
        return
    with pytest.raises((ZeroDivisionError, acp.Error)):
        held.wait()


def test_a_wait_beside_another_thread_s_stops_after_the_timeout() -> None:
    request = acp.iallreduce(np.ones(3))
    with request.held(), pytest.raises(TimeoutError, match="timeout= passed without a result"):
        request.wait(timeout=0.01)
    assert (request.wait() == acp.procs()).all()
