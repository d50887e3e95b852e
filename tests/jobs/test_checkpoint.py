"""Checkpoints of a delegate: the state of all ranks at a step, whole or not at all."""

import os
import signal
from pathlib import Path

import launch
import pytest
from delegating import pid_of
from dying import at_each_call
from growing import PATIENCE

import acp_mpi as acp


def state(step):
    """Return what a rank has at a step: arrays of several kinds, and containers."""
    import numpy as np

    here = acp.rank()
    pairs = np.dtype([("a", "i4"), ("b", "f8", (2,))])
    shared = acp.zeros((16, 8), "i2")
    shared[:] = step + here
    some = np.zeros(3, pairs)
    some["b"] = step
    return {
        "f8": np.arange(1000.0).reshape(10, 100) * step + here,
        "empty": np.zeros((0, 3), "c8"),
        "one": np.array(step + here),
        "pairs": some,
        "shared": shared,
        "key": acp.register_memory(bytearray(b"%d of %d" % (step, here))),
        "vector": acp.Vector(pairs, some),
        "deque": acp.Deque("i", range(step)),
        "list": acp.List([step, None, ("here", here)]),
        "numbers": acp.List([1.5 * step], dtype=float),
        "map": acp.Map({"step": step, (1, 2): [here]}),
        "table": acp.Map({n: n * step for n in range(50)}, key="q", value="d"),
        "padded": acp.Map({n: b"%d" % n for n in range(step)}, key="i", value="S13"),
        "wide": acp.Map({step: bytes([here]) * 300}, key="H", value="V300"),
        "set": acp.Set(["a", step]),
        "keys": acp.Set([step, here], key="q"),
        "bag": acp.MultiSet("abca" * here + "x"),
        "counts": acp.MultiSet([1, step, step], key="q"),
        "counter": acp.Counter(step - 5),
    }


def plain(x):
    """Return what it holds, to be compared."""
    import numpy as np

    if isinstance(x, acp.Counter):
        return x.read()
    if isinstance(x, acp.AtKey):
        return acp.get(acp.query_ga(x), bytearray(x.size))
    if isinstance(x, acp.Map | acp.MultiSet):
        return x.to_dict()
    if isinstance(x, acp.Set):
        return x.to_set()
    if isinstance(x, acp.Vector | acp.Deque):
        x = x[:]
    return x.tobytes() if isinstance(x, np.ndarray) else list(x)


def spoil(items):
    import numpy as np

    for x in items.values():
        if isinstance(x, np.ndarray):
            x[...] = 0
        elif isinstance(x, acp.AtKey):
            acp.put(acp.query_ga(x), bytes(x.size))
        elif isinstance(x, acp.Counter):
            x.next(3)
        else:
            x.clear()


def same(items, step):
    there = state(step)
    for name, x in items.items():
        assert plain(x) == plain(there[name]), name


def keep_and_restore(folder, local):
    acp.init()
    d = acp.delegate(local=local == "True", timeout=PATIENCE)
    with pytest.raises(FileNotFoundError):
        d.restore(folder, {})
    requests = []
    for step in (7, 8, 9):
        items = state(step)
        requests.append(d.checkpoint(folder, items, step))
        requests[-1].copied(PATIENCE)
        spoil(items)
    acp.waitall(requests, timeout=PATIENCE)
    acp.sync()
    names = os.listdir(folder)
    assert len(names) == 2 * len(set(acp.allgather(d.rank if d.rank is not None else acp.rank())))
    assert {name[0] for name in names} == {"8", "9"}
    assert d.restore(folder, items) == 9
    same(items, 9)
    spoil(items)
    if acp.rank() == 0:  # the newest is not whole: the one before counts
        for name in os.listdir(folder):
            if name.startswith("9"):
                damage(Path(folder, name), -20)
    acp.sync()
    assert d.restore(folder, items) == 8
    same(items, 8)
    assert {name[0] for name in os.listdir(folder)} == {"8"}
    acp.sync()
    d.checkpoint(folder, items, 3).wait(PATIENCE)  # back again, and on from there
    acp.sync()
    assert d.restore(folder, items) == 3
    same(items, 8)
    acp.finalize()


def damage(path, at=0):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("road", ["any", "nodes"])
def test_arrays_and_containers_are_as_they_were(start, road, tmp_path):
    ranks = {"any": 4, "nodes": 2}[road]
    job = start(
        [*launch.mpiexec(ranks), *launch.program(keep_and_restore, tmp_path / "kept", False)],
        launch.ROADS[road],
    )
    assert job.wait() == 0, job.output


def test_threads_of_the_process_do_the_same(start, tmp_path):
    job = start([*launch.mpiexec(2), *launch.program(keep_and_restore, tmp_path / "kept", True)])
    assert job.wait() == 0, job.output


class Growing(acp.Map):
    """Others put in more than its length says."""

    def __len__(self):
        return 3


def read_one_that_grows():
    from acp_mpi.datastructs import contents

    acp.init()
    for value in ("q", "h"):  # rows as they stand in the tables, and others
        grows = Growing({n: n % 100 for n in range(20_000)}, key="q", value=value)
        assert dict(contents.contents_of(grows).tolist()) == {n: n % 100 for n in range(20_000)}
    acp.finalize()


def test_a_map_that_grows_while_it_is_read_is_read_whole(passes):
    passes(launch.program(read_one_that_grows), {"ACP_MPI": "0"})


# Other ranks ------------------------------------------------------------------------------------


def keep(folder, damaged):
    import numpy as np

    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    rows = 12 // len(acp.ranks())
    for step in (1, 2):
        items = {"field": np.full((rows, 5), float(step)), "name": np.array(acp.rank())}
        items["field"] += 100 * np.arange(rows * acp.rank(), rows * (acp.rank() + 1))[:, None]
        if acp.rank() == 0:
            items["map"] = acp.Map({"step": step}, ranks=[0])
        if acp.rank() < 2:
            items["pair"] = np.zeros(2)
        d.checkpoint(folder, items, step).wait(PATIENCE)
    acp.sync()
    if acp.rank() == 0 and damaged == "True":
        (path,) = Path(folder).glob("2-*.data")
        damage(path)
    acp.finalize()


def restore_elsewhere(folder, ranks, step):
    import numpy as np

    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    rows, here = 12 // len(acp.ranks()), acp.rank()
    field, at = np.zeros((rows, 5)), {"field": 5 * rows * here}
    items, shape = {"field": field}, {"field": (12, 5)}
    again = d.restore(folder, items, at=at, shape=shape)
    assert again == int(step)
    assert (field == again + 100 * np.arange(rows * here, rows * (here + 1))[:, None]).all()
    kept = acp.Map(ranks=[here])
    d.restore(folder, {"map": kept})
    assert kept.to_dict() == {"step": again}

    def refused(kind, text, items, **how):
        before = field.copy()
        with pytest.raises(kind, match=text):
            d.restore(folder, items, **how)
        assert (before == field).all()

    if len(acp.ranks()) != int(ranks):
        refused(ValueError, "give at= and shape=", items)
    refused(ValueError, "'nothing' was not saved", {"nothing": field})
    other = {"field": field.astype("f4")}
    refused(TypeError, "float64, and this of float32", other, at=at, shape=shape)
    refused(ValueError, "60 elements in all", items, at=at, shape={"field": (60, 5)})
    refused(ValueError, "60 elements, and 59 to", items, at={"field": 59}, shape=shape)
    refused(TypeError, "give both", items, at=at)
    refused(
        ValueError, r"'name' has the shape \(\)|give at= and shape=", {"name": np.zeros(3, int)}
    )
    if int(ranks) == 3:
        refused((ValueError, acp.Error), "was saved by other ranks", {"pair": np.zeros(2)})
    refused(TypeError, "saved from a Map, and this is a List", {"map": acp.List()})
    refused(TypeError, "it has no part", {"map": kept}, at={"map": 0}, shape={"map": 1})
    mine = {"nothing": field} if here == 0 else {}
    refused((ValueError, acp.Error), "'nothing' was not saved", mine)  # of one, and told to all
    acp.finalize()


@pytest.mark.parametrize(("ranks", "later"), [(2, 3), (4, 1), (3, 3)])
def test_another_number_of_ranks_says_what_it_wants(start, ranks, later, tmp_path):
    for damaged, step in ((False, 2), (True, 1)):
        folder = tmp_path / str(step)
        first = [*launch.mpiexec(ranks), *launch.program(keep, folder, damaged)]
        second = launch.program(restore_elsewhere, folder, ranks, step)
        for command in (first, [*launch.mpiexec(later), *second]):
            job = start(command)
            assert job.wait() == 0, job.output


def disagree(folder):
    """Ranks that do not give the same: all hear of it, and the next one is good again."""
    import numpy as np

    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    here, x = acp.rank(), {"x": np.arange(5.0)}
    with pytest.raises(ValueError, match=r"rank \d gives step \d+ .* all ranks"):
        d.checkpoint(folder, x, 10 + here).wait(PATIENCE)
    with pytest.raises(TypeError, match="cannot be read as a whole"):
        d.checkpoint(folder, {"space": acp.Workspace(100)}, 1)
    blocked = Path(folder, "blocked")
    acp.sync()
    blocked.touch()
    acp.sync()
    with pytest.raises(OSError, match="blocked"):
        d.checkpoint(blocked, x, 1).wait(PATIENCE)
    acp.sync()
    assert sorted(os.listdir(folder)) == ["blocked"]
    acp.sync()
    d.checkpoint(folder, x, 20).wait(PATIENCE)
    acp.sync()
    request = d.checkpoint(folder, x, 30) if here else None
    if here == 0:
        acp.recv(source=1)
        d.close()
        d = acp.delegate(start=False)
    else:
        request.copied(PATIENCE)
        acp.send(1, dest=0)
        with pytest.raises(acp.PeerLostError, match="has closed its delegate before"):
            request.wait(PATIENCE)
    acp.sync()
    x["x"][:] = 0
    assert d.restore(folder, x) == 20
    assert (x["x"] == np.arange(5.0)).all()
    d.checkpoint(folder, x, 40).wait(PATIENCE)  # all count from the same again
    acp.finalize()


def test_ranks_that_do_not_agree_hear_of_it(start, tmp_path):
    job = start([*launch.mpiexec(2), *launch.program(disagree, tmp_path / "kept")])
    assert job.wait() == 0, job.output


# Deaths -----------------------------------------------------------------------------------------


def given(job, number, step):
    from acp_mpi.delegates.generations import Item, Key, Share

    data = [memoryview(bytearray([step] * 1000)), memoryview(bytearray(b"x"))]
    items = [
        Item(name, "array", 0, len(x), None, (len(x),)) for name, x in zip("ab", data, strict=True)
    ]
    return Share(Key(job, number, step, 1), 0, {0: 0}, items), data


def test_a_kill_at_any_call_of_the_system_leaves_the_last_one_whole(tmp_path):
    from acp_mpi.delegates import generations
    from acp_mpi.delegates.checkpoints import Checkpoints

    def save(n, job, number, step):
        share, data = given(job * 32, number, step)
        ((_, error),) = Checkpoints({}).save(None, str(tmp_path / str(n)), share, data)
        assert error is None

    def two_steps(n):
        save(n, "a", 0, 5)
        save(n, "a", 1, 6)

    def look(n):
        folder = str(tmp_path / str(n))
        found = generations.wholes(folder)
        assert [whole.key.step for whole in found[:2]] in ([6, 5], [7, 6])
        share, _ = given("", 0, 0)
        for whole in found:
            assert generations.check(folder, whole.key, 0, 1, share.items) is not None
        save(n, "c", 0, 8)  # the next job goes on, and leaves nothing behind
        save(n, "c", 1, 9)
        assert sorted(name[0] for name in os.listdir(folder)) == ["8", "9"]

    assert at_each_call(two_steps, lambda n: save(n, "b", 0, 7), look) > 10


def lose_the_delegate(folder):
    import numpy as np

    acp.init()
    kept = 0
    x = {"x": np.zeros(100_000)}
    for step in range(1, 25):
        d = acp.delegate(timeout=PATIENCE)
        x["x"][:] = step
        acp.sync()
        request = d.checkpoint(folder, x, step)
        if step % 3 == 0:
            if acp.rank() == 0:
                assert len([request.done for _ in range(20 * step)])  # a little later each time
                os.kill(pid_of(d), signal.SIGKILL)
            try:
                request.wait(PATIENCE)
            except acp.PeerLostError:
                pass
            else:
                kept = step
            launch.until(lambda d=d: d.lost)
            d = acp.delegate(timeout=PATIENCE)
            x["x"][:] = -1
            found = d.restore(folder, x)
            assert found in (step, step - 1)
            assert found >= max(acp.allgather(kept))
            assert (x["x"] == found).all()
        else:
            request.wait(PATIENCE)
            kept = step
    acp.finalize()


def test_the_delegate_is_killed_at_several_steps(start, tmp_path):
    job = start([*launch.mpiexec(2), *launch.program(lose_the_delegate, tmp_path / "kept")])
    assert job.wait() == 0, job.output


def lose_a_rank(folder):
    import numpy as np

    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    x = {"x": np.full(1000, 1.0 + acp.rank())}
    d.checkpoint(folder, x, 1).wait(PATIENCE)
    acp.sync()
    if acp.rank() == 1:
        acp.recv(source=0)
        acp.recv(source=2)
        os.kill(os.getpid(), signal.SIGKILL)
    request = d.checkpoint(folder, x, 2)
    acp.send(1, dest=1)
    with pytest.raises(acp.PeerLostError, match="rank 1"):
        request.wait(PATIENCE)
    acp.refresh()
    d.checkpoint(folder, x, 3).wait(PATIENCE)  # of those that are left
    assert d.restore(folder, x) == 3
    print("restored", flush=True)
    acp.finalize()


def test_a_rank_is_killed_before_it_gives_its_share(start, tmp_path):
    job = start([*launch.mpiexec(3, survive=True), *launch.program(lose_a_rank, tmp_path / "kept")])
    job.wait()
    assert job.output.count("restored") == 2, job.output
    names = sorted(name.partition("-")[0] for name in os.listdir(tmp_path / "kept"))
    assert names == ["1", "3"], job.output
