"""What the handler of an alarm raises ends a call, though those that it waits for stand still.

What such handlers raise is an Exception, often TimeoutError, and no failure of what is waited for.
"""

import contextlib
import os
import signal

import launch
import numpy as np
import pytest

import acp_mpi as acp

LONG = 3 << 20  # bytes, more than a mailbox keeps here
SENT = 1  # tag


class Alarm(Exception):
    pass


@contextlib.contextmanager
def alarmed(pids, error):
    """Stop these processes, and have a call end by what the handler of an alarm raises."""

    def handler(*_):
        raise error

    for pid in pids:
        launch.freeze(pid)
    signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(type(error)) as raised:  # noqa: PT012
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            yield
        assert raised.value is error
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def wait_for_those_who_stand_still():
    acp.init()
    pids, word = acp.allgather(os.getpid()), acp.zeros(1, np.int64)
    words = acp.allgather(acp.query_ga(word))
    if acp.rank() == 0:
        numbers = acp.Map(ranks=[1, 2], key="q", value="q")
        space = acp.Workspace(10_000, start_rank=1, default_size=5000)
        keys, room = np.arange(100), bytearray(10_000)
        message, other = np.empty(LONG, np.uint8), np.empty(LONG, np.uint8)
        # The long message is kept from now on, and no part of it is under way.
        acp.recv(source=1, tag=SENT)
        for error in (Alarm(), TimeoutError("of the program")):
            with alarmed(pids[1:], error):
                numbers.update(keys, keys)
            with alarmed(pids[1:], error):
                space.read(room, 0)
            with alarmed(pids[1:], error):
                acp.recv(message, source=1)
        numbers.update(keys, keys)
        assert numbers.size() == 100
        space.read(room, 0)
        assert (acp.recv(other, source=1) == 7).all()
        with alarmed(pids[1:], TimeoutError("of the program")):
            acp.add8(acp.GA_NULL, words[1], 1)
            acp.finalize()
    elif acp.rank() == 1:
        acp.send(np.full(LONG, 7, np.uint8), 0)
        acp.send(None, 0, tag=SENT)
    acp.sync()
    assert word[0] == (acp.rank() == 1)
    acp.finalize()


@pytest.mark.parametrize("road", ["link", "nodes"])
def test_what_a_handler_raises_ends_the_call(without_mpi, road):
    program = launch.program(wait_for_those_who_stand_still)
    jobs = without_mpi(3, program, launch.ROADS[road] | {"ACP_UNEXPECTED_MAX": "64K"})
    assert [job.wait() for job in jobs] == [0, 0, 0], "\n".join(job.output for job in jobs)
