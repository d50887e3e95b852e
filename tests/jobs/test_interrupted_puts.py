"""Ctrl-C while a long element is on its way into a container: its block goes in or back, once.

The owner stands still from some point of the call on, so that the call is interrupted there, and
goes on afterwards: then what was under way ends.
"""

import contextlib
import os
import signal

import launch
import pytest

LONG = 8 << 20  # bytes, more than fits what lies between two processes


@contextlib.contextmanager
def frozen_from(pid, place, name):
    """Freeze the process once the function is called, and have Ctrl-C come soon."""
    real = getattr(place, name)

    def first(*arguments):
        os.kill(pid, signal.SIGSTOP)
        signal.setitimer(signal.ITIMER_REAL, 0.5)  # by then it waits
        return real(*arguments)

    setattr(place, name, first)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        os.kill(pid, signal.SIGCONT)
        setattr(place, name, real)


def used():
    """Return how much of the owner's heap is used when nothing is under way."""
    import acp_mpi as acp

    for _ in range(2):  # what was under way; what went back then
        acp.complete()
    return acp.heap_statistics(1).used


def into_a_list(pid, data, ga):
    import acp_mpi as acp
    from acp_mpi.engine import _engine

    line = acp.List(bytes, rank=1)
    line.push_back(b"gone")
    gone = line.begin()
    line.pop_back()
    before = used()
    for place, name, call in (
        (_engine, "copy", lambda: line.push_back_ga(ga, LONG)),
        (_engine, "malloc", lambda: line.push_back_ga(ga, LONG)),
        (_engine, "iput", lambda: line.extend([data, data])),
        (acp.List, "put_block", lambda: line.insert_ga(gone, ga, LONG)),
    ):
        with frozen_from(pid, place, name):
            call()
        assert (name, used()) == (name, before)
        assert line.empty()
    with frozen_from(pid, acp.List, "put_block"):
        line.push_back_ga(ga, LONG)
    assert used() >= before + LONG
    assert line.size() == 1
    assert line.pop_back() == data
    assert used() < before + 1000  # the list keeps the node


def into_a_vector(pid, data, ga):
    import acp_mpi as acp
    from acp_mpi.engine import _engine

    vector = acp.Vector(f"V{LONG}", rank=1)
    before = used()
    with frozen_from(pid, _engine, "copy"):
        vector.push_back_ga(ga)
    assert used() == before
    assert vector.empty()
    with frozen_from(pid, acp.Vector, "splice"):
        vector.push_back_ga(ga)
    assert used() >= before + LONG
    assert vector.pop_back() == data
    vector.shrink_to_fit()
    assert used() == before
    vector.push_back_ga(ga)
    vector.destroy()


def many_times_into_a_map(pid, data, ga):
    """Whenever it comes: the value is there as a whole or not, and what others get is theirs."""
    import acp_mpi as acp

    values = acp.Map([1], key="q", value=bytes)
    for delay in (1, 2, 4, 8, 16, 32):
        try:
            signal.setitimer(signal.ITIMER_REAL, delay * 1e-3)
            values[delay] = data
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
        mine = [acp.malloc(LONG // 4, 1) for _ in range(4)]
        for at in mine:
            acp.put(at, bytes(LONG // 4))
        acp.complete()
        for at in mine:
            assert acp.get(at, bytearray(LONG // 4)) == bytes(LONG // 4)
            acp.free(at)
        assert values.get(delay, data) == data
    values.destroy()


def interrupted(what):
    from mpi4py import MPI

    import acp_mpi as acp

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    with acp.init(MPI.COMM_WORLD):
        pids = acp.allgather(os.getpid())
        if acp.rank() == 0:
            data = os.urandom(LONG)
            ga = acp.malloc(LONG, 0)
            acp.put(ga, data)
            globals()[what](pids[1], data, ga)
        acp.sync()


@pytest.mark.parametrize("road", ["link", pytest.param("owner", marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", [into_a_list, into_a_vector, many_times_into_a_map])
def test_an_interrupted_put_gives_its_block_to_the_container_or_back(passes, what, road):
    command = [*launch.mpiexec(2), *launch.program(interrupted, what.__name__)]
    passes(command, launch.ROADS[road], 90.0)
