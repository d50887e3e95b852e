"""What tests share that compare with MPI."""

from typing import Any

import pytest

import acp_mpi as acp


@pytest.fixture
def world() -> Any:
    """mpi4py's communicator over the same ranks, in the same order."""
    MPI = pytest.importorskip("mpi4py.MPI")
    comm = acp.group().comm
    if comm is None or comm.size != acp.procs():
        pytest.skip("the job is not one MPI group")
    world = comm.Split(0, acp.rank())
    assert isinstance(world, MPI.Intracomm)
    yield world
    world.Free()
