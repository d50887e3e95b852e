"""Containers in processes without MPI and NumPy, and containers that a rank was killed in."""

import contextlib
import os
import pickle
import signal
import sys
import time
from array import array
from pathlib import Path

import launch
import pytest

import acp_mpi as acp


def use_without_numpy():
    with acp.init():
        last = acp.procs() - 1
        made = (
            (acp.Vector("q", rank=last), acp.Deque("V13", rank=0), acp.Counter())
            if acp.rank() == 0
            else None
        )
        vector, line, counter = acp.bcast(made)
        for i in counter.take(300):
            vector.push_back(i)
            line.push_front(b"%13d" % i)
        acp.sync()
        assert sorted(vector.tolist()) == list(range(300))
        assert sorted(vector[:]) == list(range(300))
        assert sorted(line) == [b"%13d" % i for i in range(300)]
        acp.sync()
        vector[acp.rank()] = -1
        mine = acp.Vector.attach(pickle.loads(pickle.dumps(vector)).ga)
        mine.extend(b"ab")
        assert acp.Vector(float, 3).tolist() == [0.0, 0.0, 0.0]
        chain, things = acp.List("q"), acp.List(rank=last)
        chain.extend([3, 1, 2])
        chain.sort()
        things.assign(["a", list(chain)])
        assert list(things) == ["a", [1, 2, 3]]
        area = acp.Workspace(4000, last)
        area.write(array("d", range(500)), 0)
        area.accumulate(array("d", range(500)), 0)
        assert area.read(array("d", bytes(4000)), 0) == array("d", range(0, 1000, 2))
        assert "numpy" not in sys.modules
        acp.sync()


@pytest.mark.parametrize("road", launch.ROADS)
def test_containers_do_without_numpy(without_mpi, road):
    jobs = without_mpi(2, launch.program(use_without_numpy), launch.ROADS[road])
    assert [job.wait() for job in jobs] == [0, 0], "\n".join(job.output for job in jobs)


def be_killed_while_others_use_containers(folder):
    acp.init()
    last = acp.procs() - 1
    made = (acp.Vector("q", 50), acp.Deque("q"), acp.Counter()) if acp.rank() == 0 else None
    vector, line, counter = acp.bcast(made)
    acp.sync()
    if acp.rank() == last:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
    until = time.monotonic() + (0.5 if acp.rank() < last else 60)
    while time.monotonic() < until:
        number = counter.next()
        vector.fill(50 + number % 100, number)
        line.push_back(number)
        line.insert(0, line.pop_front())
        assert len(set(vector.tolist())) == 1
    with contextlib.suppress(acp.PeerLostError):
        acp.sync()
    acp.barrier(acp.refresh())
    assert len(set(vector.tolist())) == 1
    assert set(line.tolist()) <= set(range(counter.read()))
    acp.barrier(acp.ranks())
    if acp.rank() == 1:
        for container in (vector, line, counter):
            container.destroy()
    acp.barrier(acp.ranks())
    with pytest.raises(acp.AddressError):
        vector.size()
    Path(folder, f"{acp.rank()} survived").touch()


@pytest.mark.parametrize("road", launch.ROADS)
def test_a_rank_that_is_killed_leaves_whole_containers(two_survive, tmp_path, road):
    program = launch.program(be_killed_while_others_use_containers, tmp_path)
    two_survive(program, road)


def be_killed_inside_a_workspace(folder):
    acp.init()
    last = acp.procs() - 1
    area = acp.bcast(acp.Workspace(128 << 10, default_size=64 << 10) if acp.rank() == 0 else None)
    pids, ones, sums = acp.allgather(os.getpid()), array("B", b"\1" * (64 << 10)), bytearray(2)
    acp.sync()
    while acp.rank() == last:  # nearly all the time inside of a call
        area.accumulate(ones, 0)
    while acp.rank() == 0 and not area.read(sums, 0)[0]:
        area.accumulate(b"\0", 0)
    if acp.rank() == 0:
        os.kill(pids[last], signal.SIGKILL)
    with contextlib.suppress(acp.PeerLostError):
        acp.sync()
    acp.barrier(acp.refresh())
    before = area.read(bytearray(128 << 10), 0)
    acp.barrier(acp.ranks())
    for start in (0, 64 << 10):
        area.accumulate(ones, start)
    acp.barrier(acp.ranks())
    after = area.read(bytearray(128 << 10), 0)
    assert after == bytes((x + len(acp.ranks())) % 256 for x in before)
    acp.barrier(acp.ranks())
    if acp.rank() == 0:
        area.destroy()
    Path(folder, f"{acp.rank()} survived").touch()


@pytest.mark.parametrize("road", launch.ROADS)
def test_a_workspace_goes_on_after_a_rank_was_killed_in_it(two_survive, tmp_path, road):
    program = launch.program(be_killed_inside_a_workspace, tmp_path)
    two_survive(program, road)
