"""A running job grows: groups that it starts join it, and nobody else takes part in that."""

import os
import sys
import threading
import time
from pathlib import Path

import launch
import pytest
from growing import await_leave, await_words, give_leave, greet_at_once, newcomer, say_word

import acp_mpi as acp

# What those that come do ------------------------------------------------------------------------


def greet(size, has_mpi):
    """Know all, be known by rank 0, and meet only those that came along."""
    with acp.init():
        mine = acp.group()
        assert mine.size == int(size)
        assert mine.has_mpi == (has_mpi == "True")
        assert acp.rank() in mine.ranks
        assert acp.rank() >= acp.groups()[0].size
        assert acp.allgather(acp.rank(), ranks=mine.ranks) == list(mine.ranks)
        say_word(acp.rank())
        await_leave()
        acp.sync()


def have_children():
    """Nested: a newcomer starts a group itself."""
    with acp.init():
        group = acp.spawn_group(newcomer(greet, 2, False), 2, mpi=False)
        assert min(group.ranks) > acp.rank()
        say_word(acp.rank())
        await_leave()
        give_leave(group.ranks)


# A job of several ranks -------------------------------------------------------------------------


def grow(kind):
    """Rank 1 starts a group, rank 0 hears from it without having been told."""
    acp.init()
    table = acp.bcast(acp.Map(rank=0) if acp.rank() == 0 else None)
    before = acp.procs()
    if acp.rank() == 1:
        has_mpi = kind == "mpi"
        group = acp.spawn_group(newcomer(greet, 2, has_mpi), 2, mpi=has_mpi, name="late")
        assert (group.name, group.has_mpi) == ("late", has_mpi)
        assert list(group.ranks) == [before, before + 1]
        assert acp.group("late") == group
        table["late"] = tuple(group.ranks)
    acp.sync()  # does not wait for the newcomers
    if acp.rank() == 0:
        await_words(table["late"])
    acp.sync()
    assert acp.get(acp.query_starter_ga(before), bytearray(8)) == bytes(8)
    ga = acp.malloc(100, rank=before + 1)
    acp.put(ga, bytes(100))
    acp.free(ga)
    assert acp.procs() == before + 2
    assert acp.group("late").size == 2
    acp.sync()
    if acp.rank() == 0:
        give_leave(table["late"])
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("kind", ["mpi", "acp"])
def test_a_group_joins_and_is_learnt_of_when_it_is_needed(start, road, kind):
    job = start([*launch.mpiexec(2), *launch.program(grow, kind)], launch.ROADS[road])
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def meet_all():
    """After a refresh on both sides they are one."""
    with acp.init():
        if acp.rank() == 0:
            acp.spawn_group(newcomer(meet_all), 2, mpi=False)
        if acp.rank() < 2:
            acp.sync()
        acp.refresh()
        assert acp.ranks() == [0, 1, 2, 3]
        acp.sync()
        assert acp.allgather(acp.rank()) == [0, 1, 2, 3]
        assert [group.size for group in acp.groups()] == [2, 2]
        assert acp.bcast("all", root=3) == "all"
        acp.publish(f"of {acp.rank()}", 0)
        acp.sync()
        other = 3 - acp.rank()  # of the other group
        with pytest.raises(ValueError, match=f"rank {other} has published"):
            acp.publish(f"of {other}", 1)
        acp.sync()
        acp.withdraw(f"of {acp.rank()}")


@pytest.mark.smoke
def test_after_refresh_sync_means_all(start):
    job = start([*launch.mpiexec(2), *launch.program(meet_all)])
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def grow_after_resets():
    """Newcomers would take one rank for another."""
    acp.init()
    for _ in range(2):
        acp.reset(1 - acp.rank())
        if acp.group().ranks != range(2):
            with pytest.raises(acp.Error, match="reset has given the ranks other numbers"):
                acp.spawn_group(newcomer(greet_at_once), mpi=False)
    acp.sync()
    if acp.rank() == 0:
        await_words(acp.spawn_group(newcomer(greet_at_once), mpi=False).ranks)
    acp.finalize()


def test_no_group_is_started_while_ranks_have_other_numbers(start):
    job = start([*launch.mpiexec(2), *launch.program(grow_after_resets)])
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def come_and_go():
    with acp.init():
        pass


def reset_when_one_has_grown():
    """All are told, not only the one that knows."""
    acp.init()
    if acp.rank() == 1:
        acp.spawn_group(newcomer(come_and_go), mpi=False)
    with pytest.raises(acp.Error, match="ranks have joined since this job began"):
        acp.reset(acp.rank())
    acp.sync()
    acp.finalize()


def test_no_rank_resets_when_one_knows_of_newcomers(start):
    job = start([*launch.mpiexec(2), *launch.program(reset_when_one_has_grown)])
    assert job.wait() == 0, job.output


def grow_everywhere():
    """Every rank starts groups, from two threads at once."""
    acp.init()
    groups, lock = [], threading.Lock()

    def one():
        group = acp.spawn_group(newcomer(greet, 1, False), 1, mpi=False)
        with lock:
            groups.append(group)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({group.name for group in groups}) == 2
    ranks = [rank for group in groups for rank in group.ranks]
    everyones = acp.allgather(ranks)
    assert sorted(rank for some in everyones for rank in some) == [2, 3, 4, 5]
    if acp.rank() == 0:
        await_words(range(2, 6))
    acp.sync()
    give_leave(ranks)
    acp.finalize()


def test_several_ranks_and_threads_start_groups_at_once(start):
    job = start([*launch.mpiexec(2), *launch.program(grow_everywhere)])
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


# A job of one process, without launcher ---------------------------------------------------------


def grow_alone():
    acp.init()
    for number, kind in enumerate(("acp", "mpi")):
        group = acp.spawn_group(newcomer(greet, 2, kind == "mpi"), 2, mpi=kind == "mpi")
        assert list(group.ranks) == [1 + 2 * number, 2 + 2 * number]
        await_words(group.ranks)
        give_leave(group.ranks)
    many = acp.spawn_groups([(newcomer(greet_at_once), 1, {"mpi": False})] * 6)
    ranks = sorted(rank for group in many for rank in group.ranks)
    assert ranks == list(range(5, 11))
    await_words(ranks)
    (nest,) = acp.spawn_groups([(newcomer(have_children), 1, {"mpi": False})])
    await_words(range(11, 14))
    assert list(nest.ranks) == [11]
    give_leave([11])
    acp.finalize()


def test_a_process_without_launcher_grows(start):
    job = start(launch.program(grow_alone), {"ACP_MPI": "0"})
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def fail_to_grow():
    acp.init()
    cases = [
        ("/no/such/program", acp.Error, "/no/such/program"),
        ([sys.executable, "-c", "print('bad day'); raise SystemExit(3)"], acp.Error, "bad day"),
        ([sys.executable, "-c", "import signal; signal.pause()"], TimeoutError, "acp.init()"),
        (["sh", "-c", "sleep 1000 & kill -40 $$"], acp.Error, "killed by signal 40"),
    ]
    for mpi in (False, True):
        for command, kind, text in cases:
            try:
                acp.spawn_group(command, 1, mpi=mpi, timeout=3.0 if kind is TimeoutError else 30.0)
            except kind as error:
                assert text in str(error), error  # noqa: PT017
                assert "spawn_group" in str(error)  # noqa: PT017
            else:
                raise AssertionError(f"{command} has joined")
    twice = [(newcomer(greet_at_once), 1, {"mpi": False, "name": "twice"})] * 2
    try:
        acp.spawn_groups(twice)
    except acp.Error as error:
        assert "twice" in str(error)  # noqa: PT017
    assert acp.procs() == 1
    group = acp.spawn_group(newcomer(greet_at_once), 1, mpi=False)
    assert list(group.ranks) == [1]
    await_words([1])
    acp.finalize()


def take_names_that_are_taken():
    """Before there is a registry, and after."""
    with acp.init():
        for ranks in ([1], [2]):
            for name in [group.name for group in acp.groups()]:
                with pytest.raises(acp.Error, match=f"spawn_group: .* {name!r} .*another name"):
                    acp.spawn_group(newcomer(greet_at_once), name=name, mpi=False)
            assert list(acp.spawn_group(newcomer(greet_at_once), mpi=False).ranks) == ranks
            await_words(ranks)


def test_the_name_of_a_group_is_not_given_twice(passes):
    output = passes(launch.program(take_names_that_are_taken), {"ACP_MPI": "0"})
    assert "Traceback" not in output  # of a process that was started all the same


def ask_for_nothing_that_can_be():
    with acp.init():
        for n, kind in ((0, acp.Error), (-1, acp.Error), (1.5, TypeError), ("2", TypeError)):
            with pytest.raises(kind, match=rf"spawn_group: n={n!r}: expected a number of proc"):
                acp.spawn_group("true", n)
        for command in (3, None, ["true", 3], b"true"):
            with pytest.raises(TypeError, match=r"spawn_group: command=.*: expected a command"):
                acp.spawn_group(command)
        with pytest.raises(acp.Error, match=r"spawn_group: command=.*: No closing quotation"):
            acp.spawn_group("echo 'a")
        for name, wrong in (
            ("name", 5), ("env", {"LEVEL": 2}), ("env", {2: "x"}), ("env", ["LEVEL=2"]),
            ("env", 5), ("wdir", 5), ("wdir", b"/tmp"), ("mpi", "no"),
        ):  # fmt: skip
            with pytest.raises(TypeError, match=rf"^spawn_group: {name}[=:].*: expected "):
                acp.spawn_group("true", **{name: wrong})
        for timeout in ("5", -1, float("nan")):
            with pytest.raises(ValueError, match=rf"^spawn_group: the timeout {timeout!r} is not"):
                acp.spawn_group("true", timeout=timeout)
        for requests in (5, ["true"], [("true",)], [("true", 1, 2)], [("true", 1, {"nix": 2})],
                         [("true", 1, {"timeout": 5})], [5]):  # fmt: skip
            with pytest.raises(TypeError, match=r"^spawn_groups: .* give .*\(command, n, keywords"):
                acp.spawn_groups(requests)
        assert acp.procs() == 1


def test_what_cannot_be_asked_for_is_named(passes):
    passes(launch.program(ask_for_nothing_that_can_be), {"ACP_MPI": "0"})


def come_from_other_sources():
    from acp_mpi.job.rendezvous import announcement

    announcement.SOURCES = "0" * 16
    acp.init()


def start_another_version():
    with acp.init():
        with pytest.raises(
            acp.Error, match=r"(?s)runs acp_mpi .*sources 0{16}.*this job .*sources"
        ):
            acp.spawn_group(newcomer(come_from_other_sources), mpi=False)
        assert acp.procs() == 1


def test_a_group_of_another_version_does_not_come(passes):
    passes(launch.program(start_another_version), {"ACP_MPI": "0"})


def say_what_was_given(*arguments):
    with acp.init():
        acp.send((os.getcwd(), os.environ["LEVEL"], arguments, acp.group().name), 0)


def give_kinds_of_texts_and_numbers(folder):
    """NumPy has such, a debugger has such a `__file__`, and paths are texts."""
    import numpy as np

    class Text(str):
        __slots__ = ()

        def __str__(self):
            return "no such text"

        __repr__ = __str__

    class Number(int):
        def __str__(self):
            return "no such number"

        __repr__ = __str__

    with acp.init():
        program = newcomer(say_what_was_given, "a b")
        for rank, (kind, count) in enumerate(
            ((np.str_, np.int64(1)), (Text, Number(1)), (Path, True)), start=1
        ):
            texts = Text if kind is Path else kind
            group = acp.spawn_group(
                [kind(word) if os.path.exists(word) else texts(word) for word in program],
                count,
                mpi=False,
                name=texts(f"group {rank}"),
                env={texts("LEVEL"): kind("high")},
                wdir=kind(folder),
                timeout=float("inf"),
            )
            assert list(group.ranks) == [rank]
            found = acp.recv(source=rank)
            assert found == (os.path.realpath(folder), "high", ("a b",), f"group {rank}")


def test_a_group_is_told_what_texts_and_numbers_say(passes, tmp_path):
    passes(launch.program(give_kinds_of_texts_and_numbers, tmp_path), {"ACP_MPI": "0"})


def come_one_after_the_other():
    if os.environ["ACP_GROUP_RANK"] == "1":
        time.sleep(float(os.environ["LATE"]))
    greet_at_once()


def give_more_time_than_members_have():
    with acp.init():
        program = newcomer(come_one_after_the_other)
        acp.spawn_group(program, 2, mpi=False, env={"LATE": "1.5"}, timeout=30.0)
        await_words([1, 2])
        env = {"LATE": "1000", "ACP_JOIN_TIMEOUT": "3"}
        with pytest.raises(acp.Error, match=r"(?s)before it had joined.*missing: ranks 1 of"):
            acp.spawn_group(program, 2, mpi=False, env=env, timeout=30.0)


def test_members_wait_for_each_other_as_long_as_who_started_them(passes):
    program = launch.program(give_more_time_than_members_have)
    passes(program, {"ACP_MPI": "0", "ACP_JOIN_TIMEOUT": "0.5"})


def test_what_does_not_join_is_ended_and_told_of(start):
    job = start(launch.program(fail_to_grow), {"ACP_MPI": "0"})
    assert job.wait(90.0) == 0, job.output
    launch.until(lambda: not job.processes())
