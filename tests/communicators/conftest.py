"""The same body on mpi4py's communicator and on ours."""

import itertools

import pytest

import acp_mpi as acp

_made = itertools.count()


def _ours(comm):
    from acp_mpi.spawn.standin.comm.bodies import IntraBody, ranks_in
    from acp_mpi.spawn.standin.p2p.transport import Circle, derived

    ranks = ranks_in(comm)
    context = derived(0, "test", ranks, next(_made))  # nobody else has it, as with real ones
    return IntraBody(context, Circle(ranks, acp.rank())).shown()


@pytest.fixture(name="MPI")
def module_of_ours(job):
    """The module of ours: who imports it starts acp_mpi, which collecting tests must not."""
    from acp_mpi.spawn import MPI

    return MPI


@pytest.fixture(params=["mpi4py", "ours"])
def world(request, MPI):
    """All ranks: by MPI, and by messages of acp_mpi."""
    comm = MPI.COMM_WORLD.Dup() if request.param == "mpi4py" else _ours(MPI.COMM_WORLD)
    yield comm
    if comm != MPI.COMM_NULL:
        comm.Free()


@pytest.fixture
def several(MPI):
    """All ranks, as if they were of several groups."""
    comm = _ours(MPI.COMM_WORLD)
    yield comm
    comm.Free()


def _halves(comm):
    if comm.size < 2:
        pytest.skip("needs two groups")
    half = comm.rank % 2
    local = comm.Split(half)
    made = local.Create_intercomm(0, comm, 1 - half, 7)
    yield made
    made.Free()
    local.Free()
    assert not made


@pytest.fixture
def between(world):
    """What two halves of the ranks have in common."""
    yield from _halves(world)


@pytest.fixture
def between_several(several):
    """The same, and only as if they were of several groups."""
    yield from _halves(several)
