"""What the tests of all containers share."""

import pytest

import acp_mpi as acp


@pytest.fixture
def made():
    """Make containers on one rank for all (`maker=-1`: the last one); destroyed after the test."""
    containers = []

    def make(kind, *arguments, maker=-1, **keywords):
        maker %= acp.procs()
        mine = kind(*arguments, **keywords) if acp.rank() == maker else None
        containers.append(acp.bcast(mine, root=maker))
        return containers[-1]

    yield make
    acp.sync()
    if acp.rank() == 0:
        for container in containers:
            container.destroy()
