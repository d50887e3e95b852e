"""Arrays that outlive finalize, ends in any order, and a second beginning."""

import contextlib
import functools
import gc

import launch
import numpy as np
import pytest
from support import case

import acp_mpi as acp

RANKS = 3


def still_usable(array, value):
    assert (array == value).all()
    array += 1
    assert (array == value + 1).all()


def outlive():
    acp.init()
    mine = acp.empty(300_000, np.int64)
    mine[:] = acp.rank()
    ga = acp.query_ga(mine)
    places = acp.allgather(ga)
    right = (acp.rank() + 1) % acp.procs()
    rank, theirs = acp.rank(), None
    with contextlib.suppress(acp.AddressError):  # where every rank is a node of its own
        theirs = acp.view(places[right], 300_000, np.int64)
    part = mine[5:]
    starter = acp.view(acp.query_starter_ga(rank), 8, np.uint8)
    acp.sync()
    acp.finalize()
    if theirs is None:  # nobody reads what this writes
        still_usable(mine, rank)
    assert starter.sum() == 0
    if theirs is not None:
        assert theirs[0] == right  # the mapping stays, whether its owner lives or not
    for call in (
        acp.sync,
        functools.partial(acp.query_ga, part),
        lambda: acp.get(ga, bytearray(8)),
    ):
        with pytest.raises(acp.NotInitializedError, match=r"acp\.init"):
            call()
    del mine, theirs, starter
    gc.collect()
    assert part.sum() > -1
    acp.init()
    with pytest.raises(acp.AddressError):
        acp.query_ga(part)
    again = acp.zeros(10)
    acp.get(acp.allgather(acp.query_ga(again))[right], bytearray(80))
    del part
    gc.collect()
    acp.sync()
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_arrays_outlive_finalize_and_addresses_do_not(passes, road):
    passes([*launch.mpiexec(RANKS), *launch.program(outlive)], launch.ROADS[road])


def finalize_mpi_first():
    from mpi4py import MPI

    acp.init()
    array = acp.empty(1000, np.uint8)
    array.fill(acp.rank())
    rank, places = acp.rank(), acp.allgather(acp.query_ga(array))
    acp.iput(places[(rank + 1) % acp.procs()], bytes([77]) * 1000)
    MPI.Finalize()
    assert not acp.is_initialized()
    assert (array == 77).all()  # outstanding operations were completed
    with pytest.raises(acp.NotInitializedError):
        acp.sync()
    acp.finalize()
    with pytest.raises(acp.Error, match="MPI"):
        acp.init()


@pytest.mark.parametrize("road", launch.ROADS)
def test_the_program_may_finalize_mpi_first(passes, road):
    passes([*launch.mpiexec(RANKS), *launch.program(finalize_mpi_first)], launch.ROADS[road])


def init_on_half():
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    half = world.Split(world.rank % 2)
    if world.rank % 2 == 0:
        with acp.init(half):
            assert (acp.rank(), acp.procs()) == (half.rank, half.size)
            assert acp.allgather(world.rank) == list(range(0, world.size, 2))
    world.Barrier()


def test_processes_outside_the_communicator_do_not_call(passes):
    passes([*launch.mpiexec(4), *launch.program(init_on_half)])


def init_on_no_group():
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    half = world.Split(world.rank % 2)
    two = half.Create_intercomm(0, world, 1 - world.rank % 2)
    for comm in (two, MPI.COMM_NULL, world.group, 5):
        with pytest.raises(TypeError, match=r"init: .*Intracomm"):
            acp.init(comm)
    with acp.init(two.Merge()):
        assert acp.procs() == world.size


def test_init_refuses_what_is_no_communicator_of_one_group(passes):
    passes([*launch.mpiexec(2), *launch.program(init_on_no_group)])


def two_users():
    """A language runtime and the program both use the library."""
    with acp.init():
        acp.init()
        acp.sync()
        acp.finalize()
        acp.sync()


@pytest.mark.smoke
def test_two_users_in_one_program_do_not_disturb_each_other(passes):
    passes([*launch.mpiexec(2), *launch.program(two_users)])


def errors_at_the_end():
    """An error that nobody completed is raised by finalize at the latest."""
    acp.init()
    array = acp.zeros(100)
    ga = acp.bcast(acp.query_ga(array) if acp.rank() == 0 else None)
    if acp.rank() == 0:
        del array
        gc.collect()
    acp.sync()
    try:
        acp.copy(acp.query_starter_ga(acp.rank()), ga, 8)
    except acp.AddressError:
        acp.finalize()
        return
    with pytest.raises(acp.AddressError):
        acp.finalize()
    assert not acp.is_initialized()


@pytest.mark.parametrize("road", launch.ROADS)
def test_an_error_that_nobody_completed_is_raised_by_finalize(passes, road):
    passes([*launch.mpiexec(2), *launch.program(errors_at_the_end)], launch.ROADS[road])


class Last:
    """A number whose conversion, which is Python code, ends the library."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        acp.finalize()
        return self.value

    __float__ = __index__

    def __iter__(self):
        acp.finalize()
        return iter(self.value)


# What takes a number and uses the engine after that.
USES = {
    "copy to": lambda ga: acp.copy(Last(ga), ga, 8),
    "copy from": lambda ga: acp.copy(ga, Last(ga), 8),
    "copy of a size": lambda ga: acp.copy(ga, ga, Last(8)),
    "copy in order": lambda ga: acp.copy(ga, ga, 8, order=Last(acp.HANDLE_CONT)),
    "copy_many": lambda ga: acp.copy_many([ga], [Last(ga)], 8),
    "atomic": lambda ga: acp.add8(acp.GA_NULL, ga, Last(1)),
    "fetch": lambda ga: acp.fetch_cas8(ga, 0, Last(1)),
    "put": lambda ga: acp.put(Last(ga), bytes(8)),
    "iget": lambda ga: acp.iget(Last(ga), bytearray(8)),
    "malloc": lambda ga: acp.malloc(Last(8)),
    "empty": lambda ga: acp.empty(Last(8), np.uint8),
    "query_address": lambda ga: acp.query_address(Last(ga)),
    "query_starter_ga": lambda ga: acp.query_starter_ga(Last(0)),
    "put with a flag": lambda ga: acp.put(ga, bytes(8), flag=Last((ga, 1))),
    "register_memory": lambda ga: acp.register_memory(bytearray(8), Last(0)),
    "barrier": lambda ga: acp.barrier(Last([0])),
    "barrier with a timeout": lambda ga: acp.barrier([0], timeout=Last(1.0)),
    "complete with a timeout": lambda ga: acp.complete(timeout=Last(1.0)),
    "wait_until": lambda ga: acp.wait_until(ga, "==", Last(0)),
    "wait_until of a size": lambda ga: acp.wait_until(ga, "==", 0, size=Last(8)),
    "wait_until with a timeout": lambda ga: acp.wait_until(ga, "==", 1, timeout=Last(1.0)),
    "probe with a timeout": lambda ga: acp.probe(timeout=Last(1.0)),
    "test": lambda ga: acp.test(Last(2)),
    "send": lambda ga: acp.send(b"x", Last(0)),
    "receive": lambda ga: acp.recv(source=0, tag=Last(1)),
}


def ended_by_a_number():
    for name, use in USES.items():
        acp.init()
        with case(name), pytest.raises(acp.NotInitializedError, match=r"acp\.init"):
            use(acp.query_starter_ga(0))


def test_a_call_whose_numbers_end_the_library_says_that_it_has_ended(passes):
    passes([*launch.mpiexec(1), *launch.program(ended_by_a_number)])
