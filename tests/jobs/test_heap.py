"""Heaps at their limit, and heaps that a rank was killed in."""

import contextlib
import itertools
import os
import random
import signal
import time
from pathlib import Path

import launch
import pytest
from dying import sync_before_the_end_of

import acp_mpi as acp

MIB = 1 << 20


def fill_the_heap_of_rank_0():
    with acp.init(heap_size=32 * MIB):
        whole = acp.heap_statistics(0)
        acp.sync()
        for size in (100 * 1024, MIB + 16 * acp.rank(), 5000):
            blocks: list[int] = []
            with pytest.raises(acp.HeapFullError, match=rf"malloc: {size} bytes"):
                blocks.extend(acp.malloc(size, 0) for _ in itertools.count())
            acp.sync()
            full = acp.heap_statistics(0)
            assert full.committed <= full.limit < 33 * MIB
            assert full.used > 28 * MIB
            random.Random(acp.rank()).shuffle(blocks)
            acp.sync()
            for ga in blocks:
                acp.free(ga)
            acp.sync()
            empty = acp.heap_statistics(0)
            assert (empty.used, empty.blocks, empty.fragments) == (0, 0, 1)
            assert empty.largest == whole.largest
            assert empty.committed <= 6 * MIB
            acp.sync()
        if acp.rank() == 0:  # and arrays can have it
            acp.empty(28 * MIB, "u1")
        acp.sync()


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_drive_a_heap_to_its_limit_and_back_to_one_piece(passes, ranks, road):
    program = launch.program(fill_the_heap_of_rank_0)
    # A window that spans nodes keeps what it covers.
    passes([*launch.mpiexec(ranks), *program], launch.ROADS[road] | {"ACP_WINDOW_SIZE": "0"})


def write_into_a_freed_block():
    acp.init()
    freed = acp.malloc(8)
    acp.free(freed)
    acp.put(freed, b"x")
    with pytest.raises(acp.Error, match=r"damaged near.*; .*used after free"):
        acp.malloc(100)


def test_a_heap_that_was_written_to_after_free_says_what_to_look_for(passes):
    passes([*launch.mpiexec(1), *launch.program(write_into_a_freed_block)])


def be_killed_while_others_use_the_heap(folder):
    acp.init()
    last = acp.procs() - 1
    kept = acp.malloc(100, 0)
    acp.put(kept, b"k" * 100)
    sync_before_the_end_of(last)
    if acp.rank() == last:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
    until = time.monotonic() + (0.5 if acp.rank() < last else 60)
    while time.monotonic() < until:
        blocks = [acp.malloc(random.randrange(5000), 0) for _ in range(20)]
        for ga in blocks:
            acp.free(ga)
    with contextlib.suppress(acp.PeerLostError):
        acp.sync()
    data = bytearray(100)
    acp.get(kept, data)
    assert data == b"k" * 100
    acp.free(kept)
    acp.barrier(acp.refresh())
    # What the dead one had not freed is nobody's now; all else is whole.
    assert acp.heap_statistics(0).blocks <= 21
    Path(folder, f"{acp.rank()} survived").touch()


@pytest.mark.parametrize("road", launch.ROADS)
def test_a_rank_that_is_killed_leaves_a_whole_heap(two_survive, tmp_path, road):
    program = launch.program(be_killed_while_others_use_the_heap, tmp_path)
    two_survive(program, road)


def gather_in_a_full_heap():
    """Fill the own heap to the last block, before it has held a message, and call collectives."""
    acp.init(heap_size=MIB)
    size = MIB
    while size >= 16:
        try:
            acp.malloc(size)
        except acp.HeapFullError:
            size //= 2
    acp.sync()
    everybody = range(acp.procs())
    for count in (0, 1, 240, 300, 1000, 100_000):
        mine = bytes([acp.rank()]) * count
        assert acp.bcast(mine, 1) == bytes([1]) * count
        assert acp.allgather(mine) == [bytes([r]) * count for r in everybody]
        assert acp.gather(mine) in (None, [bytes([r]) * count for r in everybody])
        assert acp.scatter([mine] * acp.procs()) == bytes(count)
    acp.sync()
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_collectives_do_without_the_heap(passes, ranks, road):
    passes([*launch.mpiexec(ranks), *launch.program(gather_in_a_full_heap)], launch.ROADS[road])
