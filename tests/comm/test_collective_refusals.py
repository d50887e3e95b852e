"""Collectives that are called wrongly, or fail on one rank: all that depend on it hear of it."""

import pickle
from typing import Any

import numpy as np
import pytest
from support import refused

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def test_what_a_rank_can_know_is_refused_at_once() -> None:
    r, n = acp.rank(), acp.procs()
    x = np.arange(3.0)
    with refused(ValueError, "allreduce", "'mean'"):
        acp.allreduce(x, "mean")
    with refused(TypeError, "allreduce", "17"):
        acp.allreduce(x, 17)
    with pytest.raises(acp.RankError, match=f"bcast: there is no rank {n + 5}"):
        acp.bcast(1, n + 5)
    with refused(acp.RankError, "allreduce", r):
        acp.allreduce(1, ranks=[r, r])
    if n > 1:
        with refused(acp.RankError, "allreduce", r):
            acp.allreduce(1, ranks=[(r + 1) % n])
    with refused(ValueError, "allreduce", 24):
        acp.allreduce(x, out=np.zeros(2))
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with refused(ValueError, "allreduce"):
        acp.allreduce(x, out=frozen)
    with refused(ValueError, "scatter|alltoall", n):
        acp.alltoall([0] * (n + 1))
    with refused(ValueError, "allreduce"):
        acp.allreduce(x, ranks=[r], group=acp.group())
    if n > 1:
        with refused(ValueError, "scan"):
            acp.scan(1, between=([r], [(r + 1) % n]))
    acp.sync()


def test_calls_that_do_not_belong_together_are_told() -> None:
    n, r = acp.procs(), acp.rank()
    if n != 2:
        return
    with pytest.raises(acp.Error, match="size, type, operation or root"):
        acp.allreduce(np.zeros(3 + r))
    acp.sync()
    with pytest.raises(acp.Error, match="meanwhile"):
        (acp.allreduce if r else acp.scan)(np.zeros(3))
    acp.sync()
    assert acp.allreduce(1) == 2


@pytest.mark.parametrize("call", [acp.iallgather, acp.iallreduce, acp.ibcast, acp.igather])
def test_all_hear_of_an_object_that_cannot_be_pickled(call: Any) -> None:
    n, r = acp.procs(), acp.rank()
    guilty = 0 if call is acp.ibcast else n - 1
    x = (lambda: None) if r == guilty else None
    if r == guilty:
        with pytest.raises((pickle.PicklingError, AttributeError)):
            call(x)
    elif call is not acp.igather or r == 0:  # the others only give
        with pytest.raises(acp.Error, match=f"rank {guilty} has left"):
            call(x).wait()
    else:
        call(x).wait()
    acp.sync()
    assert acp.allreduce(1) == n


def test_a_timeout_ends_it_on_all_that_wait() -> None:
    n, r = acp.procs(), acp.rank()
    if n < 2:
        return
    if r == 0:
        with pytest.raises(TimeoutError):
            acp.allreduce(np.zeros(100_000), timeout=0.05)
        acp.sync()
    else:
        acp.sync()
        with pytest.raises(acp.Error, match="rank 0 has left"):
            acp.allreduce(np.zeros(100_000))
    acp.sync()
    assert acp.allreduce(1) == n
