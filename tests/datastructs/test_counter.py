"""The counter."""

import pickle

import pytest
from support import SLOW_ROAD, refused

import acp_mpi as acp

pytestmark = pytest.mark.mpi


@pytest.fixture
def counter():
    mine = acp.Counter(rank=acp.procs() - 1) if acp.rank() == 0 else None
    everybody_s = acp.bcast(mine)
    yield everybody_s
    acp.sync()
    if acp.rank() == 0:
        everybody_s.destroy()


def test_steps_of_all_ranks_are_all_counted(counter):
    count = 100 if SLOW_ROAD else 5000
    mine = [counter.next() for _ in range(count)]
    assert mine == sorted(mine)
    numbers = [x for part in acp.allgather(mine) for x in part]
    assert sorted(numbers) == list(range(count * acp.procs()))
    assert counter.read() == count * acp.procs()


@pytest.mark.parametrize("step", [1, 7])
def test_numbers_are_shared_out(counter, step):
    parts = acp.allgather(list(counter.take(100, step)))
    assert sorted(x for part in parts for x in part) == list(range(100))


def test_steps_have_any_sign_and_reset_tells_what_was_there(counter):
    if acp.rank() == 0:
        assert counter.next(-5) == 0
        assert counter.next(2) == -5
        assert counter.reset(10) == -3
        assert counter.reset() == 10
        assert counter.read() == 0
        with pytest.raises(TypeError):
            counter.next(1.5)
        with refused(ValueError, "Counter.take", 0):
            counter.take(5, 0)
        for wrong in [("a",), (5, "a"), (2.5,), (None,)]:
            with refused(TypeError, "Counter.take"):
                counter.take(*wrong)


def test_it_travels_and_ends_everywhere(counter):
    mine = pickle.loads(pickle.dumps(acp.Counter()))
    assert acp.Counter.attach(mine.ga) == mine
    others = acp.allgather(mine)
    acp.sync()
    assert mine.statistics().rank == acp.rank()
    acp.sync()
    with mine:
        pass
    acp.sync()
    for other in others:
        for use in (other.next, other.read, other.reset, other.statistics):
            with pytest.raises(acp.AddressError, match="no such container"):
                use()


def test_a_reset_ends_all_containers():
    counter = acp.Counter(rank=acp.procs() - 1)
    vector = acp.Vector("q", size=5)
    acp.reset(acp.rank())
    for use in (counter.next, counter.reset, vector.tolist, lambda: acp.Counter.attach(counter.ga)):
        with pytest.raises(acp.AddressError):
            use()
    acp.sync()


def test_numbers_that_a_counter_does_not_reach_are_refused(counter):
    for n, step in ((2**63, 1), (5, 2**63), (2**70, 2**70)):
        with refused(OverflowError, "Counter.take", max(n, step)):
            counter.take(n, step)
    assert counter.read() == 0
