"""Limits of memory: refused before anything is touched; never more than a little is used here."""

import gc
import os
import re

import launch
import numpy as np
import pytest
from growing import PATIENCE, await_leave, give_leave, newcomer, word

import acp_mpi as acp
from acp_mpi.engine import _engine

MIB = 1 << 20
TOO_MUCH = 2**46


def committed():
    """Return bytes that the memory files of this process take."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if "memfd:" in os.readlink(f"/proc/self/fd/{name}"):
                total += os.stat(f"/proc/self/fd/{name}").st_blocks * 512
        except OSError:
            continue
    return total


def refuse_too_much(how):
    given = {"argument": {"heap_size": TOO_MUCH}}.get(how, {})
    with pytest.raises(acp.HeapFullError, match=r"init: .*heap_size"):
        acp.init(**given)
    assert not acp.is_initialized()
    assert committed() < MIB
    if how == "argument":
        with acp.init():  # the refusal left nothing behind
            acp.sync()


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_heap_beyond_the_machine_s_memory_is_refused_by_init(passes, ranks):
    passes([*launch.mpiexec(ranks), *launch.program(refuse_too_much, "argument")])
    passes(
        [*launch.mpiexec(ranks), *launch.program(refuse_too_much, "variable")],
        {"ACP_HEAP_SIZE": str(TOO_MUCH)},
    )


def ask_for_more_than_is_left():
    asked = _engine.memory_total() - 4 * MIB  # that much is in use
    with pytest.raises(acp.HeapFullError, match=rf"init: {asked} bytes do not fit: ") as caught:
        acp.init(heap_size=0, starter_size=asked)
    left = re.search(r" ([0-9]+) bytes are left; ", str(caught.value))
    assert left is not None
    assert 0 < int(left[1]) < asked
    assert committed() < MIB


def test_init_says_what_was_asked_for_and_what_is_left(passes):
    passes(launch.program(ask_for_more_than_is_left), {"ACP_MPI": "0"})


def keep_the_limit():
    with acp.init(heap_size=16 * MIB):
        before = committed()
        keep = acp.zeros(10 * MIB, np.uint8)
        for _ in range(3):
            with pytest.raises(acp.HeapFullError, match=rf"empty: {10 * MIB} bytes"):
                acp.empty(10 * MIB, np.uint8)
        small = acp.empty(MIB, np.uint8)
        assert committed() <= before + 16 * MIB
        del keep, small
        gc.collect()
        again = acp.empty(10 * MIB, np.uint8)
        again.fill(1)
        del again
        gc.collect()
        assert committed() <= before + 5 * MIB, "large memory does not go back to the system"
        acp.sync()


@pytest.mark.smoke
def test_the_limit_is_hard_and_released_memory_counts_no_more(passes):
    passes([*launch.mpiexec(2), *launch.program(keep_the_limit)])


def fill_with_small_arrays():
    with acp.init(heap_size=4 * MIB):
        arrays = []
        with pytest.raises(acp.HeapFullError):  # noqa: PT012
            while True:
                arrays.append(acp.empty(5000, np.uint8))
        assert 2 * MIB < sum(array.nbytes for array in arrays) <= 4 * MIB
        for index, array in enumerate(arrays):
            array.fill(index % 256)
        assert all((array == index % 256).all() for index, array in enumerate(arrays))
        arrays.clear()
        gc.collect()
        acp.zeros(3 * MIB, np.uint8)
        acp.sync()


def test_small_arrays_fill_the_heap_to_the_limit_without_overlap(passes):
    passes([*launch.mpiexec(1), *launch.program(fill_with_small_arrays)])


def have_starter_memory(size):
    size = int(size)
    with acp.init() as session:
        assert session is not None
        last = acp.query_starter_ga((acp.rank() + 1) % acp.procs()) + size - 1
        acp.put(last, b"x")
        acp.sync()
        with pytest.raises(acp.AddressError):
            acp.put(last, b"xy")
        assert acp.view(acp.query_starter_ga(acp.rank()), size, np.uint8)[-1] == ord("x")
        acp.sync()


@pytest.mark.parametrize("size", [1, 4096, 5_000_000])
@pytest.mark.parametrize("road", ["any", "nodes"])
def test_starter_memory_has_exactly_the_size_that_was_asked_for(passes, size, road):
    passes(
        [*launch.mpiexec(2), *launch.program(have_starter_memory, size)],
        launch.ROADS[road] | {"ACP_STARTER_SIZE": str(size)},
    )


def work_with_little_address_space():
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    with acp.init():
        array = acp.zeros(MIB)
        places = acp.allgather(acp.query_ga(array))
        acp.put(places[(acp.rank() + 1) % acp.procs()], np.ones(MIB))
        acp.sync()
        assert array.all()


def test_a_limit_of_address_space_is_respected(passes):
    passes([*launch.mpiexec(2), *launch.program(work_with_little_address_space)])


def begin_with_a_limit(kind, hard):
    import resource

    number = getattr(resource, kind)
    resource.setrlimit(number, (int(hard), int(hard)))
    with pytest.raises(acp.Error) as refusal:
        acp.init()
    print("refused:", refusal.value)


@pytest.mark.parametrize(
    ("kind", "hard", "words"),
    [
        ("RLIMIT_FSIZE", MIB, "File too large"),
        ("RLIMIT_AS", 300 * MIB, "Cannot allocate memory"),
        ("RLIMIT_NOFILE", 6, "Too many open files"),
    ],
)
def test_limits_that_leave_too_little_are_named(start, kind, hard, words):
    job = start(launch.program(begin_with_a_limit, kind, hard), {"ACP_MPI": "0"})
    assert job.wait() == 0, job.output
    assert f"{words}; see the limits of this process (ulimit -a)" in job.output


def have_a_soft_limit_of_file_sizes():
    import resource

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, hard))
    with acp.init():
        array = acp.zeros(MIB)
        places = acp.allgather(acp.query_ga(array))
        acp.put(places[(acp.rank() + 1) % acp.procs()], np.ones(MIB))
        acp.sync()
        assert array.all()
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == (MIB, hard)


def test_a_soft_limit_of_file_sizes_is_not_for_memory(start):
    command = launch.program(have_a_soft_limit_of_file_sizes)
    job = start(command, {"ACP_MPI": "0"})
    assert job.wait() == 0, job.output


def share_the_node(size):
    """See the limits of all ranks: half of the node's memory in equal parts, or what was asked."""
    asked = int(size) or None
    with acp.init(heap_size=asked):
        acp.sync()
        limit = (asked or _engine.memory_total() // 2 // acp.procs()) + 10240 + 2**17
        assert [acp.heap_statistics(rank).limit for rank in acp.ranks()] == [limit] * 5
        acp.free(acp.malloc(MIB, (acp.rank() + 1) % 5))
        acp.sync()


@pytest.mark.parametrize("size", [0, 16 * MIB])
def test_ranks_of_all_groups_share_the_memory_of_their_node(groups, meeting, all_pass, size):
    sizes = {"ocean": ("mpi", 2), "solo": ("acp", 1), "pair": ("acp", 2)}
    place = meeting({name: ranks for name, (_, ranks) in sizes.items()})
    all_pass(groups(sizes, share_the_node, size, env=place))


def come_later(sharers):
    """Have the part of a node that so many ranks share, and say so."""
    with acp.init():
        limit = _engine.memory_total() // 2 // int(sharers) + 10240 + 2**17
        assert acp.heap_statistics().limit == limit
        acp.put(word(acp.rank()), os.getpid().to_bytes(8, "little"))
        await_leave()


def let_groups_come_and_go():
    with acp.init(starter_size=4096):
        acp.sync()
        own = acp.heap_statistics().limit
        if acp.rank() == 0:
            for size in (1, 2, 1):
                newcomers = acp.spawn_group(newcomer(come_later, 2 + size), size, mpi=False).ranks
                acp.wait_until(word(newcomers[-1]), "!=", 0, timeout=PATIENCE)
                give_leave(newcomers)
                launch.until(lambda ranks=newcomers: set(ranks) <= set(ended()))
        acp.sync()
        assert acp.heap_statistics().limit == own


def ended():
    """Return the ranks whose process has said its number, and is no more."""
    pids = acp.get(acp.query_starter_ga(0), np.zeros(16, np.int64))
    return [r for r, pid in enumerate(pids) if pid and not os.path.exists(f"/proc/{pid}")]


def test_who_comes_later_shares_the_node_with_those_that_live(passes):
    passes([*launch.mpiexec(2), *launch.program(let_groups_come_and_go)])


def lower_beneath_what_is_committed():
    with acp.init():
        array = acp.zeros(2 * MIB, np.uint8)
        _engine.lower_limit(MIB)
        limit = acp.heap_statistics().limit
        assert 2 * MIB < limit < 4 * MIB
        with pytest.raises(acp.HeapFullError):
            acp.empty(4 * MIB, np.uint8)
        with pytest.raises(acp.HeapFullError):
            acp.malloc(4 * MIB)
        assert not array.any()
        _engine.lower_limit(2**40)
        assert acp.heap_statistics().limit == limit


def test_a_limit_is_lowered_to_what_is_committed_at_least(passes):
    passes(launch.program(lower_beneath_what_is_committed))
