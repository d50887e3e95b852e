"""Groups that joined a running job: how they end, by a death or by leaving."""

import contextlib
import os
import select
import signal
import time
from pathlib import Path

import launch
import pytest
from growing import (
    PATIENCE,
    await_leave,
    await_words,
    give_leave,
    greet_at_once,
    newcomer,
    say_word,
)
from macprunning import children

import acp_mpi as acp


def await_end(rank):
    while rank in acp.ranks():
        try:
            acp.get(acp.query_starter_ga(rank), bytearray(8))
        except acp.PeerLostError:
            acp.refresh()


# Ends in order, which are nobody else's business -----------------------------------------------


def receive_from_anybody():
    with acp.init():
        say_word(acp.rank())
        assert acp.recv() == "work"
        acp.fetch_add8(acp.query_starter_ga(0), 1)


def give_work_to_one_after_the_other():
    with acp.init():
        groups = [acp.spawn_group(newcomer(receive_from_anybody), 1, mpi=False) for _ in range(3)]
        ranks = [rank for group in groups for rank in group.ranks]
        await_words(ranks)
        for count, rank in enumerate(ranks):
            time.sleep(0.2)  # who waits from anybody gets in touch with all, the others too
            acp.send("work", rank)
            acp.wait_until(acp.query_starter_ga(0), "==", count + 1, timeout=PATIENCE)
            launch.until(lambda gone=rank: gone not in acp.refresh())


@pytest.mark.parametrize("road", launch.ROADS)
def test_who_waits_for_anybody_goes_on_when_another_group_has_ended(start, road):
    job = start(
        launch.program(give_work_to_one_after_the_other), {"ACP_MPI": "0"} | launch.ROADS[road]
    )
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def end_after_the_other(folder):
    """MPI rank 0 takes its time in finalize; it still looks for the other when that has closed."""
    from acp_mpi.engine import _engine
    from acp_mpi.util import lifecycle

    acp.init()
    say_word(acp.rank())
    first, other = acp.group().ranks
    closed = Path(folder, "closed")

    def hears_of_its_end():
        with contextlib.suppress(acp.PeerLostError):
            acp.get(acp.query_starter_ga(other), bytearray(8))
        return other in _engine.lost_ranks()

    @lifecycle.on_close
    def linger():
        if acp.rank() == first:
            launch.until(closed.exists)
            launch.until(hears_of_its_end)  # until then its memory can be read

    await_leave()
    acp.finalize()
    closed.touch()


def live_on_while_they_end(folder):
    with acp.init():
        ranks = acp.spawn_group(newcomer(end_after_the_other, folder), 2).ranks
        await_words(ranks)
        give_leave(ranks)
        launch.until(lambda: not set(ranks) & {*acp.refresh()})


def test_who_has_ended_in_order_keeps_nobody_from_finalizing_mpi(start, tmp_path):
    program = launch.program(live_on_while_they_end, tmp_path)
    no_window = {"ACP_WINDOW_SIZE": "0"}  # ranks wait for each other where they free one
    job = start([*launch.mpiexec(1), *program], no_window)
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())
    assert not job.output  # launchers complain of those that end without MPI_Finalize


def grow_when_the_first_has_left(folder):
    acp.init()
    say_word(acp.rank())
    launch.until(Path(folder, "has left").exists)
    group = acp.spawn_group(newcomer(join_and_end), 1, mpi=False)
    assert list(group.ranks) == [acp.rank() + 1]
    Path(folder, "has grown").touch()
    acp.finalize()


def join_and_end():
    with acp.init():
        pass


def leave_and_live_on(folder):
    acp.init()
    await_words(acp.spawn_group(newcomer(grow_when_the_first_has_left, folder), mpi=False).ranks)
    acp.finalize()
    Path(folder, "has left").touch()
    launch.until(Path(folder, "has grown").exists)


def test_a_group_goes_on_and_grows_when_those_before_it_have_left(start, tmp_path):
    job = start(launch.program(leave_and_live_on, tmp_path), {"ACP_MPI": "0"})
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def grow_before_or_after_the_other_leaves():
    """Who had the registry made leaves, and it works for the other group."""
    acp.init()
    acp.sync()
    if acp.group().name == "early":
        acp.spawn_group(newcomer(join_and_end), 1, mpi=False)
        acp.leave()
        return
    await_end(acp.group("early").ranks[0])
    group = acp.spawn_group(newcomer(join_and_end), 1, mpi=False)
    assert list(group.ranks) == [3]
    acp.finalize()


@pytest.mark.parametrize("order", [("late", "early"), ("early", "late")])
def test_a_job_grows_when_who_grew_it_has_left(groups, meeting, all_pass, order):
    place = meeting(dict.fromkeys(order, 1))
    sizes = dict.fromkeys(order, ("acp", 1))
    all_pass(groups(sizes, grow_before_or_after_the_other_leaves, env=place))


def leave_while_the_registry_is_held_up(path):
    """It hears that a group has left and that its processes have ended at the same time."""
    acp.init()
    early = acp.group("early").ranks[0]
    ended = os.pidfd_open(acp.allgather(os.getpid())[early])
    if acp.rank() == early:
        acp.spawn_group(newcomer(join_and_end), 1, mpi=False)
        launch.freeze(registry := _registry())
        Path(path).write_text(f"{registry}")
        acp.leave()
        return
    select.select([ended], [], [])
    os.kill(int(Path(path).read_text()), signal.SIGCONT)
    await_end(early)
    group = acp.spawn_group(newcomer(join_and_end), 1, mpi=False)
    assert list(group.ranks) == [3]
    acp.finalize()


def _registry():
    """Return the process that numbers newcomers, which this one had made."""
    (starter,) = children(os.getpid())
    for pid in children(starter):
        with contextlib.suppress(OSError):  # it has ended, as minders do
            if Path(f"/proc/{pid}/comm").read_bytes().startswith(b"acp_mpi registr"):
                return pid
    raise AssertionError("there is no registry")


def test_the_registry_outlives_a_group_that_ends_at_once_when_it_has_left(
    groups, meeting, all_pass, tmp_path
):
    place = meeting({"late": 1, "early": 1})
    sizes = {"late": ("acp", 1), "early": ("acp", 1)}
    path = tmp_path / "registry"
    all_pass(groups(sizes, leave_while_the_registry_is_held_up, path, env=place))


def refresh_without_the_registry():
    acp.init()
    word = acp.register_memory(bytearray(8))
    if acp.rank() == 0:
        acp.spawn_group(newcomer(join_and_end), 1, mpi=False)
        os.kill(_registry(), signal.SIGKILL)
    acp.sync()
    assert acp.refresh()[:2] == [0, 1]
    acp.barrier([0, 1])
    acp.fetch_add8(acp.allgather(acp.query_ga(word), ranks=[0, 1])[1 - acp.rank()], 1)
    acp.barrier([0, 1])
    acp.finalize()


def test_a_refresh_goes_on_without_the_registry(without_mpi):
    jobs = without_mpi(2, launch.program(refresh_without_the_registry))
    for job in jobs:
        assert job.wait() == 0, job.output
        assert "nothing is learnt of groups that have joined" in job.output


def start_two_of_one_name():
    with acp.init():
        wanted = (newcomer(join_and_end), 1, {"mpi": False, "name": "twins"})
        with pytest.raises(acp.Error, match="two of these groups have the name 'twins'"):
            acp.spawn_groups([wanted, wanted])


def test_two_groups_of_one_name_are_refused_before_they_start(without_mpi):
    (job,) = without_mpi(1, launch.program(start_two_of_one_name))
    assert job.wait() == 0, job.output


# Deaths -----------------------------------------------------------------------------------------


def outlive(folder):
    """Wait for the parent that dies; then go on as a group."""
    acp.init()
    say_word(acp.rank())
    try:
        acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 7, timeout=PATIENCE)
    except acp.PeerLostError:
        acp.refresh()
    acp.sync()
    try:
        acp.put(acp.query_starter_ga(0), bytes(8))
    except acp.PeerLostError:
        Path(folder, f"{acp.rank()} survived").touch()
    acp.finalize()


def die(folder):
    acp.init()
    group = acp.spawn_group(newcomer(outlive, folder), 2, mpi=False)
    await_words(group.ranks)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_group_outlives_who_started_it(start, tmp_path):
    job = start(launch.program(die, tmp_path), {"ACP_MPI": "0"})
    assert job.wait() == -signal.SIGKILL, job.output
    launch.until(lambda: len(list(tmp_path.glob("* survived"))) == 2)
    launch.until(lambda: not job.processes())


def leave_a_dead_group():
    acp.init()
    group = acp.spawn_group(newcomer(die_when_told), 1, mpi=False)
    await_words(group.ranks)
    give_leave(group.ranks)
    acp.sync()
    await_end(group.ranks[0])
    acp.refresh()  # it may have been heard of between the calls
    later = acp.spawn_group(newcomer(greet_at_once), 1, mpi=False)
    assert list(later.ranks) == [2]  # no number is given twice
    await_words(later.ranks)
    acp.finalize()


def die_when_told():
    acp.init()
    say_word(acp.rank())
    await_leave()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.smoke
def test_a_group_that_dies_is_a_loss(start):
    job = start(launch.program(leave_a_dead_group), {"ACP_MPI": "0"})
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def wait_for_ever(folder):
    acp.init()
    Path(folder, f"{acp.rank()} waits").touch()
    acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 7)


def grow_and_wait(folder):
    acp.init()
    acp.spawn_groups([(newcomer(wait_for_ever, folder), 2, {"mpi": mpi}) for mpi in (False, True)])
    acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 7)


def test_nothing_stays_when_all_are_killed(start, tmp_path):
    job = start(launch.program(grow_and_wait, tmp_path), {"ACP_MPI": "0"})
    launch.until(lambda: len(list(tmp_path.glob("* waits"))) == 4, job)
    programs = str(launch.PROGRAM)
    for pid in job.processes():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # others end with these
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
            if programs in command and "mpiexec" not in command.split("\0")[0]:
                os.kill(pid, signal.SIGKILL)
    launch.until(lambda: not job.processes())


# Leaving ----------------------------------------------------------------------------------------


def leave_or_stay(folder):
    """One group leaves; the other is told of that where it needs it, and goes on."""
    acp.init()
    acp.sync()
    for rank in acp.ranks():
        acp.fetch_add8(acp.query_starter_ga(rank), 1)
    acp.sync()
    if acp.group().name == "early":
        acp.leave()
        assert not acp.is_initialized()
    else:
        stay(acp.group("early").ranks)
    Path(folder, f"{os.getpid()} ended").touch()


def stay(absent):
    while True:
        try:
            acp.sync()
        except acp.PeerLostError as error:
            assert error.rank in absent  # noqa: PT017
            acp.refresh()
        else:
            break
    assert acp.ranks() == list(acp.group().ranks)
    for made in (acp.Map({1: 2}), acp.Set([1]), acp.MultiSet([1]), acp.Workspace(1000)):
        assert made.statistics().ranks == tuple(acp.group().ranks)
        made.destroy()
    acp.sync()
    for rank in acp.group().ranks:
        acp.fetch_add8(acp.query_starter_ga(rank), 1)
    acp.finalize()


@pytest.mark.parametrize("road", ["any", "link", "nodes"])
def test_a_group_leaves_and_the_others_go_on(groups, meeting, all_pass, tmp_path, road):
    sizes = {"early": ("mpi", 2), "late": ("acp", 2)}
    place = meeting({name: ranks for name, (_, ranks) in sizes.items()})
    all_pass(groups(sizes, leave_or_stay, tmp_path, env=place | launch.ROADS[road]))
    assert len(list(tmp_path.glob("* ended"))) == 4
