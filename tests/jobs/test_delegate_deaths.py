"""Delegates, and ranks that have given commands, are killed or stopped."""

import os
import signal
from pathlib import Path

import launch
import pytest
from delegating import blocked, pid_of, the_delegate
from dying import at_each_call
from growing import PATIENCE, newcomer

import acp_mpi as acp


def outlive_it(folder):
    """What was waited for is there; what was not is an error, and no half of a file."""
    import numpy as np

    acp.init()
    here = acp.rank()
    for round in range(3):
        d = the_delegate()
        one, two = (Path(folder, f"{here}-{round}-{i}.npy") for i in range(2))
        d.save(one, np.arange(1000.0)).wait(PATIENCE)
        into = np.zeros(1000)
        slow = blocked(d, Path(folder, "none"))
        requests = [d.save(two, np.ones(1000), after=slow), d.ping(), d.load(one, into, after=slow)]
        requests[0].copied(PATIENCE)
        requests[1].wait(PATIENCE)
        acp.sync()
        if here == 0:
            os.kill(pid_of(d), signal.SIGKILL)
        for request in (requests[0], requests[2], slow):
            with pytest.raises(acp.PeerLostError, match="the delegate, rank"):
                request.wait(PATIENCE)
        assert d.lost
        with pytest.raises(acp.PeerLostError):
            d.ping().wait(PATIENCE)
        assert np.array_equal(np.load(one), np.arange(1000.0))
        assert not two.exists()
        assert acp.losses() == 0
        acp.sync()
    acp.finalize()


@pytest.mark.parametrize("road", ["any", "link"])
def test_its_death_ends_what_was_asked_and_nothing_else(start, road, folder):
    job = start([*launch.mpiexec(2), *launch.program(outlive_it, folder)], launch.ROADS[road])
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def wait_for_one_that_stands_still(folder):
    """What a stopped delegate was asked for is done when it goes on, and an error when it dies."""
    import numpy as np

    acp.init()
    d = the_delegate()
    pid = pid_of(d)
    for last, end in enumerate([signal.SIGCONT, signal.SIGKILL]):
        launch.freeze(pid)
        paths = [Path(folder, f"{last}-{i}.npy") for i in range(100)]
        requests = [d.save(path, np.full(100, i)) for i, path in enumerate(paths)]
        with pytest.raises(TimeoutError):
            requests[0].wait(0.05)
        assert not any(request.done for request in requests)
        os.kill(pid, end)
        for i, (path, request) in enumerate(zip(paths, requests, strict=True)):
            if last:
                with pytest.raises(acp.PeerLostError):
                    request.wait(PATIENCE)
                assert not path.exists()
            else:
                request.wait(PATIENCE)
                assert np.array_equal(np.load(path), np.full(100, i))
    acp.finalize()


def test_one_that_stands_still_is_waited_for(passes, folder):
    passes(launch.program(wait_for_one_that_stands_still, folder), {"ACP_MPI": "0"})


@pytest.mark.parametrize("key", [None, "x"])
def test_a_kill_at_any_call_of_the_system_leaves_a_whole_file(tmp_path, key):
    import numpy as np

    from acp_mpi.delegates.files import Files, Given
    from acp_mpi.delegates.memory import Part

    h5py = pytest.importorskip("h5py") if key else None

    def save(n, value):
        path = tmp_path / (f"{n}.h5" if key else f"{n}.npy")
        array = np.full(1000, value)
        part = Part(0, array.nbytes, array.dtype, array.shape, 0, None, None, key)
        given = Given(None, part, memoryview(array.tobytes()), lambda: None)
        assert Files().save(str(path), [given]) == [None]

    def look(n):
        if h5py:
            with h5py.File(tmp_path / f"{n}.h5") as file:
                found = file[key][...]
        else:
            found = np.load(tmp_path / f"{n}.npy")
        assert (found == 1.0).all() or (found == 2.0).all()
        save(n, 3.0)  # the next one is not in the way of what is left
        assert not list(tmp_path.glob("*.part"))

    assert at_each_call(lambda n: save(n, 1.0), lambda n: save(n, 2.0), look) >= 5


def ask_and_die(folder):
    import numpy as np

    acp.init()
    d = acp.delegate(start=False)
    request = d.call("os:mkdir", str(Path(folder, "made")))
    d.save(Path(folder, "late.npy"), np.zeros(10), after=request).copied(PATIENCE)
    os.kill(os.getpid(), signal.SIGKILL)


def outlive_one_that_had_asked(folder):
    acp.init()
    d, gate = the_delegate(), Path(folder, "gate")
    slow = blocked(d, gate)  # which all other calls of functions wait for
    (other,) = acp.spawn_group(newcomer(ask_and_die, folder), mpi=False).ranks
    launch.until(lambda: acp.refresh() is not None and not acp.is_alive(other))
    launch.until(lambda: d.statistics().pending == 1)
    assert d.statistics().memory == 0
    gate.touch()
    slow.wait(PATIENCE)
    d.call("os:getpid").wait(PATIENCE)
    assert os.listdir(folder) == ["gate"]
    acp.finalize()


def test_what_a_rank_that_died_had_asked_for_is_forgotten(passes, folder):
    passes(launch.program(outlive_one_that_had_asked, folder), {"ACP_MPI": "0"})


def save_half_and_die(folder):
    acp.init()
    d = acp.delegate(start=False)
    import numpy as np

    d.save(Path(folder, "both.npy"), np.zeros(10), at=10, shape=(20,)).wait(PATIENCE)
    d.save(Path(folder, "own.npy"), np.zeros(10)).wait(PATIENCE)
    os.kill(os.getpid(), signal.SIGKILL)


def save_with_one_that_dies(folder):
    import numpy as np

    acp.init()
    d = the_delegate()
    both = Path(folder, "both.npy")
    d.save(both, np.ones(10), at=0, shape=(20,)).wait(PATIENCE)
    acp.spawn_group(newcomer(save_half_and_die, folder), mpi=False)
    launch.until(
        lambda: not Path(folder, "both.npy.part").exists() and Path(folder, "own.npy").exists()
    )
    with pytest.raises(FileNotFoundError):
        d.commit(both).wait(PATIENCE)
    assert os.listdir(folder) == ["own.npy"]
    d.save(both, np.ones(10)).wait(PATIENCE)
    acp.finalize()


def test_a_file_of_a_rank_that_died_is_never_complete(passes, folder):
    passes(launch.program(save_with_one_that_dies, folder), {"ACP_MPI": "0"})
