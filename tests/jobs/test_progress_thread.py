"""Known fault 8: what comes is served while a program computes; who has nothing to do sleeps."""

import contextlib
import time
from pathlib import Path

import launch
import numpy as np
import pytest
from guard import Guard

import acp_mpi as acp

RANKS = 3


def be_served_while_computing():
    """Rank 0 works on memory of ranks whose Python never enters the library."""
    with acp.init():
        array = np.zeros(1, np.uint64)
        key = acp.register_memory(array)
        places = acp.allgather(acp.query_ga(key))
        if acp.rank() == 0:
            for ga in places:
                for _ in range(10):
                    acp.fetch_add8(ga, 1)
            assert [acp.fetch_add8(ga, 1) for ga in places] == [10] * acp.procs()
        else:
            guard = Guard(40.0)
            while array[0] != 11:  # plain loads: no call that could make progress
                assert not guard.over
        acp.sync()
        key.close()


@pytest.mark.parametrize("road", launch.ROADS)
def test_atomics_on_registered_memory_run_while_the_owner_computes(passes, road):
    passes([*launch.mpiexec(RANKS), *launch.program(be_served_while_computing)], launch.ROADS[road])


def sleep_after_traffic():
    """Count how often the threads of this process run while it does nothing."""
    with acp.init():
        array = np.zeros(1, np.uint64)
        key = acp.register_memory(array)
        for ga in acp.allgather(acp.query_ga(key)):
            acp.fetch_add8(ga, 1)
            acp.put(ga & ~7, bytes(8))
        acp.sync()
        launch.until(sleeps_for_a_second, limit=15)  # what comes late is done in one of the first
        acp.sync()
        key.close()


def sleeps_for_a_second():
    """Do nothing; return whether nothing wakes up again and again."""
    before = switches()
    time.sleep(1)
    return switches() - before < 25


def switches():
    """Return how often the threads of this process have gone to sleep, or lost their processor."""
    count = 0
    for path in Path("/proc/self/task").glob("*/status"):
        with contextlib.suppress(OSError):  # this thread has ended
            lines = path.read_text().splitlines()
            count += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return count


WAITS = {
    "recv": lambda: acp.recv(source=1, tag=1),
    "probe": lambda: (acp.probe(1, 1), acp.recv(source=1, tag=1)),
    "request": lambda: acp.irecv(source=1, tag=1).wait(),
    "any": lambda: acp.waitany([acp.irecv(source=1, tag=1), acp.irecv(source=1, tag=2)]),
    "collective": lambda: acp.bcast(None, root=1, ranks=[0, 1]),
}


def sleep_in_waits():
    """Count how often the threads of this process run while it waits for a rank that sleeps."""
    with acp.init():
        acp.allgather(acp.rank())
        for how, wait in WAITS.items():
            acp.sync()
            if acp.rank() == 1:
                time.sleep(1.5)
                acp.send("late", 0, 1)
                if how == "collective":
                    acp.bcast("late", root=1, ranks=[0, 1])
            else:
                before = switches()
                wait()
                assert switches() - before < 150, f"{how}: something wakes up again and again"
        acp.sync()


@pytest.mark.parametrize("road", launch.ROADS)
def test_who_waits_for_a_message_sleeps(without_mpi, road):
    jobs = without_mpi(2, launch.program(sleep_in_waits), launch.ROADS[road])
    for job in jobs:
        assert job.wait() == 0, job.output


@pytest.mark.parametrize("road", launch.ROADS)
def test_an_idle_process_sleeps(without_mpi, road):
    jobs = without_mpi(2, launch.program(sleep_after_traffic), launch.ROADS[road])
    for job in jobs:
        assert job.wait() == 0, job.output
