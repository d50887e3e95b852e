"""Copies: any caller, source, destination, kind of memory, size and alignment."""

import contextlib
import itertools
import os

import numpy as np
import pytest
from support import fetch, pattern, registered, right, shared, starter, store

import acp_mpi as acp

pytestmark = pytest.mark.mpi

SIZES = [0, 1, 3, 4, 8, 13, 4096, 65537, (1 << 20) + 13]
MIB = 1 << 20


class Memory:
    """The same number of zeroed bytes on each rank, of one kind; `places` are the addresses."""

    def __init__(self, kind, size):
        if kind == "starter":
            assert size <= 4097
            offset = 4096
            self.places = [starter(rank, offset) for rank in range(acp.procs())]
            self.bytes = acp.view(starter(acp.rank(), offset), (size,), np.uint8)
            self.bytes[:] = 0
        elif kind == "array":
            self.bytes, self.places = shared(size)
        else:
            _, self.bytes, self.places = registered(size)
        acp.sync()


@pytest.fixture(params=["starter", "array", "registered"])
def kind(request):
    return request.param


@pytest.fixture(params=["starter", "array", "registered"])
def other_kind(request):
    return request.param


# Who copies from whom to whom -----------------------------------------------------------------


def test_every_rank_copies_from_every_rank_to_every_rank(kind, other_kind):
    procs, size = acp.procs(), 100
    source = Memory(kind, size)
    source.bytes[:] = pattern(size, acp.rank())
    sink = Memory("array" if other_kind == "starter" else other_kind, procs * procs * size)
    acp.sync()
    for src, dst in itertools.product(range(procs), repeat=2):
        acp.copy(sink.places[dst] + (acp.rank() * procs + src) * size, source.places[src], size)
    acp.complete()
    acp.sync()
    for caller, src in itertools.product(range(procs), repeat=2):
        block = sink.bytes[(caller * procs + src) * size :][:size]
        assert np.array_equal(block, pattern(size, src)), (caller, src)


def test_long_third_party_copies_between_all_kinds(kind, other_kind):
    size = 4000 if "starter" in (kind, other_kind) else 2 * MIB + 77
    source = Memory(kind, size)
    # two windows of starter memory would be the same bytes
    sink = Memory("array" if other_kind == kind == "starter" else other_kind, size)
    source.bytes[:] = pattern(size, acp.rank())
    acp.sync()
    src, dst = right(), (right() + 1) % acp.procs()
    acp.complete(acp.copy(sink.places[dst], source.places[src], size))
    acp.sync()
    assert np.array_equal(sink.bytes, pattern(size, (acp.rank() - 1) % acp.procs()))


def test_long_third_party_copies_of_what_is_unregistered_meanwhile_end():
    size = 6 * MIB  # two owners share it
    _, source, sources = registered(size)
    source[:] = acp.rank()
    key, sink, sinks = registered(size)
    src, dst = right(), (right() + 1) % acp.procs()
    handles = []
    acp.sync()
    with contextlib.suppress(acp.AddressError):  # known here already
        for _ in range(4):
            handles.append(acp.copy(sinks[dst], sources[src], size))
    key.close()  # of the rank before the one before
    for handle in handles:
        with contextlib.suppress(acp.AddressError):
            acp.complete(handle)
    acp.sync()
    before = sink.copy()
    assert set(np.unique(before)) <= {0, (acp.rank() - 1) % acp.procs()}
    acp.sync()
    assert np.array_equal(sink, before)  # nothing of them is written any more


# Sizes and alignment --------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_any_size_at_any_alignment(size):
    source, sources = shared(size + 16)
    sink, sinks = shared(size + 16)
    source[:] = pattern(size + 16, acp.rank())
    for src_offset, dst_offset in ((0, 0), (1, 0), (3, 5), (8, 7)):
        sink[:] = 0xAA
        acp.sync()
        dst = (right() + 1) % acp.procs()
        acp.complete(acp.copy(sinks[dst] + dst_offset, sources[right()] + src_offset, size))
        acp.sync()
        from_rank = (acp.rank() - 1) % acp.procs()
        expected = np.full(size + 16, 0xAA, np.uint8)
        expected[dst_offset : dst_offset + size] = pattern(size + 16, from_rank)[src_offset:][:size]
        assert np.array_equal(sink, expected)
        acp.sync()


@pytest.mark.parametrize("size", SIZES)
def test_put_and_get_move_unregistered_buffers(size, kind):
    if size > 4096 and kind == "starter":
        pytest.skip("starter memory is smaller")
    memory = Memory(kind, size + 1)
    acp.put(memory.places[right()], pattern(size, acp.rank()))
    acp.sync()
    assert np.array_equal(memory.bytes[:-1], pattern(size, (acp.rank() - 1) % acp.procs()))
    for rank in range(acp.procs()):
        data = acp.get(memory.places[rank], np.empty(size, np.uint8))
        assert np.array_equal(data, pattern(size, (rank - 1) % acp.procs()))


@pytest.mark.parametrize("size", SIZES)
def test_iput_and_iget_move_unregistered_buffers_in_the_background(size):
    memory, places = shared(size + 8)
    outgoing = pattern(size, acp.rank())
    acp.complete(acp.iput(places[right()], outgoing))
    acp.sync()
    incoming = np.zeros(size, np.uint8)
    acp.complete(acp.iget(places[right()], incoming))
    assert np.array_equal(incoming, outgoing)
    acp.sync()
    assert not memory[size:].any()


def test_buffers_that_are_not_contiguous_are_packed_by_put_and_get():
    memory, places = shared(30, np.int32)
    table = np.arange(60, dtype=np.int32).reshape(6, 10) + acp.rank()
    acp.put(places[right()], table[:, ::2])
    acp.sync()
    back = np.zeros((10, 6), np.int32).T
    acp.get(places[right()], back[:, 3:8])
    assert np.array_equal(back[:, 3:8], table[:, ::2])
    assert not back[:, :3].any()
    acp.sync()
    assert memory[0] == (acp.rank() - 1) % acp.procs()


@pytest.mark.parametrize("size", [1, 300, 5000, 3 * MIB + 1])
@pytest.mark.parametrize("shift", [1, -1, 7, -4096])
@pytest.mark.parametrize("kind", ["array", "registered"])
def test_overlapping_copies_are_like_memmove(size, shift, kind):
    room = size + 2 * 4096
    memory = Memory(kind, room)
    memory.bytes[:] = pattern(room, acp.rank())
    acp.sync()
    acp.complete(
        acp.copy(memory.places[right()] + 4096 + shift, memory.places[right()] + 4096, size)
    )
    acp.sync()
    expected = pattern(room, acp.rank())
    expected[4096 + shift : 4096 + shift + size] = expected[4096 : 4096 + size].copy()
    assert np.array_equal(memory.bytes, expected)


@pytest.mark.parametrize("size", [300, 3 * MIB + 1])
@pytest.mark.parametrize("shift", [8, -8, 4096])
@pytest.mark.parametrize("kind", ["array", "registered"])
@pytest.mark.parametrize("name", ["put", "get", "iput", "iget"])
def test_transfers_between_overlapping_parts_of_own_memory_are_like_memmove(
    name, kind, shift, size
):
    room = size + 2 * 4096
    memory = Memory(kind, room)
    memory.bytes[:] = pattern(room, acp.rank())
    source, sink = 4096, 4096 + shift
    there, here = (sink, source) if name.endswith("put") else (source, sink)
    transfer = getattr(acp, name)
    transfer(memory.places[acp.rank()] + there, memory.bytes[here : here + size])
    acp.complete()
    expected = pattern(room, acp.rank())
    expected[sink : sink + size] = expected[source : source + size].copy()
    assert np.array_equal(memory.bytes, expected)


# Order ----------------------------------------------------------------------------------------


def test_a_ring_of_copies_brings_every_block_to_every_rank():
    procs, size = acp.procs(), 500
    blocks, places = shared((procs, size))
    blocks[acp.rank()] = pattern(size, acp.rank())
    acp.sync()
    for step in range(procs - 1):
        block = (acp.rank() - step) % procs
        acp.copy(places[right()] + block * size, places[acp.rank()] + block * size, size)
        acp.sync()
    for rank in range(procs):
        assert np.array_equal(blocks[rank], pattern(size, rank))


@pytest.mark.parametrize("size", [8, 2 * MIB])
def test_a_chain_of_dependent_copies_through_five_ranks_in_one_expression(size):
    _, places = shared((5, size))
    g = [places[(acp.rank() + hop) % acp.procs()] + hop * size for hop in range(5)]
    if acp.rank() == 0:
        store(g[0], pattern(size, 4711))
        acp.complete(
            acp.copy(
                g[4],
                g[3],
                size,
                order=acp.copy(
                    g[3],
                    g[2],
                    size,
                    order=acp.copy(g[2], g[1], size, order=acp.copy(g[1], g[0], size)),
                ),
            )
        )
        assert fetch(g[4], size) == pattern(size, 4711).tobytes()


@pytest.mark.parametrize("order", [acp.HANDLE_ALL, acp.HANDLE_CONT], ids=["ALL", "CONT"])
@pytest.mark.parametrize("size", [8, 300_000])
def test_a_token_goes_round_by_order_alone(order, size):
    laps = 5
    token, places = shared((laps + 1, size))
    if acp.rank() == 0:
        token[0] = pattern(size)
        path = [
            places[hop % acp.procs()] + hop // acp.procs() * size
            for hop in range(laps * acp.procs() + 1)
        ]
        for src, dst in itertools.pairwise(path):
            acp.copy(dst, src, size, order=order)
        acp.complete()
        assert np.array_equal(token[laps], pattern(size))


def test_a_long_chain_of_continued_operations_runs_in_order():
    _, places = shared(2, np.uint64)
    counter, mirror = places[right()], places[right()] + 8
    for step in range(300):
        acp.add8(acp.GA_NULL, counter, 1, order=acp.HANDLE_CONT)
        acp.cas8(acp.GA_NULL, mirror, step, step + 1, order=acp.HANDLE_CONT)
    acp.complete()
    assert fetch(counter, 16) == (300).to_bytes(8, "little") * 2


def test_a_flag_is_written_after_the_data():
    size = 200_000
    data, places = shared(size)
    flag, flags = shared(1, np.uint64)
    for step in range(1, 6):
        acp.put(places[right()], pattern(size, step), flag=(flags[right()], step))
        acp.wait_until(flags[acp.rank()], "==", step)
        assert np.array_equal(data, pattern(size, step))
        acp.sync()
    assert flag[0] == 5


def test_numpy_stores_before_a_call_are_seen_by_it():
    array, places = shared(1, np.int64)
    for value in range(100):
        array[0] = value
        acp.complete(acp.copy(starter(right(), 8 * acp.rank()), places[acp.rank()], 8))
        assert int.from_bytes(fetch(starter(right(), 8 * acp.rank()), 8), "little") == value


# Large ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_transfers_of_100_mib():
    size = 100 * MIB + 3
    array, places = shared(size if acp.rank() < 2 else 1)
    if acp.rank() == 0:
        array[:] = np.resize(pattern(MIB + 1), size)
        dst = places[min(1, acp.procs() - 1)]
        acp.complete(acp.copy(dst, places[0], size))
        assert fetch(dst + size - 1000, 1000) == array[-1000:].tobytes()


@pytest.mark.campaign
def test_transfers_of_more_than_2_gib():
    size = (2 << 30) + 4097
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if not acp.bcast(free > 4 * size):
        pytest.skip(f"needs {4 * size >> 30} GiB of free memory")
    array, places = shared(size if acp.rank() < 2 else 1)
    if acp.rank() == 0:
        array[:] = 1
        array[-5:] = pattern(5, 9)
        dst = places[min(1, acp.procs() - 1)]
        acp.complete(acp.copy(dst, places[0], size))
        assert fetch(dst + size - 6, 6) == b"\1" + pattern(5, 9).tobytes()
        assert fetch(dst + (1 << 31), 1) == b"\1"
