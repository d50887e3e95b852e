"""Requests of messages and of collectives, waited for together and by several threads."""

import threading

import numpy as np
import pytest
from support import refused, right

import acp_mpi as acp
from acp_mpi.engine import _engine

pytestmark = pytest.mark.mpi


def test_waitany_wakes_for_a_collective():
    """The message comes only when all have seen the collective's end."""
    rank, procs = acp.rank(), acp.procs()
    message = acp.irecv(tag=1)
    total = acp.iallreduce(np.array([rank]))
    index, result = acp.waitany([message, total])
    assert index == 1
    assert result[0] == sum(range(procs))
    acp.sync()
    acp.send(rank, right(), tag=1)
    assert acp.waitany([message, total]) == (0, (rank - 1) % procs)
    with pytest.raises(ValueError, match="have been taken"):
        acp.waitany([message, total])
    with pytest.raises(ValueError, match="waitany: there are no requests"):
        acp.waitany([])


@pytest.mark.parametrize("function", [acp.waitall, acp.waitany, acp.testall])
def test_one_request_is_no_list_of_them(function):
    request = acp.irecv()
    with refused(TypeError, function.__name__, "one Request", "wait()"):
        function(request)
    assert request.cancel()


def test_waitany_wakes_for_a_message():
    """The collective goes on only when the message has come."""
    rank, procs = acp.rank(), acp.procs()
    message = acp.irecv(tag=2)
    begun = acp.rank() != 0 or procs == 1
    requests = [acp.ibarrier()] if begun else []
    acp.send(rank, right(), tag=2)
    index, result = acp.waitany([*requests, message])
    if procs > 1:
        assert (index, result) == (len(requests), (rank - 1) % procs)
    acp.sync()
    if not begun:
        requests = [acp.ibarrier()]
    acp.waitall([*requests, message])


def test_a_function_as_operation_is_done_by_waitany():
    rank, procs = acp.rank(), acp.procs()
    both = [acp.iallreduce(rank, op=lambda a, b: a + b), acp.iallreduce(np.ones(3))]
    found = dict(acp.waitany(both) for _ in both)
    assert found[0] == sum(range(procs))
    assert (found[1] == procs).all()


def fails(a, b):
    raise ValueError("no sum")


def test_waitany_gives_a_collective_that_has_failed_once():
    if acp.procs() == 1:
        pytest.skip("nothing is folded")
    message, fold = acp.irecv(tag=4), acp.iallreduce(np.ones(4), fails)
    with pytest.raises((ValueError, acp.Error), match=r"no sum|has left"):
        acp.waitany([fold, message])
    assert fold.claimed
    acp.sync()
    acp.send("here", right(), tag=4)
    assert acp.waitany([fold, message]) == (1, "here")
    with pytest.raises(ValueError, match="have been taken"):
        acp.waitany([fold, message])


def test_asking_whether_a_collective_is_done_hands_out_no_error():
    if acp.procs() == 1:
        pytest.skip("nothing is folded")
    fold = acp.iallreduce(np.ones(4), fails)
    while not fold.done:
        acp.inquire(0)
    assert not fold.claimed
    with pytest.raises((ValueError, acp.Error), match=r"no sum|has left"):
        fold.test()
    assert fold.claimed


def test_two_threads_wait_for_one_collective():
    rank, procs = acp.rank(), acp.procs()
    for _ in range(20):
        request = acp.iallreduce(np.full(1000, rank))
        results: list[int] = []

        def wait(request=request, results=results):
            results.append(request.wait()[0])

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [sum(range(procs))] * 3


def test_waitany_says_when_its_time_is_over():
    procs = acp.procs()
    message = acp.irecv(source=right(), tag=3)
    barrier = acp.ibarrier() if acp.rank() or procs == 1 else None
    requests = [message] if barrier is None or procs == 1 else [message, barrier]
    with pytest.raises(TimeoutError, match="waitany"):
        acp.waitany(requests, timeout=0.01)
    acp.sync()
    (barrier or acp.ibarrier()).wait()
    assert message.cancel()


def test_nothing_is_waited_for_as_long_as_it_may_take():
    """What a communicator waits for may be over, and gone, just before it waits."""
    with pytest.raises(TimeoutError, match="recv"):
        _engine.wait_any("recv", [], [], 0.001)
