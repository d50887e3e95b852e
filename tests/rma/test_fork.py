"""Forked children: they read arrays, calls raise, and their end disturbs nobody."""

import os
import signal
import sys
import traceback

import numpy as np
import pytest
from support import CAN_LOAD, case, fetch, right, shared, starter

import acp_mpi as acp

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def in_child(check, leave=os._exit):
    """Run `check` in a forked child; return its exit status, 0 if it passed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check()
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        leave(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_reads_arrays_of_global_memory():
    array, places = shared(1000, np.int64)
    array[:] = np.arange(1000)
    theirs = acp.view(places[right()], 1000, np.int64) if CAN_LOAD else array
    acp.sync()

    def check():
        assert array.sum() == theirs.sum() == 499_500

    assert in_child(check) == 0


def test_a_child_s_stores_are_seen_by_the_parent():
    array, _ = shared(1, np.int64)

    def check():
        array[0] = 17

    assert in_child(check) == 0
    assert array[0] == 17


CALLS = {
    "init": acp.init,
    "rank": acp.rank,
    "sync": acp.sync,
    "get": lambda: acp.get(1, bytearray(1)),
    "fetch_add8": lambda: acp.fetch_add8(1, 1),
    "copy": lambda: acp.copy(1, 1, 1),
    "complete": acp.complete,
    "empty": lambda: acp.empty(3, np.uint8),
    "register_memory": lambda: acp.register_memory(bytearray(8)),
    "allgather": lambda: acp.allgather(1),
    "barrier": lambda: acp.barrier([0]),
    "send": lambda: acp.send(1, 0),
    "recv": acp.recv,
    "irecv": acp.irecv,
    "iprobe": acp.iprobe,
}


def test_every_call_raises_in_a_child_and_says_why():
    def check():
        assert not acp.is_initialized()
        for call in CALLS.values():
            with pytest.raises(acp.NotInitializedError, match="fork"):
                call()

    assert in_child(check) == 0


def test_channels_raise_in_a_child_and_go_on_in_the_parent():
    last = acp.procs() - 1
    if not last or acp.rank() not in (0, last):
        return
    ends = [acp.Channel(*ranks, size=8, slots=2) for ranks in ((0, last), (last, 0))]
    to, of = ends if acp.rank() == 0 else ends[::-1]
    to.send(b"taken")
    to.send(b"still")
    views = [next(of)]  # keeps its slot
    calls = {
        "send": lambda: to.send(b"child"),
        "isend": lambda: to.isend(b"child").wait(),
        "reserve": lambda: to.reserve().__enter__(),
        "recv": of.recv,
        "irecv": lambda: of.irecv(bytearray(8)).wait(),
        "take": lambda: of.take().__enter__(),
        "next": lambda: next(of),
        "select": lambda: acp.select([of]),
        "create": lambda: acp.Channel(0, last),
    }

    def check():
        for name, call in calls.items():
            with case(name), pytest.raises((acp.ClosedError, acp.NotInitializedError)):
                call()
        assert views.pop() == b"taken"
        to.close()
        of.close()

    assert in_child(check) == 0
    assert views.pop() == b"taken"
    assert of.recv() == b"still"
    to.send(b"after")
    assert of.recv() == b"after"
    acp.barrier([0, last])


def test_a_wait_in_which_a_signal_handler_forks_ends_in_the_child():
    children = []

    def fork(number, frame):
        children.append(os.fork())

    usual = signal.signal(signal.SIGALRM, fork)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    error = None
    try:
        acp.recv(source=acp.rank(), tag=4711, timeout=2)
    except BaseException as raised:
        error = raised
    if children == [0]:
        os._exit(not isinstance(error, acp.NotInitializedError))
    signal.signal(signal.SIGALRM, usual)
    assert isinstance(error, TimeoutError)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


def test_keys_and_arrays_that_a_child_drops_live_on_in_the_parent():
    buffer = bytearray(b"still there")
    key = acp.register_memory(buffer)
    ga = acp.query_ga(key)
    arrays = [acp.zeros(1000), acp.zeros(2 << 20)]
    gas = [acp.query_ga(array) for array in arrays]

    def check():
        key.close()
        arrays.clear()

    assert in_child(check) == 0
    assert fetch(ga, 11) == b"still there"
    for place in gas:
        fetch(place, 8)
    key.close()


def test_finalize_in_a_child_ends_nothing():
    assert in_child(acp.finalize) == 0
    acp.sync()
    assert fetch(starter(right()), 8) is not None


def test_the_parent_goes_on_after_many_children():
    counter, places = shared(1, np.uint64)
    for _ in range(5):
        assert in_child(lambda: None) == 0
        acp.fetch_add8(places[right()], 1)
    acp.sync()
    assert counter[0] == 5
