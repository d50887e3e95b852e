"""Containers in processes without MPI and NumPy, and containers that a rank was killed in."""

import contextlib
import importlib.abc
import os
import pickle
import signal
import sys
import threading
import time
from array import array
from pathlib import Path

import launch
import pytest
from dying import sync_before_the_end_of

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
        assert acp.Vector(float, size=3).tolist() == [0.0, 0.0, 0.0]
        chain, things = acp.List(dtype="q"), acp.List(rank=last)
        chain.extend([3, 1, 2])
        chain.sort()
        things.assign(["a", list(chain)])
        assert list(things) == ["a", [1, 2, 3]]
        area = acp.Workspace(4000, start_rank=last)
        area.write(array("d", range(500)), 0)
        area.accumulate(array("d", range(500)), 0)
        assert area.read(array("d", bytes(4000)), 0) == array("d", range(0, 1000, 2))
        threes, own = acp.Vector("V3"), acp.Vector("q")
        threes.extend(b"abcdefghi")
        own.extend(memoryview(array("i", range(6))).cast("B").cast("i", (2, 3)))
        assert own.tolist() == list(range(6))
        for step in (slice(None, None, 2), slice(None, None, -1), slice(5, 0, -2)):
            assert bytes(threes[step]) == b"".join(threes.tolist()[step])
            assert list(own[step]) == own.tolist()[step]
        assert "numpy" not in sys.modules
        acp.sync()


def move_memoryviews_where_numpy_cannot_be_imported():
    sys.modules["numpy"] = None  # a program that must do without it
    with acp.init():
        other = 1 - acp.rank()
        ga, room = acp.query_starter_ga(other), bytearray(16)
        numbers = memoryview(array("d", [1.5, 2.5, 3.5]))
        acp.put(ga, memoryview(b"abcdefgh"))
        acp.get(ga, memoryview(room)[4:12])
        assert bytes(room) == b"\0\0\0\0abcdefgh\0\0\0\0"
        acp.put(ga, numbers[1:])
        assert acp.get(ga, memoryview(array("d", [0.0, 0.0]))) == numbers[1:]
        for dtype, value in ((bytes, b"x" * 100), (object, "x" * 100)):
            line = acp.List(dtype=dtype)
            line.append(value, rank=other)
            assert line.pop() == value
        line.destroy()
        acp.sync()


class Halfway(importlib.abc.MetaPathFinder):
    """It stops the import of NumPy in the middle until somebody has seen that, or for a second."""

    def __init__(self):
        self.reached, self.seen = threading.Event(), threading.Event()

    def find_spec(self, name, path, target=None):
        if name.startswith("numpy.") and not self.reached.is_set():
            self.reached.set()
            self.seen.wait(1)


def use_while_a_thread_imports_numpy():
    with acp.init():
        vector, numbers = acp.Vector("q"), acp.Map(key="q", value="q")
        vector.extend(range(4))
        sys.meta_path.insert(0, half := Halfway())
        thread = threading.Thread(target=importlib.import_module, args=("numpy",))
        thread.start()
        try:
            assert half.reached.wait(60)
            assert "numpy" in sys.modules
            assert vector[1:3].tolist() == [1, 2]
            assert numbers.get_many([5])[0].tolist() == [0]
        finally:
            half.seen.set()
            thread.join()
        acp.sync()


def fill(rank):
    for size in (1 << 20, 1 << 16, 1 << 12, 1 << 8, 1 << 4):
        with contextlib.suppress(acp.HeapFullError):
            while True:
                last = acp.malloc(size, rank)
        if size == 1 << 12:
            small = last
    acp.free(small)  # a little room


def swap_where_there_is_no_room():
    with acp.init(heap_size=16 << 20):
        if acp.rank() == 0:
            numbers, few = array("q", range(60_000)), array("q", [-1, -2])
            pairs = []
            for kind in (acp.Vector, acp.Deque, acp.List):
                pairs.append((kind(dtype="q", rank=0), kind(dtype="q", rank=1)))
            pairs.append((acp.Set(ranks=[0], key="q"), acp.Set(ranks=[1], rank=1, key="q")))
            for long, short in pairs:
                (long.update if isinstance(long, acp.Set) else long.extend)(numbers)
                (short.update if isinstance(short, acp.Set) else short.extend)(few)
            fill(1)
            for long, short in pairs:
                for one, other in ((long, short), (short, long)):
                    with pytest.raises(acp.HeapFullError):
                        one.swap(other)
                    if isinstance(long, acp.List):
                        assert (list(long), list(short)) == (list(numbers), list(few))
                        continue
                    assert sorted(long) == list(numbers)
                    assert sorted(short) == sorted(few)
            (many, other), few = pairs[-1], sorted(few)
            for put in (other.assign, other.move):
                with pytest.raises(acp.HeapFullError):
                    put(many)
                assert (len(many), sorted(other)) == (len(numbers), few)
        acp.sync()


def moves_between(one, other):
    yield one.splice, one.begin(), other
    yield other.splice, other.end(), one
    middle = one.begin().advance(100)
    yield other.splice_range, other.end(), middle, middle.advance(150)
    yield one.swap, other
    yield other.swap, one


def move_where_there_is_no_room():
    with acp.init(heap_size=16 << 20):
        if acp.rank() == 0:
            pairs = [
                (acp.List(dtype=kind, rank=0), acp.List(dtype=kind, rank=1))
                for kind in ("q", bytes)
            ]
            elements = range(300), [b"a" * i for i in range(300)]
            for (one, other), few in zip(pairs, elements, strict=True):
                one.extend(few)
                other.extend(list(few)[::-1])
            for rank in (0, 1):
                fill(rank)
            for one, other in pairs:
                were = list(one), list(other)
                for move, *arguments in moves_between(one, other):
                    # swap makes a list first
                    why = rf"^List(\.{move.__name__})?: .* on rank [01]"
                    with pytest.raises(acp.HeapFullError, match=why):
                        move(*arguments)
                    acp.complete()  # what was under way
                    assert (list(one), list(other)) == were
        acp.sync()


def extend_where_there_is_no_room():
    with acp.init(heap_size=16 << 20):
        if acp.rank() == 0:
            cases = (
                (acp.List(dtype="q", rank=1), range(30), range(1000), None),
                (acp.List(rank=1), ["a"] * 30, ["b" * 10] * 1000, None),
                (acp.List(dtype=bytes, rank=1), [b"c"] * 30, [b"d" * i for i in range(200)], None),
                (acp.List(dtype=bytes, rank=1), [b"e"] * 30, [b"f" * 100] * 100, 0),
            )
            for other, few, _, _ in cases:
                other.extend(few)
            line, long = acp.List(dtype=bytes, rank=1), [b"g" * 70_000] * 2
            # for the blocks of both, and for one node
            room = [acp.malloc(size, 1) for size in (70_000, 70_000, 48)]
            for other, few, many, rank in cases:
                fill(1)  # what lists had kept is back in the heap
                used = acp.heap_statistics(1).used
                with pytest.raises(acp.HeapFullError, match=r"^List\.extend: "):
                    other.extend(many, rank)
                acp.complete()  # what was under way
                assert list(other) == list(few)
                assert acp.heap_statistics(1).used <= used
                other.clear()
            fill(1)
            acp.malloc(1 << 12, 1)
            for block in room:
                acp.free(block)
            used = acp.heap_statistics(1).used
            with pytest.raises(acp.HeapFullError, match=r"^List\.extend: "):
                line.extend(long)
            acp.complete()
            assert line.empty()
            assert acp.heap_statistics(1).used == used
            line.extend(long[:1])
            assert list(line) == long[:1]
        acp.sync()


PROGRAMS = {
    "containers do without NumPy": use_without_numpy,
    "so do memoryviews": move_memoryviews_where_numpy_cannot_be_imported,
    "elements that find no room elsewhere are where they were": move_where_there_is_no_room,
    "an extend that has no room puts nothing in": extend_where_there_is_no_room,
    "they wait for NumPy while another thread imports it": use_while_a_thread_imports_numpy,
    "a swap that has no room loses nothing": swap_where_there_is_no_room,
}


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("what", PROGRAMS)
def test_processes_without_mpi_find_that(without_mpi, what, road):
    jobs = without_mpi(2, launch.program(PROGRAMS[what]), launch.ROADS[road])
    assert [job.wait() for job in jobs] == [0, 0], "\n".join(job.output for job in jobs)


def destroy_what_was_on_a_rank_that_is_lost(folder):
    acp.init()
    last, kinds = acp.procs() - 1, (acp.Map, acp.Set, acp.MultiSet)
    acp.allgather(None)  # what messages keep is there now
    blocks = acp.heap_statistics().blocks
    made = [kind() for kind in kinds] + [acp.Workspace(3000)] if acp.rank() == 0 else None
    containers = acp.bcast(made)
    values = {str(i): "x" * 500 for i in range(300)}
    for container in containers[:3]:
        container.update(values if container is containers[0] else list(values))
    sync_before_the_end_of(last)
    if acp.rank() == last:
        os.kill(os.getpid(), signal.SIGKILL)
    with contextlib.suppress(acp.PeerLostError):
        acp.sync()
    acp.barrier(acp.refresh())
    if acp.rank() == 0:
        for container in containers:
            container.destroy()
    acp.barrier(acp.ranks())
    assert acp.heap_statistics().blocks <= blocks + 5  # heads are kept
    for container in containers:
        with pytest.raises((acp.AddressError, acp.PeerLostError)):
            container.size() if container is not containers[3] else container.read(bytearray(1), 0)
    Path(folder, f"{acp.rank()} survived").touch()


@pytest.mark.parametrize("road", launch.ROADS)
def test_what_spread_over_a_lost_rank_as_well_can_be_destroyed(two_survive, tmp_path, road):
    two_survive(launch.program(destroy_what_was_on_a_rank_that_is_lost, tmp_path), road)


def be_killed_while_others_use_containers(folder):
    acp.init()
    last = acp.procs() - 1
    made = (acp.Vector("q", size=50), acp.Deque("q"), acp.Counter()) if acp.rank() == 0 else None
    vector, line, counter = acp.bcast(made)
    sync_before_the_end_of(last)
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


@pytest.mark.smoke("any")
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
