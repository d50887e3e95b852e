"""Start and end, ranks and groups, meeting, small objects: paper 003, table 1, and what is ours."""

import itertools
import os
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import launch
import numpy as np
import pytest
from support import ROAD, fetch, pattern, refused, right, shared, stale_address, starter, store

import acp_mpi as acp
from acp_mpi.engine import _engine
from acp_mpi.job.mpi_group import MpiGroup
from acp_mpi.rma import exchange

pytestmark = pytest.mark.mpi


def even_ranks():
    return [rank for rank in acp.ranks() if rank % 2 == 0]


# Start and end --------------------------------------------------------------------------------


def test_init_is_counted_and_only_the_last_finalize_ends_it():
    acp.init()
    with acp.init():
        acp.finalize()
        assert acp.is_initialized()
    assert acp.is_initialized()
    acp.sync()


@pytest.mark.parametrize("arguments", [{"starter_size": 4097}, {"heap_size": 12345678}])
def test_other_arguments_the_second_time_are_an_error(arguments):
    with refused(acp.Error, "init", *arguments.values()):
        acp.init(**arguments)
    assert acp.is_initialized()


def test_leaving_a_with_block_by_an_exception_shows_that_exception():
    with pytest.raises(ZeroDivisionError), acp.init():
        1 / 0  # noqa: B018
    acp.finalize()  # the block leaves that to the program: others may never come
    assert acp.is_initialized()


def test_all_of_a_group_learn_what_its_first_process_says():
    """However long it is: short ones travel with their size, and so do errors."""
    group = MpiGroup(None)
    for size in (0, *range(970, 1030), 5000, 100_000):
        said = bytes(pattern(size, size))
        assert group.from_first(lambda said=said: said) == said
        with pytest.raises(ValueError, match=f"^e{{{size}}}$"):
            group.from_first(lambda size=size: fail_with("e" * size))
    group.free()


def test_who_has_come_sleeps_until_the_others_have():
    """Else it takes the processor that they need to come."""
    _, *others = acp.allgather((os.getpid(), threading.get_native_id()))
    try:
        if acp.rank() == 0:
            before = [times_asleep(*thread) for thread in others]
            launch.until(
                lambda: all(
                    times_asleep(*thread) > count + 50
                    for thread, count in zip(others, before, strict=True)
                )
            )
    finally:
        MpiGroup(None).free()
        acp.sync()


def times_asleep(process, thread):
    """Return how often a thread has given its processor away of itself."""
    status = Path(f"/proc/{process}/task/{thread}/status").read_text()
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[1])


def fail_with(text):
    raise ValueError(text)


# Ranks and groups -----------------------------------------------------------------------------


def test_ranks_are_those_of_the_communicator_before_any_reset():
    comm = acp.group().comm
    assert (acp.rank(), acp.procs(), acp.size()) == (comm.rank, comm.size, comm.size)
    assert list(acp.ranks()) == list(range(comm.size))


def test_the_communicator_of_the_group_is_a_duplicate():
    from mpi4py import MPI

    assert MPI.Comm.Compare(acp.group().comm, MPI.COMM_WORLD) == MPI.CONGRUENT


def test_one_mpirun_is_one_group_of_all_ranks():
    (group,) = acp.groups()
    assert group.name == acp.group().name == acp.group(group.name).name
    assert group.size == acp.procs()
    assert list(group.ranks) == list(range(acp.procs()))
    assert group.has_mpi


def test_an_unknown_group_is_an_error_that_names_it():
    with pytest.raises(acp.Error, match="'nobody'"):
        acp.group("nobody")


def test_refresh_without_losses_changes_nothing():
    acp.refresh()
    assert list(acp.ranks()) == list(range(acp.procs()))
    acp.sync()


# Reset ----------------------------------------------------------------------------------------


def test_reset_permutes_the_ranks_and_keeps_the_slots():
    old, name = acp.rank(), acp.group().name
    before = list(acp.group().ranks)
    acp.reset(right())
    assert acp.rank() == (old + 1) % acp.procs()
    assert list(acp.group(name).ranks) == [(r + 1) % acp.procs() for r in before]
    store(starter(right()), old.to_bytes(8, "little"))
    acp.sync()
    assert fetch(starter(acp.rank()), 1)[0] == (old - 1) % acp.procs()
    acp.sync()
    acp.reset(old)
    assert acp.rank() == old


def test_reset_zeroes_starter_memory_and_ends_all_addresses():
    array, places = shared(100)
    key = acp.register_memory(np.ones(10))
    everything = [*places, *acp.allgather(acp.query_ga(key))]
    store(starter(right(), 16), b"rubbish")
    acp.reset(acp.rank())
    assert fetch(starter(acp.rank()), 10240) == bytes(10240)
    for ga in everything:
        with pytest.raises(acp.AddressError):
            fetch(ga, 1)
    assert array.sum() == 0  # the memory itself stays as long as the array
    key.close()


def test_an_array_that_outlives_a_reset_can_be_registered():
    array, _ = shared(100, np.uint64)
    acp.reset(acp.rank())
    keys = [acp.register_memory(array, color=1), acp.register_memory(array[40:])]
    whole, part = zip(*acp.allgather([acp.query_ga(key) for key in keys]), strict=True)
    store(whole[right()] + 80, bytes([7] * 8))
    assert acp.fetch_add8(part[right()], 5) == 0
    acp.sync()
    assert array[10] == 0x0707070707070707
    assert array[40] == 5
    for key in keys:
        key.close()
    acp.sync()
    with pytest.raises(acp.AddressError):
        fetch(whole[right()], 1)


def test_reset_to_what_is_no_permutation_is_refused_on_all_ranks():
    wanted = acp.procs() if acp.procs() == 1 else 0
    with refused(acp.RankError, "reset"):
        acp.reset(wanted)
    assert acp.group().comm.rank == acp.rank()
    acp.sync()


@pytest.mark.parametrize("wrong", [0.0, "0", None], ids=repr)
def test_reset_to_no_rank_on_one_is_refused_on_all(wrong):
    with refused(acp.RankError, "reset", repr(wrong)):
        acp.reset(wrong if acp.rank() == 0 else acp.rank())
    acp.sync()


# Meeting --------------------------------------------------------------------------------------


def test_nobody_leaves_sync_before_all_have_come():
    flags, places = shared(acp.procs())
    for step in range(1, 20):
        for ga in places:
            store(ga + acp.rank(), bytes([step]))
        acp.sync()
        assert (flags == step).all()
        acp.sync()


def test_sync_completes_this_process_s_operations():
    array, places = shared(100_000)
    data = pattern(array.nbytes, acp.rank())
    acp.iput(places[right()], data)
    acp.sync()
    assert np.array_equal(array, pattern(array.nbytes, (acp.rank() - 1) % acp.procs()))


def test_barrier_waits_for_the_listed_ranks_only():
    flags, places = shared(acp.procs())
    mine = even_ranks() if acp.rank() % 2 == 0 else [acp.rank()]
    for step in range(1, 20):
        for rank in mine:
            store(places[rank] + acp.rank(), bytes([step]))
        acp.barrier(mine)
        assert (flags[mine] == step).all()
        acp.barrier(reversed(mine))


def test_overlapping_barriers_do_not_disturb_each_other():
    everyone = range(acp.procs())
    for _ in range(10):
        for pair in itertools.combinations(everyone, 2):
            if acp.rank() in pair:
                acp.barrier(pair)
    acp.barrier(everyone)


def test_barrier_without_a_list_is_of_all():
    flags, places = shared(acp.procs())
    ones = np.ones(1, np.uint8)
    for place in places:
        acp.iput(place + acp.rank(), ones)
    acp.barrier()
    assert flags.all()
    acp.barrier(timeout=60)


def test_barrier_with_a_rank_that_does_not_exist_is_refused():
    with pytest.raises(acp.RankError, match=rf"barrier: .*{acp.procs()}"):
        acp.barrier([acp.rank(), acp.procs()])


@pytest.mark.parametrize("ranks", [0, 1.5], ids=repr)
def test_barrier_of_what_is_no_list_is_refused(ranks):
    with refused(TypeError, "barrier", repr(ranks)):
        acp.barrier(ranks)


def test_barrier_without_the_caller_is_refused():
    others = [rank for rank in range(acp.procs()) if rank != acp.rank()]
    with pytest.raises(acp.RankError, match="barrier: "):
        acp.barrier(others)


def test_sync_with_a_timeout_gives_up_and_can_be_repeated():
    go, places = shared(1, np.uint64)
    if acp.rank() == 0:
        if acp.procs() > 1:
            with pytest.raises(TimeoutError, match="sync"):
                acp.sync(timeout=0.05)
        for ga in places:
            acp.fetch_add8(ga, 1)
    acp.wait_until(acp.query_ga(go), "==", 1)
    acp.sync(timeout=600)
    acp.sync()


# Small objects --------------------------------------------------------------------------------

OBJECTS = [None, 7, "täxt", (1, [2.5, {"three": b"4"}]), list(range(50_000))]


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_bcast_gives_the_root_s_object_to_all(value):
    for root in range(acp.procs()):
        assert acp.bcast(value if acp.rank() == root else "not this", root=root) == value


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_allgather_orders_objects_by_rank(value):
    assert acp.allgather((acp.rank(), value)) == [(rank, value) for rank in range(acp.procs())]


def test_bcast_from_a_root_that_does_not_exist_is_refused():
    with pytest.raises(acp.RankError, match=r"bcast: .*-1"):
        acp.bcast(1, root=-1)


def test_lookup_waits_until_somebody_publishes():
    if acp.rank() == acp.procs() - 1:
        acp.publish("ga of the last", (acp.query_starter_ga(acp.rank()), "and more"))
    ga, text = acp.lookup("ga of the last")
    assert (acp.query_rank(ga), text) == (acp.procs() - 1, "and more")


def test_names_of_different_ranks_do_not_disturb_each_other():
    for index in range(5):
        acp.publish(f"rank {acp.rank()} index {index}", [acp.rank(), index] * 100)
    for rank, index in itertools.product(range(acp.procs()), range(5)):
        assert acp.lookup(f"rank {rank} index {index}") == [rank, index] * 100


def test_what_was_published_before_ctrl_c_can_be_looked_up(monkeypatch):
    def late(*arguments):
        name_publish(*arguments)
        raise KeyboardInterrupt

    name_publish, name = _engine.name_publish, f"interrupted at {acp.rank()}"
    with monkeypatch.context() as patch:
        patch.setattr(_engine, "name_publish", late)
        with pytest.raises(KeyboardInterrupt):
            acp.publish(name, [acp.rank()] * 1000)
    assert acp.lookup(name) == [acp.rank()] * 1000


def test_what_cannot_be_pickled_is_not_published():
    with refused(TypeError, "publish", "lambda", "pickle"):
        acp.publish("a function", lambda: 0)


def test_lookup_of_a_name_that_nobody_publishes_times_out():
    with refused(TimeoutError, "lookup", "'never published'", "0.05 s"):
        acp.lookup("never published", timeout=0.05)


# The collective helpers of the tests themselves -----------------------------------------------


def test_all_tries_of_a_lookup_share_its_timeout(monkeypatch):
    asked, clock = [], itertools.count()

    class Board:  # each time another object, which is gone when it is read
        demand, sha256 = _engine.demand, _engine.sha256

        @staticmethod
        def name_lookup(low, high, timeout):
            asked.append(timeout)
            if not timeout:
                raise TimeoutError
            return len(asked), 0

        @staticmethod
        def get(ga, data):
            raise acp.AddressError

    monkeypatch.setattr(exchange, "_engine", Board)
    monkeypatch.setattr(exchange, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    with pytest.raises(TimeoutError):
        acp.lookup("name", timeout=3)
    assert asked == [3, 2.0, 2.0, 1.0, 1.0, 0.0]


def test_a_stale_address_is_stale_for_all():
    for rank in range(acp.procs()):
        with pytest.raises(acp.AddressError):
            fetch(stale_address(rank), 8)


def test_each_rank_can_have_a_node_of_its_own():
    if ROAD == "nodes" and acp.procs() > 1:
        with pytest.raises(acp.AddressError, match="another node"):
            acp.view(starter(right()), (8,), np.uint8)
