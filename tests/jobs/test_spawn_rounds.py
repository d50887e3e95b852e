"""A program may spawn without end: nothing of children that have ended stays with anybody."""

import contextlib
import itertools
import os
import threading
from pathlib import Path

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}
WARM = 2  # rounds after which everything has been used once
MEMORY = 4 << 10  # KiB that may come and go
LONG = 200_000  # bytes
ROUNDS = [
    8,
    pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    pytest.param(1000, marks=[pytest.mark.campaign, pytest.mark.timeout(3600)]),
]


def _status(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


def _children(pid):
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # this thread has ended
            found += map(int, path.read_text().split())
    return found


def _registry():
    """Return the process that numbers newcomers."""
    made = itertools.chain.from_iterable(map(_children, _children(os.getpid())))
    title = b"acp_mpi registry\0"
    return next(pid for pid in made if _command(pid).startswith(title))


def _command(pid):
    with contextlib.suppress(OSError):  # it has ended, as minders do
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


class Holdings:
    """What this process and the registry hold."""

    def __init__(self):
        pids = [os.getpid(), _registry()]
        self.counts = [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]
        self.counts += [int(_status(pid)["Threads"][0]) for pid in pids]
        self.counts.append(len(Path("/proc/self/maps").read_text().splitlines()))
        self.children = len(_children(os.getpid()))
        self.memory = [int(_status(pid)["VmRSS"][0]) for pid in pids]

    def __repr__(self):
        return f"{self.children} children, {self.counts} of others, {self.memory} KiB"

    def is_like(self, before):
        """At most one group is counted twice: one that is about to end."""
        return (
            self.children <= before.children + 1
            and _within(8, self.counts, before.counts)
            and _within(MEMORY, self.memory, before.memory)
        )


def _within(room, now, before):
    return all(n <= b + room for n, b in zip(now, before, strict=True))


def _repeat(rounds, one):
    for number in range(int(rounds)):
        one()
        if number == WARM:
            before = Holdings()
    try:  # what has ended goes in its own time
        launch.until(lambda: Holdings().is_like(before))
    except AssertionError as error:
        error.add_note(f"there were {before}; now there are {Holdings()}")
        raise


def a_child():
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    everybody = parent.Merge(True)
    everybody.allreduce(1)
    parent.Send(bytearray(100_000), 0)  # past what fits a letter
    everybody.Free()
    parent.Disconnect()


def spawn_again_and_again(rounds):
    from mpi4py import MPI

    command, *arguments = launch.program(a_child)
    data = bytearray(100_000)

    def once():
        child = MPI.COMM_SELF.Spawn(command, arguments)
        everybody = child.Merge(False)
        assert everybody.allreduce(1) == 2
        child.Recv(data, 0)
        everybody.Free()
        child.Disconnect()

    _repeat(rounds, once)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_thousand_spawns_leave_nothing(passes, rounds):
    limit = 40.0 + 3.0 * rounds
    passes(launch.program(spawn_again_and_again, rounds), HOOK, limit)


def two_parents_spawn_again_and_again(rounds):
    """Rank 1 starts nothing itself: it hears of the children in the collective."""
    from mpi4py import MPI

    command, *arguments = launch.program(a_child_of_two)
    before = None
    for number in range(int(rounds)):
        children = MPI.COMM_WORLD.Spawn(command, arguments)
        assert children.allgather("parent") == ["child"]
        children.Disconnect()
        if number == WARM:
            before = len(os.listdir("/proc/self/fd"))
    launch.until(lambda: len(os.listdir("/proc/self/fd")) <= before + 8)


def a_child_of_two():
    from mpi4py import MPI

    parents = MPI.Comm.Get_parent()
    assert parents.allgather("child") == ["parent"] * 2
    parents.Disconnect()


@pytest.mark.parametrize("road", ["any", pytest.param("link", marks=pytest.mark.slow)])
def test_who_is_only_told_of_children_keeps_nothing_of_them(passes, road):
    command = [*launch.mpiexec(2), *launch.program(two_parents_spawn_again_and_again, 7)]
    passes(command, HOOK | launch.ROADS[road], 90.0)


def _do_nothing():
    import acp_mpi as acp

    with acp.init():
        acp.put(acp.query_starter_ga(0), bytes(8))


def start_groups_again_and_again(rounds):
    import acp_mpi as acp

    def once():
        group = acp.spawn_group(launch.program(_do_nothing), 2, mpi=False)
        acp.get(acp.query_starter_ga(0), bytearray(8))
        assert group.size == 2

    with acp.init():
        _repeat(rounds, once)


def test_groups_that_have_ended_leave_nothing_with_who_started_them(passes):
    passes(launch.program(start_groups_again_and_again, 8), {"ACP_MPI": "0"})


def _join_and_end():
    import acp_mpi as acp

    acp.init()
    acp.finalize()


def have_job_after_job():
    """The registry of each ends with it, and not with the process that was in all."""
    import acp_mpi as acp

    for number in range(3):
        acp.init()
        if is_first := acp.rank() == 0:
            acp.spawn_group(launch.program(_join_and_end), mpi=False)
            registry = _registry()
        acp.finalize()
        if is_first:
            launch.until(lambda pid=registry: not _command(pid))  # nobody may have collected it
        held = len(os.listdir("/proc/self/fd"))
        if number == 0:
            before = held
        assert held == before


@pytest.mark.parametrize("ranks", [0, 2])
def test_a_process_may_have_job_after_job(passes, ranks):
    program = launch.program(have_job_after_job)
    passes([*launch.mpiexec(ranks), *program] if ranks else program)


class Explosive:
    """Pickles, and cannot be unpickled: zeroes are no number."""

    def __reduce__(self):
        return int, (bytes(LONG),)


def take_long_objects_out_of_groups_again_and_again(rounds):
    """A long object is read where it lies: so long the memory of its rank is in use, no longer."""
    import acp_mpi as acp

    def once():
        partner = acp.spawn_group(launch.program(_serve_until_told), 1, mpi=False).ranks[0]
        line = acp.List(rank=partner)
        for thing in (bytes(LONG), bytearray(LONG), Explosive()):
            line.push_back(thing)
        assert line.pop_front() == line.pop_front() == bytes(LONG)
        with pytest.raises(ValueError, match="invalid literal"):
            line.pop_front()
        acp.put(acp.query_starter_ga(partner) + 16, (7).to_bytes(8, "little"))
        word = acp.query_starter_ga(0) + 24
        acp.wait_until(word, "==", 9, timeout=600)
        acp.put(word, bytes(8))

    with acp.init():
        _repeat(rounds, once)


def test_what_was_taken_out_of_a_list_holds_no_group_that_has_ended(passes):
    program = launch.program(take_long_objects_out_of_groups_again_and_again, 8)
    passes(program, {"ACP_MPI": "0"})


def spawn_while_others_use_memory():
    """Threads that are in the memory of the living are not disturbed by what is given back."""
    import acp_mpi as acp

    acp.init()
    partner = acp.spawn_group(launch.program(_serve_until_told), 1, mpi=False).ranks[0]
    over, counts = threading.Event(), [0, 0]
    counter, word = acp.query_starter_ga(partner), acp.query_starter_ga(0)

    def use(number):
        while not over.is_set():
            acp.fetch_add8(counter + 8 * number, 1)
            acp.get(counter, bytearray(16))
            counts[number] += 1

    threads = [threading.Thread(target=use, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        acp.spawn_group(launch.program(_do_nothing), 1, mpi=False)
    over.set()
    for thread in threads:
        thread.join()
    said = bytearray(16)
    acp.get(counter, said)
    assert list(memoryview(said).cast("q")) == counts
    acp.put(acp.query_starter_ga(partner) + 16, (7).to_bytes(8, "little"))
    acp.wait_until(word + 24, "==", 9, timeout=600)
    acp.finalize()


def _serve_until_told():
    import acp_mpi as acp

    with acp.init():
        acp.wait_until(acp.query_starter_ga(acp.rank()) + 16, "==", 7)
        acp.put(acp.query_starter_ga(0) + 24, (9).to_bytes(8, "little"))


def test_what_is_given_back_disturbs_no_thread(passes):
    passes(launch.program(spawn_while_others_use_memory), {"ACP_MPI": "0"})
