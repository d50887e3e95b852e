"""Long folds are carried out as several that follow one another, with short buffers."""

import numpy as np
import pytest

import acp_mpi as acp
from acp_mpi.comm.collectives import choice

pytestmark = pytest.mark.mpi

WINDOW = 1000  # bytes


@pytest.fixture(autouse=True)
def short_windows(monkeypatch):
    acp.sync()  # all or none
    monkeypatch.setattr(choice, "WINDOW", WINDOW)
    monkeypatch.setattr(choice, "MEMBER_WINDOW", WINDOW // 4)
    yield
    acp.sync()


def mine(count, rank=None):
    return np.arange(count) * 3 + 7 * (acp.rank() if rank is None else rank)


@pytest.mark.parametrize("count", [250, 251, 1009, 4567])
@pytest.mark.parametrize("in_place", [False, True])
def test_folds_of_several_windows(count, in_place):
    expected = sum(mine(count, r) for r in range(acp.procs()))
    below = [mine(count, r) for r in range(acp.rank())]
    root = acp.procs() - 1
    for call, result in (
        (acp.allreduce, expected),
        (lambda x, out: acp.iallreduce(x, out=out).wait(), expected),
        (lambda x, out: acp.allreduce(x, np.add, out=out), expected),
        (lambda x, out: acp.allreduce(x, lambda a, b: a + b, out=out, commutative=True), expected),
        (lambda x, out: acp.reduce(x, "sum", root, out=out), expected),
        (acp.scan, sum(below, mine(count))),
        (acp.exscan, sum(below, np.zeros(count, int)) if below else None),
    ):
        x = mine(count)
        out = x if in_place else np.full(count, -1)
        before = out.copy()
        call(x, out=out)
        if result is expected and call is not acp.allreduce and acp.rank() != root:
            continue  # of reduce
        assert (out == (before if result is None else result)).all()
        assert in_place or (x == mine(count)).all()


def test_a_function_that_takes_the_whole_gets_it():
    seen = []

    def add(a, b):
        seen.append(a.shape)
        return a + b

    result = acp.allreduce(mine(1009), add)
    assert (result == sum(mine(1009, r) for r in range(acp.procs()))).all()
    assert set(seen) <= {(1009,)}


def test_windows_are_alike_and_as_long_as_it_takes():
    windows = choice.windows(2, 1009, 8, True)
    assert sum(windows) == 1009
    assert max(windows) * 8 <= WINDOW
    assert max(windows) - min(windows) <= 1
    assert max(choice.windows(16, 1009, 8, True)) * 8 <= 4 * WINDOW
    assert len(choice.windows(16, 1009, 8, True)) == 3
    assert choice.windows(2, 250, 8, True) == [250]
    assert choice.windows(2, 1009, 8, False) == choice.windows(1, 1009, 8, True) == [1009]
