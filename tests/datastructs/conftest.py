"""What the tests of all containers share."""

import pytest

import acp_mpi as acp


@pytest.fixture
def made():
    """Make containers on one rank for all; afterwards they are destroyed and nothing is left."""
    before, containers = acp.allgather(acp.heap_statistics().blocks), []

    def make(kind, *arguments, maker=0, **keywords):
        maker %= acp.procs()
        mine = kind(*arguments, **keywords) if acp.rank() == maker else None
        containers.append(acp.bcast(mine, root=maker))
        return containers[-1]

    yield make
    acp.sync()
    if acp.rank() == acp.procs() - 1:
        for container in containers:
            container.destroy()
    acp.sync()
    left = acp.allgather(acp.heap_statistics().blocks)
    spare = 2 * len(containers) + 2  # heads stay for the next ones of their kind
    assert all(now <= was + spare for now, was in zip(left, before, strict=True))


@pytest.fixture
def numbers(made):
    return made(acp.Map, key="q", value="d", maker=-1)


@pytest.fixture
def objects(made):
    return made(acp.Map, maker=-1)
