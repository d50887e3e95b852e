"""SIGKILL: the others get PeerLostError, go on without the dead, and nothing stays behind."""

import itertools
import os
import signal
from pathlib import Path

import launch
import pytest
from dying import sync_before_the_end_of

import acp_mpi as acp

RANKS = 4
NAMES = 8  # of each rank: every rank keeps some
SIZE = 100_000


def survive(folder):
    """Say so in a file: a launcher whose rank has died may lose what others print."""
    Path(folder, f"{acp.rank()} survived").touch()


def storm(folder, victim):
    """Copy between all ranks until one dies, then go on among the living."""
    acp.init()
    victim = int(victim)
    mine = acp.empty(SIZE * acp.procs(), "u1")
    for number in range(NAMES):
        acp.publish(f"{acp.rank()} {number}", number)
    places = acp.allgather(acp.query_ga(mine))
    counter = acp.query_starter_ga(victim)
    begun = counter + 8
    acp.fetch_add8(begun, 1)
    if acp.rank() == victim:  # it dies when nobody is in a collective with it any more
        acp.wait_until(begun, "==", acp.procs())
    try:
        while True:
            for src, dst in ((s, d) for s in acp.ranks() for d in acp.ranks()):
                acp.copy(places[dst] + acp.rank() * SIZE, places[src], SIZE)
                acp.add8(acp.GA_NULL, counter, 1)
            acp.complete()
            if acp.rank() == victim:
                os.kill(os.getpid(), signal.SIGKILL)
            acp.fetch_add8(counter, 1)
    except acp.PeerLostError as error:
        assert error.rank == victim, error  # noqa: PT017
        assert "refresh" in str(error)  # noqa: PT017
    go_on(victim, places)
    survive(folder)


def sync_of_the_living():
    while True:
        try:
            acp.complete()
            acp.sync()
        except acp.PeerLostError:
            acp.refresh()
        else:
            break


def go_on(victim, places):
    """Live without the victim, as the interface promises."""
    sync_of_the_living()
    living = [rank for rank in range(acp.procs()) if rank != victim]
    assert acp.ranks() == living
    assert acp.procs() == len(living) + 1
    for rank in living:
        acp.fetch_add8(acp.query_starter_ga(rank), 1)
        acp.complete(acp.copy(places[rank], places[acp.rank()], SIZE))
    acp.barrier(living)
    for number, rank in itertools.product(range(NAMES), living):
        assert acp.lookup(f"{rank} {number}", timeout=600) == number
        with pytest.raises((acp.PeerLostError, TimeoutError)):
            acp.lookup(f"{victim} {number}", timeout=0.001)
    try:
        acp.complete(acp.copy(places[acp.rank()], places[victim], 8))
        raise AssertionError("a copy from the dead went well")
    except acp.PeerLostError:
        pass
    acp.sync()


def survivors(folder):
    return {rank for rank in range(RANKS) if (folder / f"{rank} survived").exists()}


def nothing_stays(*jobs):
    launch.until(lambda: not any(job.processes() for job in jobs))
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("acp")]


@pytest.mark.smoke("0-any")
@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("victim", [0, RANKS - 1])
def test_the_others_of_an_mpi_group_go_on(start, tmp_path, road, victim):
    job = start(
        [*launch.mpiexec(RANKS, survive=True), *launch.program(storm, tmp_path, victim)],
        launch.ROADS[road],
    )
    job.wait()
    assert survivors(tmp_path) == set(range(RANKS)) - {victim}, job.output
    nothing_stays(job)


FEW_LINKS = {"few links": launch.ROADS["nodes"] | {"ACP_LINKS_OPEN": "1"}}  # most links rest


@pytest.mark.smoke("link")
@pytest.mark.parametrize("road", [*launch.ROADS, *FEW_LINKS])
def test_the_others_of_a_group_without_mpi_go_on(without_mpi, tmp_path, road):
    victim = 1
    env = (launch.ROADS | FEW_LINKS)[road]
    jobs = without_mpi(RANKS, launch.program(storm, tmp_path, victim), env)
    statuses = [job.wait() for job in jobs]
    text = "\n".join(job.output for job in jobs)
    assert statuses == [-signal.SIGKILL if rank == victim else 0 for rank in range(RANKS)], text
    assert survivors(tmp_path) == set(range(RANKS)) - {victim}, text
    nothing_stays(*jobs)


def meet_in_spite_of_a_loss(folder):
    """One has accepted the loss of the last rank, the other does not know of it yet."""
    acp.init()
    starter = acp.query_starter_ga
    last = acp.procs() - 1
    sync_before_the_end_of(last)
    if acp.rank() == last:
        os.kill(os.getpid(), signal.SIGKILL)
    if acp.rank() == 0:
        while not is_lost(last):
            pass
        acp.refresh()
        acp.put(starter(1), b"\1" * 8)
    else:
        while not acp.fetch_add8(starter(1), 0):  # wait_until would hear of the loss
            os.sched_yield()
    acp.barrier([0, 1])
    survive(folder)
    os._exit(0)  # the end is for those who have agreed on who lives


def reset_without_one(folder):
    """The last rank dies; the others change places, and go on."""
    acp.init()
    last, rank = acp.procs() - 1, acp.rank()
    sync_before_the_end_of(last)
    if rank == last:
        os.kill(os.getpid(), signal.SIGKILL)
    sync_of_the_living()
    assert acp.ranks() == list(range(last))
    with pytest.raises(acp.RankError, match=f"reset: .*{last}"):
        acp.reset(rank + 1)  # the place of the dead is taken
    acp.reset(last - 1 - rank)
    assert acp.rank() == last - 1 - rank
    left = acp.query_starter_ga((acp.rank() - 1) % last)
    acp.put(left, bytes([acp.rank() + 1]) * 8)
    acp.sync()
    came = acp.get(acp.query_starter_ga(acp.rank()), bytearray(8))
    assert came == bytes([(acp.rank() + 1) % last + 1]) * 8
    assert is_lost(last)
    acp.sync()
    survive(folder)


@pytest.mark.parametrize("road", launch.ROADS)
def test_the_living_change_places(without_mpi, tmp_path, road):
    jobs = without_mpi(RANKS, launch.program(reset_without_one, tmp_path), launch.ROADS[road])
    for job in jobs:
        job.wait()
    assert survivors(tmp_path) == {0, 1, 2}, "\n".join(job.output for job in jobs)
    nothing_stays(*jobs)


def is_lost(rank):
    try:
        acp.fetch_add8(acp.query_starter_ga(rank), 0)
    except acp.PeerLostError:
        return True
    return False


@pytest.mark.parametrize("road", launch.ROADS)
def test_a_barrier_of_the_living_needs_no_refresh(without_mpi, tmp_path, road):
    jobs = without_mpi(3, launch.program(meet_in_spite_of_a_loss, tmp_path), launch.ROADS[road])
    for job in jobs:
        job.wait()
    assert survivors(tmp_path) == {0, 1}, "\n".join(job.output for job in jobs)
    nothing_stays(*jobs)


def sleep_in_every_wait(folder):
    """Every rank waits in another call; each says so first."""
    acp.init()
    array = acp.zeros(1, "u8")
    Path(folder, f"{acp.rank()} waits").touch()
    if acp.rank() == 0:
        while len(list(Path(folder).glob("* waits"))) < acp.procs():
            os.sched_yield()
        os.kill(os.getpid(), signal.SIGKILL)
    waits = [acp.sync, lambda: acp.barrier(range(acp.procs())), lambda: acp.allgather(1)]
    try:
        waits[acp.rank() % len(waits)]()
    except acp.PeerLostError as error:
        assert error.rank == 0  # noqa: PT017
        survive(folder)
    assert array[0] == 0


@pytest.mark.parametrize("road", launch.ROADS)
def test_a_death_wakes_whoever_waits(without_mpi, tmp_path, road):
    jobs = without_mpi(RANKS, launch.program(sleep_in_every_wait, tmp_path), launch.ROADS[road])
    for job in jobs:
        job.wait()
    assert survivors(tmp_path) == set(range(1, RANKS)), [job.output for job in jobs]
    nothing_stays(*jobs)


def serve_without_a_pause(folder):
    """Rank 0 answers others all the time; what tells of a death needs an ear, too."""
    acp.init()
    news, dead = acp.query_starter_ga(0) + 8, acp.procs() - 1
    sync_before_the_end_of(dead)
    if acp.rank() == dead:
        os.kill(os.getpid(), signal.SIGKILL)
    if acp.rank() == 0:
        with pytest.raises(acp.PeerLostError):
            acp.recv(source=dead)
        acp.fetch_add8(news, 1)
    else:
        while not acp.fetch_add8(news, 0):
            continue
    sync_of_the_living()
    survive(folder)


@pytest.mark.parametrize("road", launch.ROADS)
def test_an_owner_that_never_rests_hears_of_a_death(without_mpi, tmp_path, road):
    jobs = without_mpi(RANKS, launch.program(serve_without_a_pause, tmp_path), launch.ROADS[road])
    for job in jobs:
        job.wait()
    assert survivors(tmp_path) == {0, 1, 2}, [job.output for job in jobs]
    nothing_stays(*jobs)


def storm_for_ever(folder):
    acp.init()
    mine = acp.empty(SIZE, "u1")
    places = acp.allgather(acp.query_ga(mine))
    Path(folder, f"{acp.rank()} storms").touch()
    while True:
        for ga in places:
            acp.copy(ga, places[0], SIZE)
        acp.complete()


@pytest.mark.parametrize("road", launch.ROADS)
def test_nothing_stays_behind_when_all_are_killed(without_mpi, tmp_path, road):
    jobs = without_mpi(RANKS, launch.program(storm_for_ever, tmp_path), launch.ROADS[road])
    launch.until(lambda: len(list(tmp_path.glob("* storms"))) == RANKS, *jobs)
    for job in jobs:
        os.kill(job.pid, signal.SIGKILL)
    assert all(job.wait() for job in jobs)  # the last may have heard of the first
    nothing_stays(*jobs)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("road", launch.ROADS)
def test_fifty_storms_are_survived(start, tmp_path, road):
    for index in range(50):
        victim = index % RANKS
        folder = tmp_path / str(index)
        folder.mkdir()
        job = start(
            [*launch.mpiexec(RANKS, survive=True), *launch.program(storm, folder, victim)],
            launch.ROADS[road],
        )
        job.wait()
        assert survivors(folder) == set(range(RANKS)) - {victim}, job.output
        nothing_stays(job)
