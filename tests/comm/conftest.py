"""What tests share that compare with MPI, and those of channels and segmented buffers."""

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


@pytest.fixture
def open_ends() -> Any:
    """Open ends of rank 0, the source, and the last rank, or back; None on other ranks."""
    acp.sync()
    opened = []
    last = acp.procs() - 1

    def make(buffer, segments, back=False):
        source, to = (last, 0) if back else (0, last)
        if not last or acp.rank() not in (source, to):
            return None
        other = {"to": to} if acp.rank() == source else {"source": source}
        opened.append(acp.SegmentedBuffer(buffer, segments, **other))
        return opened[-1]

    yield make
    acp.sync()
    for end in opened:
        end.close()
    acp.sync()


@pytest.fixture
def pair() -> Any:
    """Open channels between rank 0 and the last rank, there and back; None on other ranks."""
    acp.sync()
    opened = []
    last = acp.procs() - 1

    def make(back=False, **arguments):
        sender, receiver = (last, 0) if back else (0, last)
        if not last or acp.rank() not in (sender, receiver):
            return None
        opened.append(acp.Channel(sender, receiver, **arguments))
        return opened[-1]

    yield make
    for channel in opened:
        channel.close()
    acp.sync()
