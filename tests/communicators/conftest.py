"""The same body on mpi4py's communicator and on ours."""

import pytest

import acp_mpi as acp


def _ours(comm):
    from acp_mpi.spawn.mpi.bodies import IntraBody, ranks_in
    from acp_mpi.spawn.mpi.ranks import Circle, derived

    ranks = ranks_in(comm)
    return IntraBody(derived(0, "test", ranks), Circle(ranks, acp.rank())).shown()


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
def between(MPI, world):
    """between() is what two halves of the ranks have in common."""
    if world.size < 2:
        pytest.skip("needs two groups")
    half = world.rank % 2
    local = world.Split(half)
    made = local.Create_intercomm(0, world, 1 - half, 7)
    yield made
    made.Free()
    local.Free()
    assert made == MPI.COMM_NULL
