"""Delegates of two hosts: one dies, or a rank, or a cable is cut, or a host stands still."""

import os
import signal
from pathlib import Path

import launch
import pytest
from delegating import pid_of

import acp_mpi as acp

pytestmark = pytest.mark.hosts

COUNT = 1000
PATIENCE = 60.0  # s; nothing is measured by it
SHORT = {"ACP_PEER_TIMEOUT": "3"}


def save_of(d, path, places, *ranks):
    """Have a delegate save what ranks of any host have, each as its part of a file."""
    for rank in ranks:
        part = acp.RemoteArray(places[rank], COUNT, float)
        d.save(path, part, at=COUNT * rank, shape=(4 * COUNT,), parts=4).wait(PATIENCE)


def is_whole(path):
    import numpy as np

    return np.array_equal(np.load(path), np.repeat(np.arange(4.0), COUNT))


def lose(folder, struck, way):
    """Two ranks a host; what waits for the last one of host `struck` ends when that is lost."""
    folder, struck = Path(folder), int(struck)
    acp.init()
    here, host = acp.rank(), acp.rank() // 2
    leads, stays_away = here % 2 == 0, here == 2 * struck + 1
    victim, others = 2 * struck + 1, [rank for rank in range(4) if rank != 2 * struck + 1]
    for leader in (0, 2):  # host 0 keeps the registry; no process is a child of one that dies
        if here == leader:
            acp.delegate(timeout=PATIENCE)
        acp.sync()
    d = acp.delegate(timeout=PATIENCE)
    x = acp.empty(COUNT)
    x[:] = here
    places = acp.allgather(acp.query_ga(x))
    path, kept = folder / f"{host}.npy", folder / "kept"

    assert d.allreduce(1.0).wait(PATIENCE) == 4.0
    d.checkpoint(kept, {"x": x}, 1).wait(PATIENCE)
    if leads:
        save_of(d, path, places, *range(4))
        assert is_whole(path)
        path.unlink()
        save_of(d, path, places, *others)
    acp.sync()
    if leads:
        with pytest.raises(ValueError, match="another delegate writes"):
            save_of(d, folder / f"{1 - host}.npy", places, here)
    if not stays_away:
        fold, share = d.allreduce(1.0), d.checkpoint(kept, {"x": x}, 2)
        share.copied(PATIENCE)
        acp.send(None, dest=victim)
    else:
        for rank in others:
            acp.recv(source=rank)
        (folder / "ready").touch()
        if way == "delegate":
            os.kill(pid_of(d), signal.SIGKILL)
        elif way == "rank":
            os.kill(os.getpid(), signal.SIGKILL)

    apart = way in ("cable", "freeze")
    left = [2 * host, 2 * host + 1] if apart else others if way == "rank" else [*range(4)]
    if way == "delegate":
        launch.until(lambda: d.lost == (host == struck))
    if stays_away and apart:
        launch.until(lambda: not acp.is_alive(0))
        d.close()
    for request in () if stays_away else (fold, share):
        if request is fold or host == struck:
            with pytest.raises(acp.PeerLostError):
                request.wait(PATIENCE)
        else:
            request.wait(PATIENCE)
    if way == "freeze" and host == struck:  # the others have ended, and said that these are lost
        acp.finalize()
        return
    d = acp.delegate(timeout=PATIENCE)

    if leads and way == "delegate" and host == struck:
        assert not path.exists()
        with pytest.raises(FileNotFoundError, match="commit"):
            d.commit(path).wait(PATIENCE)
        save_of(d, path, places, *others)
    if leads and (way == "delegate" or host == struck) and way != "rank":
        save_of(d, path, places, victim)
        assert is_whole(path)
    elif leads:
        with pytest.raises(acp.PeerLostError):
            save_of(d, path, places, victim)
        with pytest.raises(ValueError, match="was not saved; nothing of the file"):
            d.commit(path).wait(PATIENCE)
        assert not list(folder.glob(f"{host}.*"))

    launch.until(lambda: acp.losses() == 4 - len(left))
    assert acp.refresh() == left
    acp.sync()
    assert d.allreduce(1.0).wait(PATIENCE) == len(left)
    found = d.restore(kept, {"x": x}, at={"x": COUNT * here}, shape={"x": (4 * COUNT,)})
    assert found == 1
    assert (x == here).all()
    own = folder / f"kept by {min(left)}"
    d.checkpoint(own, {"x": x}, 3).wait(PATIENCE)
    acp.sync()
    assert d.restore(own, {"x": x}) == 3
    acp.finalize()


@pytest.mark.parametrize(
    ("struck", "way"),
    [(0, "delegate"), (1, "delegate"), (0, "rank"), (1, "rank"), (1, "cable"), (1, "freeze")],
)
def test_the_others_learn_what_is_lost_and_go_on(two_hosts, serve, start, tmp_path, struck, way):
    env = serve(two_hosts, {"all": 4}) | SHORT
    env |= {"ACP_MPI": "0", "ACP_GROUP": "all", "ACP_GROUP_SIZE": "4"}
    program = launch.program(lose, tmp_path, struck, way)
    jobs = [
        start(two_hosts[rank // 2].command(program), env | {"ACP_GROUP_RANK": str(rank)})
        for rank in range(4)
    ]
    launch.until((tmp_path / "ready").exists, *jobs)
    if way == "cable":
        two_hosts.pull(two_hosts[struck])
    elif way == "freeze":
        two_hosts[struck].freeze()
        for job in jobs[2 - 2 * struck :][:2]:
            assert job.wait() == 0, job.output
        two_hosts[struck].thaw()
    for rank, job in enumerate(jobs):
        if rank != 2 * struck + 1 or way != "rank":
            assert job.wait() == 0, "\n".join(each.output for each in jobs)
    for host in two_hosts:
        launch.until(lambda host=host: not host.processes())
    assert not list(tmp_path.rglob("*.part"))
