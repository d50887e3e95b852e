"""A rank dies in the middle of a long message, or a collective, of device memory."""

import os
import signal
from itertools import count

import far
import launch
import numpy as np
import pytest

import acp_mpi as acp
from acp_mpi.comm import device_parts, payload
from acp_mpi.comm.collectives import choice, units

RANKS = 3
ROADS = {road: launch.ROADS[road] for road in ("any", "nodes")}
PART = 4096
SIZE = 200 * PART


def begin():
    """Return an array; the messages of this rank have short parts."""
    acp.init()
    far.begin()
    device_parts._PART, payload._LONG = PART, PART
    return acp.zeros(SIZE, np.uint8, device=(far.NUMBER, 0))


def die_at(where, name, number):
    """Have this process die in the call of that number."""
    call, calls = getattr(where, name), count(1)

    def deadly(*given):
        if next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*given)

    setattr(where, name, deadly)


def go_on(array):
    """Send on among the living."""
    while True:
        try:
            acp.sync()
            break
        except acp.PeerLostError:
            acp.refresh()
    other = 2 if acp.rank() == 0 else 0
    array.set(acp.rank() + 1)
    assert (acp.sendrecv(array, other, 3, source=other) == other + 1).all()
    acp.send(array, other, 4)
    assert acp.recv(array, other, 4) is array
    assert (array.get() == other + 1).all()
    acp.barrier([0, 2])
    array.close()


def isend(array, dest):
    acp.isend(array, dest).wait()


def use(array, send):
    while True:
        send(array, 1) if send else acp.recv(array, 1)


def a_rank_dies(deadly, how):
    """Rank 1 dies in the middle of a message, as its receiver or as its sender."""
    array, send = begin(), isend if how == "isend" else acp.send
    acp.sync()
    if acp.rank() == 1:
        sends = deadly == "device_start"
        die_at(device_parts._engine if sends else device_parts._Device, deadly, 5)
        if sends:
            send(array, 0)
        acp.recv(array, 0)
    else:
        with pytest.raises(acp.PeerLostError):
            use(array, send if acp.rank() == 0 and deadly == "taken" else None)
    go_on(array)


def meet(array, call):
    while True:
        if call == "bcast":
            acp.bcast(array, 0, out=array)
        elif call in ("alltoall", "ialltoall"):
            pieces = array[: SIZE // RANKS * RANKS]
            request = getattr(acp, call)(pieces, out=np.zeros(pieces.nbytes, "u1"))
            if call == "ialltoall":
                request.wait()
        else:
            acp.allreduce(array, out=array)


def a_member_dies(call):
    """Rank 1 dies in the middle of a collective."""
    array = begin()
    choice.WINDOW, choice.MEMBER_WINDOW = PART, PART // 4
    choice.BCAST_TREE = choice.BCAST_CHAIN = choice.CHAIN_PIECE = PART
    acp.sync()
    if acp.rank() == 1:
        die_at(units._engine, "device_start", 5)
    with pytest.raises(acp.PeerLostError):
        meet(array, call)
    go_on(array)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("call", ["allreduce", "bcast", "alltoall", "ialltoall"])
def test_a_rank_dies_in_the_middle_of_a_collective(without_mpi, call, road):
    jobs = without_mpi(RANKS, launch.program(a_member_dies, call), ROADS[road])
    assert [job.wait() for job in jobs] == [0, -signal.SIGKILL, 0], "\n".join(
        job.output for job in jobs
    )


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("deadly", ["device_start", "taken"])
@pytest.mark.parametrize("how", ["send", "isend"])
def test_a_rank_dies_in_the_middle_of_a_message(without_mpi, how, deadly, road):
    """As its sender, or as its receiver."""
    jobs = without_mpi(RANKS, launch.program(a_rank_dies, deadly, how), ROADS[road])
    assert [job.wait() for job in jobs] == [0, -signal.SIGKILL, 0], "\n".join(
        job.output for job in jobs
    )
