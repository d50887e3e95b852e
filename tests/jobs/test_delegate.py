"""Delegates: one process of a node does for its ranks what they need not wait for."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import launch
import pytest
from delegating import blocked, pid_of, the_delegate
from growing import PATIENCE, newcomer
from macprunning import alone, macprun, mpi

import acp_mpi as acp

ROADS = ("any", "nodes")


# What it does -----------------------------------------------------------------------------------


def save_and_load(folder, local):
    """By it and by the rank itself is the same."""
    import numpy as np

    acp.init()
    d = the_delegate(local == "True")
    here, everybody = acp.rank(), acp.ranks()
    delegates = set(acp.allgather(d.rank))
    if d.rank is not None:
        assert d.rank not in everybody
        assert d.rank in acp.ranks(services=True)
        apart = "NODE_FOR_EACH_RANK" in os.environ
        assert len(delegates) == (len(everybody) if apart else 1)
    kinds = [np.arange(1000.0), np.arange(60, dtype="i2").reshape(3, 4, 5), np.zeros((0, 3))]
    kinds += [np.array(3 + 4j), np.arange(20.0)[::2], np.ones(3, [("a", "i4"), ("b", "f8")])]
    shared = acp.zeros((64, 1024))
    shared[:] = np.random.default_rng(here).random(shared.shape)
    for i, array in enumerate([*kinds, shared]):
        path = Path(folder, f"{here}-{i}.npy")
        for snapshot in (True, False):
            request = d.save(path, array, snapshot=snapshot)
            request.copied(PATIENCE)
            request.wait(PATIENCE)
            assert not Path(f"{path}.part").exists()
            found = np.load(path)
            assert found.dtype == array.dtype
            assert found.shape == array.shape
            assert np.array_equal(found, array)
        into = np.zeros_like(found)
        d.load(path, into).wait(PATIENCE)
        assert np.array_equal(into, array)
    some = acp.zeros(1000)
    d.load(Path(folder, f"{here}-0.npy"), some[:500], at=100).wait(PATIENCE)
    assert np.array_equal(some[:500], kinds[0][100:600])
    assert not some[500:].any()
    raw = Path(folder, f"{here}.raw")
    d.save(raw, b"0123456789").wait(PATIENCE)
    assert raw.read_bytes() == b"0123456789"
    key = acp.register_memory(bytearray(4))
    d.load(raw, key, at=3).wait(PATIENCE)
    assert acp.get(acp.query_ga(key), bytearray(4)) == b"3456"
    remote = acp.RemoteArray(acp.query_ga(some), 1000)
    d.save(raw, remote).wait(PATIENCE)
    assert raw.read_bytes() == some.tobytes()
    d.save(raw, (acp.query_ga(some), 800)).wait(PATIENCE)
    assert raw.read_bytes() == some.tobytes()[:800]
    reach_another(d, Path(folder, f"{here}-far.npy"), acp.ranks()[here - 1])
    assert d.call("os:getpid").wait(PATIENCE) == (os.getpid() if d.rank is None else pid_of(d))
    assert d.call("os.path:join", "a", "b").wait(PATIENCE) == os.path.join("a", "b")
    assert len(d.call("operator:mul", b"x", 100_000).wait(PATIENCE)) == 100_000
    acp.waitall([d.ping() for _ in range(1000)], timeout=PATIENCE)
    gate = Path(folder, f"{here}.gate")
    slow = blocked(d, gate)
    index, _ = acp.waitany([slow, d.ping()], timeout=PATIENCE)
    assert index == 1
    assert not slow.done
    late = d.save(raw, some, after=slow)
    late.copied(PATIENCE)
    some[:] = -1.0  # which the copy has not
    with pytest.raises(TimeoutError, match=r"save of .*goes on"):
        late.wait(0.01)
    gate.touch()
    late.wait(PATIENCE)
    assert raw.read_bytes()[: 8 * 500] == kinds[0][100:600].tobytes()
    assert d.statistics().commands > 1000
    acp.sync()
    with d:
        d.save(raw, b"last")
    assert d.closed
    assert raw.read_bytes() == b"last"
    acp.finalize()


def reach_another(d, path, rank):
    """Memory is that of any rank; what names one file follows each other, from any folder."""
    import numpy as np

    mine = acp.zeros(1000)
    places = acp.allgather(acp.query_ga(mine))
    theirs = acp.RemoteArray(places[rank], 1000)
    before = d.statistics()
    os.chdir(path.parent)
    wrong = d.call("os:nothing")
    d.save(path.name, np.full(1000, 5.0), after=wrong)
    d.save(path.name, np.arange(1000.0))
    d.load(path.name, (theirs.ga + 4000, 4000), at=4000)
    d.load(path.name, acp.RemoteArray(theirs.ga, 500)).wait(PATIENCE)
    with pytest.raises(AttributeError):
        wrong.wait(PATIENCE)
    acp.sync()
    assert np.array_equal(mine, np.arange(1000.0))
    acp.sync()
    mine += acp.rank()
    acp.sync()
    d.save(path.name, theirs).wait(PATIENCE)
    assert np.array_equal(np.load(path), np.arange(1000.0) + rank)
    after = d.statistics()
    assert after.written - before.written >= 24_000
    assert after.read - before.read >= 8_000
    assert after.processor > before.processor
    acp.sync()


@pytest.mark.parametrize("road", ROADS)
def test_files_are_as_if_the_rank_had_written_them(start, road, folder):
    job = start(
        [*launch.mpiexec(2), *launch.program(save_and_load, folder, False)], launch.ROADS[road]
    )
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def test_threads_of_the_process_do_the_same(passes, folder):
    passes(launch.program(save_and_load, folder, True), {"ACP_MPI": "0"})


def save_together(folder):
    """Four ranks start one delegate, and write one file."""
    import numpy as np

    acp.init()
    d = the_delegate()
    here, n = acp.rank(), 4
    assert len(set(acp.allgather(d.rank))) == 1
    whole = np.arange(n * 1000.0).reshape(n, 10, 100)
    for round in range(3):
        path = Path(folder, f"{round}.npy")
        request = d.save(
            path, whole[here], at=1000 * here, shape=whole.shape, parts=n if round else None
        )
        request.wait(PATIENCE)
        acp.sync()
        if round == 0 and here == 0:
            assert not path.exists()
            d.commit(path).wait(PATIENCE)
        acp.sync()
        assert np.array_equal(np.load(path), whole)
        acp.sync()
    acp.finalize()


@pytest.mark.parametrize("launcher", ["mpiexec", "macprun"])
def test_several_ranks_write_one_file(start, folder, launcher):
    job = start(
        [*launch.mpiexec(4), *launch.program(save_together, folder)]
        if launcher == "mpiexec"
        else macprun(mpi(2, "one", save_together, folder), alone(2, "two", save_together, folder))
    )
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())
    assert sorted(path.name for path in folder.iterdir()) == ["0.npy", "1.npy", "2.npy"]


def test_frames_of_several_threads_may_come_in_turns():
    from acp_mpi.delegates.frames import COMMAND, Listener, frames

    said = [(number, COMMAND, [bytes([number])] * 1000 * number) for number in range(3)]
    listener, heard, left = Listener(), [], [list(frames(*each)) for each in said]
    while any(left):
        for some in left:
            if some and (whole := listener.hear(some.pop(0))):
                heard.append(whole)
    assert heard == said


def test_frames_of_a_command_that_ctrl_c_cuts_short_are_dropped():
    from acp_mpi.delegates.ends import Ends
    from acp_mpi.delegates.frames import COMMAND, Listener

    class Channel:
        def __init__(self):
            self.sent = []

        def send(self, frame, timeout):
            if len(self.sent) == 2:
                raise KeyboardInterrupt
            self.sent.append(frame)

        def isend(self, frame):
            self.sent.append(frame)

    both, listener = Ends.__new__(Ends), Listener()
    both.there = Channel()
    with pytest.raises(KeyboardInterrupt):
        both.say(7, COMMAND, bytes(1000))
    assert [listener.hear(frame) for frame in both.there.sent] == [None] * 3
    assert not listener._pieces


def test_parts_that_come_together_are_flushed_together(monkeypatch, tmp_path):
    import numpy as np

    from acp_mpi.delegates.files import Files, Given
    from acp_mpi.delegates.memory import Part

    array, path, flushed = np.arange(40.0), tmp_path / "x.npy", []
    monkeypatch.setattr(os, "fdatasync", flushed.append)

    def part(at):
        some = array[at : at + 10]
        how = Part(0, some.nbytes, some.dtype, some.shape, at, array.shape, 4, None)
        return Given(None, how, memoryview(some.tobytes()), lambda: None)

    files = Files()
    errors = files.save(str(path), [part(at) for at in (0, 10, 5, 20)])
    assert [type(error) for error in errors] == [type(None), type(None), ValueError, type(None)]
    assert len(flushed) == 1
    assert not path.exists()
    assert files.save(str(path), [part(30), part(0)]) == [None, None]  # the last, and a new file
    assert np.array_equal(np.load(path), array)
    files.close()
    assert os.listdir(tmp_path) == ["x.npy"]


def start_slowly(folder):
    """While one rank starts it the others wait, as long as they may."""
    from acp_mpi.delegates import start

    acp.init()
    if acp.rank():
        acp.recv(source=0)
        with pytest.raises(TimeoutError, match="another rank of this node starts it"):
            acp.delegate(timeout=0.05)
        acp.send(None, dest=0)
    else:
        look = start.living_delegate

        def slowly(node):
            acp.send(None, dest=1)
            acp.recv(source=1)
            return look(node)

        start.living_delegate = slowly
    assert len(set(acp.allgather(the_delegate().rank))) == 1
    acp.finalize()


def test_one_rank_starts_it_and_the_others_wait_for_that(passes, folder):
    passes([*launch.mpiexec(2), *launch.program(start_slowly, folder)])


def wait_in_two_ways(folder):
    """One thread waits for a command, another for the first of several requests."""
    acp.init()
    d = the_delegate()
    for round in range(6):
        gate = Path(folder, f"{round}")
        slow, never = blocked(d, gate), acp.irecv(source=acp.rank(), tag=round)
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(slow.wait, PATIENCE)
            if round % 2:
                launch.until(lambda: d._line._reads)
            for _ in range(10):
                assert acp.waitany([never, slow, d.ping()], PATIENCE) == (2, None)
            gate.touch()
            waiting.result(PATIENCE)
        acp.send(round, dest=acp.rank(), tag=round)
        assert never.wait(PATIENCE) == round
    acp.finalize()


def test_threads_wait_for_one_command_and_for_the_first_of_several(passes, folder):
    passes(launch.program(wait_in_two_ways, folder), {"ACP_MPI": "0"})


def bound_copies(folder):
    import numpy as np

    acp.init()
    d = the_delegate()
    gate, array = Path(folder, "gate"), np.ones(90_000)
    slow = blocked(d, gate)
    first, second = (d.save(Path(folder, f"{i}.npy"), array, after=slow) for i in range(2))
    first.copied(PATIENCE)
    with pytest.raises(TimeoutError, match="not copied"):
        second.copied(0.05)
    assert d.statistics().memory == array.nbytes
    longer = d.save(Path(folder, "longer.npy"), np.ones(200_000))  # by no copy at all
    longer.wait(PATIENCE)
    gate.touch()
    second.copied(PATIENCE)
    acp.waitall([first, second], timeout=PATIENCE)
    assert d.statistics().memory == 0
    acp.finalize()


def test_copies_have_a_bound(passes, folder):
    passes(launch.program(bound_copies, folder), {"ACP_MPI": "0", "ACP_DELEGATE_MEMORY": "1M"})


def greet(folder):
    with acp.init():
        Path(folder, f"{acp.group().name}-{acp.rank()}").touch()


def spawn_by_it(folder):
    acp.init()
    d = the_delegate()
    requests = [
        d.spawn(newcomer(greet, folder), n, name=f"group{n}", mpi=False, timeout=PATIENCE)
        for n in (1, 2)
    ]
    one, two = (request.wait(PATIENCE) for request in requests)
    assert (one.name, two.name) == ("group1", "group2")
    assert [len(group.ranks) for group in (one, two)] == [1, 2]
    names = {f"{group.name}-{rank}" for group in (one, two) for rank in group.ranks}
    launch.until(lambda: set(os.listdir(folder)) == names)
    with pytest.raises(acp.Error, match="there is a group 'group1'"):
        d.spawn(newcomer(greet, folder), name="group1").wait(PATIENCE)
    with pytest.raises(acp.Error, match="n=0"):
        d.spawn("true", 0).wait(PATIENCE)
    acp.finalize()


def test_it_starts_groups(passes, folder):
    passes(launch.program(spawn_by_it, folder), {"ACP_MPI": "0"})
