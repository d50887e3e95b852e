"""The heap: blocks on any rank, by the interface in `c_names.md`."""

import itertools

import hypothesis.strategies as st
import launch
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from support import fetch, pattern, refused, right, shared, starter, store

import acp_mpi as acp

pytestmark = pytest.mark.mpi

HEAD = 16  # of a block
SMALLEST = 32  # block, with its head
MEBIBYTE = 1 << 20


def test_a_block_on_any_rank_holds_bytes_until_it_is_freed():
    blocks = {rank: acp.malloc(1000, rank) for rank in range(acp.procs())}
    for rank, ga in blocks.items():
        assert acp.query_rank(ga) == rank
        assert ga % 16 == 0
        store(ga, pattern(1000, rank + 10 * acp.rank()))
    acp.sync()
    for rank, ga in blocks.items():
        assert fetch(ga, 1000) == pattern(1000, rank + 10 * acp.rank()).tobytes()
        acp.free(ga)


def test_the_calling_rank_is_the_default():
    ga = acp.malloc(10)
    assert acp.query_rank(ga) == acp.rank()
    acp.free(ga)


def test_a_block_is_used_and_freed_by_other_ranks():
    word = acp.malloc(8)
    store(word, np.zeros(1, np.int64))
    words = acp.allgather(word)
    for other in words:
        acp.fetch_add8(other, 1)
    acp.sync()
    assert int.from_bytes(fetch(words[right()], 8), "little") == acp.procs()
    acp.sync()
    acp.free(words[right()])
    acp.sync()
    with refused(acp.AddressError, "free", hex(word)):
        acp.free(word)


def test_blocks_of_no_bytes_have_addresses_of_their_own():
    blocks = [acp.malloc(0, right()) for _ in range(10)]
    assert len(set(blocks)) == 10
    for ga in blocks:
        acp.free(ga)


def test_what_is_no_block_is_refused_and_changes_nothing():
    ga, kept = acp.malloc(100, right()), acp.malloc(100, right())
    store(kept, pattern(100, 3))
    _, places = shared(64)
    before = acp.heap_statistics().blocks
    for wrong in (ga + 16, ga + 8, ga + 1, ga - 16, starter(right()), places[right()]):
        with pytest.raises(acp.AddressError):
            acp.free(wrong)
    with pytest.raises(acp.AddressError):
        acp.free(acp.GA_NULL)
    with pytest.raises(acp.RankError):
        acp.free((acp.procs() + 1) << 42 | 4096)
    with pytest.raises(acp.RankError):
        acp.malloc(1, acp.procs())
    with pytest.raises(TypeError):
        acp.malloc(1.5)
    with pytest.raises(ValueError, match="negative"):
        acp.malloc(-1)
    acp.sync()
    launch.until(lambda: acp.heap_statistics().blocks <= before)  # messages have given back theirs
    acp.free(ga)
    with refused(acp.AddressError, "free", hex(ga)):
        acp.free(ga)
    assert fetch(kept, 100) == pattern(100, 3).tobytes()
    acp.free(kept)


def test_a_container_is_not_freed_but_destroyed():
    vector = acp.Vector("q", size=3, rank=right())
    for _ in range(2):
        with refused(acp.AddressError, "free", hex(vector.ga), "container"):
            acp.free(vector.ga)
    assert vector.tolist() == [0, 0, 0]
    vector.destroy()
    with refused(acp.AddressError, "free"):
        acp.free(vector.ga)
    with acp.Vector("q", size=3, rank=right()) as other:
        assert other.tolist() == [0, 0, 0]


def test_more_than_the_heap_can_hold_is_refused():
    for size in (acp.heap_statistics().size, 1 << 41, 1 << 62):
        with refused(acp.HeapFullError, "malloc", size):
            acp.malloc(size)
        with refused(acp.HeapFullError, "malloc", size):
            acp.malloc(size, right())


def test_a_block_can_be_viewed_and_its_view_has_its_address():
    ga = acp.malloc(80)
    array = acp.view(ga, 10, np.int64)
    array[:] = range(10)
    assert acp.query_ga(array) == ga
    assert fetch(ga + 72, 8) == array[9].tobytes()
    del array
    acp.free(ga)


def test_addresses_beyond_what_was_ever_given_out_are_refused():
    ga = acp.malloc(1)
    large = np.empty(1 << 31, np.uint8)  # never touched, so it takes no memory
    for other in acp.allgather(ga):
        with pytest.raises(acp.AddressError):
            fetch(other + (1 << 30), 8)
        with pytest.raises(acp.AddressError):
            acp.get(other, large)
    acp.sync()
    acp.free(ga)


def test_statistics_count_what_is_given_out():
    acp.sync()
    before = acp.heap_statistics()
    acp.sync()
    blocks = [acp.malloc(1008 - HEAD, right()) for _ in range(5)]
    acp.sync()
    now = acp.heap_statistics()
    assert now.blocks == before.blocks + 5
    rests = now.used - before.used - 5 * 1008  # too small for blocks, they stay with these
    assert 0 <= rests < 5 * SMALLEST
    assert now.used + now.free == now.size
    assert now.largest < now.free
    assert now == acp.heap_statistics(acp.rank())
    acp.sync()
    for ga in blocks:
        acp.free(ga)
    acp.sync()
    assert acp.heap_statistics().used == before.used


def test_large_memory_goes_back_to_the_system():
    acp.sync()
    before = acp.heap_statistics().committed
    acp.sync()
    ga = acp.malloc(32 * MEBIBYTE, right())
    store(ga + 31 * MEBIBYTE, b"there")
    acp.sync()
    assert acp.heap_statistics().committed >= 32 * MEBIBYTE
    acp.sync()
    acp.free(ga)
    acp.sync()
    assert acp.heap_statistics().committed <= before + 6 * MEBIBYTE


STEPS = st.lists(
    st.tuples(st.integers(0, 100), st.sampled_from([0, 1, 15, 16, 17, 100, 5000, 70000])),
    max_size=30,
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_blocks_never_overlap_and_keep_their_bytes(steps):
    """All ranks work on one rank's heap at the same time, each with bytes of its own."""
    live: list[tuple[int, int, int]] = []
    for number, (choice, size) in enumerate(steps):
        if live and choice < 40:
            ga, length, seed = live.pop(choice % len(live))
            assert fetch(ga, length) == pattern(length, seed).tobytes()
            acp.free(ga)
        else:
            ga, seed = acp.malloc(size, choice % acp.procs()), number * 8 + acp.rank()
            store(ga, pattern(size, seed))
            live.append((ga, size, seed))
    spans = sorted(
        span for each in acp.allgather([(g, g + max(n, 1)) for g, n, _ in live]) for span in each
    )
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    for ga, length, seed in live:
        assert fetch(ga, length) == pattern(length, seed).tobytes()
        acp.free(ga)
    acp.sync()


def test_a_reset_empties_the_heap():
    ga = acp.malloc(5000, right())
    acp.reset(acp.rank())
    with pytest.raises(acp.AddressError):
        acp.free(ga)
    assert acp.heap_statistics().blocks == 0
