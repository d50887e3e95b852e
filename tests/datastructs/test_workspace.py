"""The workspace: bytes of one numbering, spread over the ranks."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import SLOW_ROAD, fetch, pattern, refused, shared, store, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def test_bytes_are_zero_at_first_and_spread_from_the_start_rank_on(made):
    start = acp.procs() - 1
    workspace = made(acp.Workspace, 1000, start_rank=start, default_size=64)
    assert workspace.read(bytearray(1000), 0) == bytes(1000)
    assert len(workspace) == workspace.size() == 1000
    now = workspace.statistics()
    assert now.ranks == tuple((start + i) % acp.procs() for i in range(acp.procs()))
    assert sum(now.bytes) == now.size == 1000
    assert now.default_size == workspace.default_size == 64
    assert acp.query_rank(workspace.ga) == 0


@pytest.mark.parametrize("size", [0, 1, 64, 1000, 5 << 20])
def test_even_shares_are_multiples_of_64(made, size):
    workspace = made(acp.Workspace, size)
    assert workspace.default_size % 64 == 0
    shares = workspace.statistics().bytes
    assert sum(shares) == size
    assert all(share == workspace.default_size for share in shares[:-1])
    assert len(workspace.read(bytearray(size), 0)) == size
    assert workspace.write(b"", size) is None


@pytest.mark.parametrize("size", [100, 3 << 20])
def test_what_one_rank_writes_all_others_read(made, size):
    workspace = made(
        acp.Workspace, acp.procs() * size + 17, default_size=1000 if size < 1000 else 100_000
    )
    workspace.write(pattern(size, acp.rank()), acp.rank() * size + 17)
    acp.sync()
    for rank in range(acp.procs()):
        got = workspace.read(np.empty(size, np.uint8), rank * size + 17)
        assert (got == pattern(size, rank)).all()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "accumulate", "read", "write_ga", "read_ga"]),
        st.integers(0, 600),
        st.integers(0, 600),
        st.integers(0, 3),
    ),
    max_size=20,
)


@settings(max_examples=tries(20))
@given(steps=STEPS, block=st.sampled_from([1, 7, 64, 250, 1000]), start=st.integers(0, 3))
def test_any_steps_from_changing_ranks_are_those_of_a_bytearray(steps, block, start):
    mine = (
        acp.Workspace(600, start_rank=start % acp.procs(), default_size=block)
        if acp.rank() == 0
        else None
    )
    workspace, model = acp.bcast(mine), np.zeros(600, np.uint8)
    own, places = shared(600)
    for number, (step, offset, size, who) in enumerate(steps):
        data = pattern(size, number)
        if acp.rank() == who % acp.procs():
            try:
                if step == "read":
                    assert (
                        workspace.read(np.empty(size, np.uint8), offset) == model[offset:][:size]
                    ).all()
                elif step.endswith("_ga"):
                    store(places[0], data)
                    getattr(workspace, step)(places[0], offset, size)
                else:
                    getattr(workspace, step)(data, offset)
                assert offset + size <= 600
                if step == "read_ga":
                    assert fetch(places[0], size) == model[offset:][:size].tobytes()
            except IndexError:
                assert offset + size > 600
        if offset + size <= 600 and step.startswith("write"):
            model[offset:][:size] = data
        if offset + size <= 600 and step == "accumulate":
            model[offset:][:size] += data
        acp.sync()
        assert workspace.read(bytearray(600), 0) == model.tobytes()
        acp.sync()
    if acp.rank() == acp.procs() - 1:
        workspace.destroy()
    acp.sync()
    del own


@pytest.mark.parametrize("letter", "bBhHiIlLqQfd")
def test_sums_of_all_ranks_are_complete(made, letter):
    dtype, times = np.dtype(letter), 3 if SLOW_ROAD else 20
    workspace = made(acp.Workspace, 1000 * dtype.itemsize, default_size=256)
    numbers = np.arange(1000) % 50 + acp.rank()
    for _ in range(times):
        workspace.accumulate(numbers.astype(dtype), 0)
    acp.sync()
    total = sum((np.arange(1000) % 50 + rank) * times for rank in range(acp.procs()))
    got = workspace.read(np.empty(1000, dtype), 0)
    assert (got == total.astype(dtype)).all()


def test_long_sums_of_all_ranks_are_complete(made):
    workspace = made(acp.Workspace, 8 << 18)
    workspace.accumulate(np.full(1 << 18, 0.5 + acp.rank()), 0)
    acp.sync()
    got = workspace.read(np.empty(1 << 18), 0)
    assert (got == sum(0.5 + rank for rank in range(acp.procs()))).all()


def test_arrays_that_are_not_contiguous_go_in_and_out(made):
    workspace = made(acp.Workspace, 80)
    if acp.rank() == 0:
        numbers = np.arange(20.0)
        workspace.write(numbers[::2], 0)
        workspace.accumulate(numbers[::2], 0)
        got = np.zeros((10, 2))
        workspace.read(got[:, 1], 0)
        assert (got[:, 1] == 2 * numbers[::2]).all()
        assert not got[:, 0].any()


def test_a_read_sees_all_or_nothing_of_a_small_write(made):
    workspace = made(acp.Workspace, 256, start_rank=acp.procs() - 1)
    acp.sync()
    block = workspace.default_size
    for number in range(30 if SLOW_ROAD else 1000):
        if acp.rank() == 0:
            workspace.write(bytes([number % 256]) * block, 0)
        else:
            assert len(set(workspace.read(bytearray(block), 0))) == 1


def test_spans_go_from_rank_to_rank_without_the_caller(made):
    size = 300_000
    workspace = made(acp.Workspace, size + 100, default_size=70_000)
    array, places = shared(size)
    array[:] = pattern(size, acp.rank())
    acp.sync()
    last = acp.procs() - 1
    if acp.rank() == 0:
        workspace.write_ga(places[last], 100, size)
        assert (workspace.read(np.empty(size, np.uint8), 100) == pattern(size, last)).all()
        workspace.read_ga(places[0], 50, size)
        assert not array[:50].any()
        assert (array[50:] == pattern(size, last)[:-50]).all()


# Fault 12: reads overwrite memory before the buffer, errors end the process ---------------------


def test_a_read_touches_nothing_around_its_buffer(made):
    workspace = made(acp.Workspace, 1000, start_rank=acp.procs() - 1, default_size=100)
    starter = fetch(acp.query_starter_ga(acp.rank()), 1000)
    if acp.rank() == 0:
        workspace.write(pattern(1000), 0)
    acp.sync()
    for size in (0, 1, 7, 99, 100, 101, 500):
        around = np.full(700, 77, np.uint8)
        workspace.read(around[100 : 100 + size], 250)
        assert (around[100 : 100 + size] == pattern(1000)[250 : 250 + size]).all()
        assert (around[:100] == 77).all()
        assert (around[100 + size :] == 77).all()
    assert fetch(acp.query_starter_ga(acp.rank()), 1000) == starter


def test_what_is_out_of_range_is_refused_and_nothing_is_moved(made):
    workspace = made(acp.Workspace, 1000, default_size=96)
    before = pattern(1000)
    if acp.rank() == 0:
        workspace.write(before, 0)
    acp.sync()
    buffer, (_, places) = bytearray(b"x" * 100), shared(100)
    for offset in (901, 1000, 1001, -1, 1 << 40, 1 << 70):
        for name in ("read", "write", "accumulate"):
            with refused(IndexError, f"Workspace.{name}", 100, offset, 1000):
                getattr(workspace, name)(buffer, offset)
        for name in ("read_ga", "write_ga"):
            with refused(IndexError, f"Workspace.{name}", 100, offset, 1000):
                getattr(workspace, name)(places[0], offset, 100)
    for wrong in (1.5, "1", None):
        with pytest.raises(TypeError):
            workspace.read(buffer, wrong)
    with pytest.raises(ValueError, match="read-only"):
        workspace.read(bytes(10), 0)
    with pytest.raises(acp.AddressError):
        workspace.write_ga(0, 0, 10)
    assert buffer == b"x" * 100
    acp.sync()
    assert workspace.read(bytearray(1000), 0) == before.tobytes()


def test_what_cannot_be_added_is_refused(made):
    workspace, odd = made(acp.Workspace, 1000), made(acp.Workspace, 1000, default_size=100)
    for buffer in (
        *(np.zeros(3, dtype) for dtype in (complex, bool, ">i4", "V5", "S2", "M8[s]")),
        *(np.zeros(6, dtype)[::2] for dtype in (complex, ">i8", "V5", "M8[s]")),
        [1, 2],
        5,
        None,
    ):
        with refused(TypeError, "Workspace.accumulate", "cannot be added"):
            workspace.accumulate(buffer, 0)
    assert workspace.read(bytearray(1000), 0) == bytes(1000)
    with refused(acp.AlignmentError, "Workspace.accumulate", "offset 4"):
        workspace.accumulate(np.zeros(3), 4)
    with refused(acp.AlignmentError, "Workspace.accumulate", "default_size 100"):
        odd.accumulate(np.zeros(3), 8)


# Handles ------------------------------------------------------------------------------------


def test_it_travels_and_ends_everywhere():
    mine = pickle.loads(pickle.dumps(acp.Workspace(500, start_rank=acp.rank())))
    again = acp.Workspace.attach(mine.ga)
    assert again == mine
    again.write(b"there", 495)
    others = acp.allgather(mine)
    for other in others:
        assert other.read(bytearray(5), 495) == b"there"
        assert other.statistics().size == 500
    with pytest.raises(acp.AddressError, match=r"part of a Workspace"):
        acp.Workspace.attach(mine._parts[0][0])
    with pytest.raises(acp.AddressError, match=r"use Workspace\.attach"):
        acp.Counter.attach(mine.ga)
    acp.sync()
    with mine:
        pass
    mine.destroy()
    acp.sync()
    for other in others:
        for use in (
            lambda other=other: other.read(bytearray(10), 0),
            lambda other=other: other.read(bytearray(), 500),
            lambda other=other: other.write(b"0123", 0),
            lambda other=other: other.accumulate(b"0123", 0),
            lambda other=other: other.read_ga(acp.query_starter_ga(0), 0, 10),
            lambda other=other: other.write_ga(acp.query_starter_ga(0), 0, 10),
            other.statistics,
            other.size,
            other.__len__,
            lambda other=other: acp.Workspace.attach(other.ga),
        ):
            with pytest.raises(acp.AddressError, match="no such container"):
                use()
    with pytest.raises(acp.AddressError):
        again.destroy()


def test_nothing_is_left_in_the_heap():
    acp.Workspace(5000).destroy()  # heads are kept for the next one
    acp.sync()
    before = acp.heap_statistics().used
    acp.sync()
    for _ in range(5):
        with acp.Workspace(100_000, start_rank=acp.rank(), default_size=1000) as workspace:
            workspace.write(bytes(100_000), 0)
    acp.sync()
    assert acp.heap_statistics().used <= before + 5000 * acp.procs()


def test_a_workspace_that_does_not_fit_leaves_nothing():
    acp.sync()
    before = acp.heap_statistics().blocks
    acp.sync()
    if acp.rank() == 0:
        for _ in range(3):
            with pytest.raises(acp.HeapFullError):
                acp.Workspace(1 << 43)
    acp.sync()
    assert acp.heap_statistics().blocks <= before + 2
    with pytest.raises(ValueError, match="-1 bytes"):
        acp.Workspace(-1)
    with pytest.raises(ValueError, match="blocks of 0"):
        acp.Workspace(1, default_size=0)
    with pytest.raises(acp.RankError):
        acp.Workspace(1, start_rank=acp.procs())
    with pytest.raises(TypeError):
        acp.Workspace(1.5)
    acp.sync()
