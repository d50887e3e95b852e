"""The twelve atomics against a model, alone and under contention."""

import ctypes
import ctypes.util
import itertools

import numpy as np
import pytest
from support import (
    CAN_LOAD,
    SLOW_ROAD,
    fetch,
    refused,
    registered,
    right,
    shared,
    starter,
    store,
    word,
)

import acp_mpi as acp

pytestmark = pytest.mark.mpi

MODEL = {
    "swap": lambda old, value: value,
    "add": lambda old, value: old + value,
    "xor": lambda old, value: old ^ value,
    "or": lambda old, value: old | value,
    "and": lambda old, value: old & value,
}
VALUES = [0, 1, -1, 2**31, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63), 2**64 - 1, 0x0123456789ABCDEF]


@pytest.fixture(params=[4, 8])
def size(request):
    return request.param


@pytest.fixture(params=["starter", "array", "registered"])
def words(request):
    """Addresses of 64 zeroed bytes on each rank."""
    if request.param == "starter":
        store(starter(acp.rank(), 512), bytes(64))
        places = [starter(rank, 512) for rank in range(acp.procs())]
    elif request.param == "array":
        _, places = shared(64)
    else:
        _, _, places = registered(64)
    acp.sync()
    return places


def modulo(value, size):
    return value % (1 << 8 * size)


def put_word(ga, value, size):
    store(ga, modulo(value, size).to_bytes(size, "little"))


def rotated(values, by):
    return values[by % len(values) :] + values[: by % len(values)]


# Against a model ------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", MODEL)
def test_fetching_operations_return_the_old_value_and_act_modulo(operation, size, words):
    call = getattr(acp, f"fetch_{operation}{size}")
    ga, state = words[right()] + 8, 0x5A5A5A5A5A5A5A5A
    put_word(ga, state, size)
    state = modulo(state, size)
    for value in rotated(VALUES, acp.rank()):
        assert call(ga, value) == state
        state = modulo(MODEL[operation](state, value), size)
        assert word(ga, size) == state


@pytest.mark.parametrize("operation", MODEL)
def test_queued_operations_write_the_old_value_to_any_rank(operation, size, words):
    call = getattr(acp, f"{operation}{size}")
    ga, old, state = words[right()] + 8, words[(right() + 1) % acp.procs()] + 24, 99
    put_word(ga, state, size)
    for value in rotated(VALUES, acp.rank()):
        acp.complete(call(old, ga, value))
        assert word(old, size) == state
        state = modulo(MODEL[operation](state, value), size)
        acp.complete(call(acp.GA_NULL, ga, 0 if operation != "and" else -1))
        state = modulo(MODEL[operation](state, 0 if operation != "and" else -1), size)
        assert word(ga, size) == state


def test_compare_and_swap_acts_only_if_the_word_is_as_expected(size, words):
    ga, old = words[right()] + 16, words[acp.rank()] + 40
    fetching, queued = getattr(acp, f"fetch_cas{size}"), getattr(acp, f"cas{size}")
    put_word(ga, -5, size)
    minus_five = modulo(-5, size)
    assert fetching(ga, 17, 1) == minus_five
    assert word(ga, size) == minus_five
    assert fetching(ga, -5, 42) == minus_five
    assert word(ga, size) == 42
    acp.complete(queued(old, ga, 42, -1))
    assert (word(old, size), word(ga, size)) == (42, modulo(-1, size))
    acp.complete(queued(acp.GA_NULL, ga, 0, 7))
    assert word(ga, size) == modulo(-1, size)


def test_four_byte_operations_leave_their_neighbours_alone(words):
    for place in (4, 8):
        ga = words[right()]
        store(ga, b"\xff" * 16)
        for operation, value in (
            ("add", 1),
            ("add", -1),
            ("xor", -1),
            ("or", 2**33 + 5),
            ("and", 0),
            ("swap", -1),
        ):
            getattr(acp, f"fetch_{operation}4")(ga + place, value)
            around = fetch(ga, 16)
            assert around[:place] + around[place + 4 :] == b"\xff" * 12


def test_values_beyond_64_bits_are_refused(size, words):
    for value in (2**64, -(2**63) - 1):
        with pytest.raises(OverflowError, match=f"fetch_add{size}: .*{value}"):
            getattr(acp, f"fetch_add{size}")(words[0], value)


def test_compare_and_swap_needs_what_it_expects(size):
    word, places = shared(1, np.uint64)
    ga = places[acp.rank()]
    for name, call in {
        f"cas{size}": lambda f: f(acp.GA_NULL, ga, None, 1),
        f"fetch_cas{size}": lambda f: f(ga, None, 1),
        f"fetch_cas{size}_many": lambda f: f([ga], None, 1),
    }.items():
        with pytest.raises(TypeError, match=f"{name}: .*None"):
            call(getattr(acp, name))
    assert word[0] == 0


def test_addresses_must_be_multiples_of_the_size(size, words):
    for rank, operation in ((rank, op) for rank in range(acp.procs()) for op in ("cas", *MODEL)):
        name, more = f"{operation}{size}", (1,) if operation == "cas" else ()
        for offset in (1, size // 2):
            ga = words[rank] + offset
            with refused(acp.AlignmentError, f"fetch_{name}", f"{ga:#x}"):
                getattr(acp, f"fetch_{name}")(ga, 1, *more)
            with refused(acp.AlignmentError, name, f"{ga:#x}"):
                acp.complete(getattr(acp, name)(acp.GA_NULL, ga, 1, *more))


# Under contention -----------------------------------------------------------------------------


def test_no_addition_is_lost_among_all_ranks(words):
    """4 ranks × 100,000 in shared memory; every road has the same executor."""
    count = 2_000 if SLOW_ROAD else 100_000
    for _ in range(count):
        acp.add8(acp.GA_NULL, words[0] + 8, 1)
    acp.complete()
    acp.sync()
    assert word(words[0] + 8) == count * acp.procs()


def test_every_fetched_value_is_fetched_once(size):
    array, places = shared(1, np.uint64)
    count = 300 if SLOW_ROAD else 20_000
    draw = getattr(acp, f"fetch_add{size}")
    mine = [draw(places[0], 1) for _ in range(count)]
    assert mine == sorted(mine)
    everyone = acp.allgather(mine)
    assert sorted([*itertools.chain.from_iterable(everyone)]) == list(range(count * acp.procs()))
    assert acp.rank() or array[0] == count * acp.procs()


def test_neighbouring_words_do_not_disturb_each_other(words):
    count = 500 if SLOW_ROAD else 20_000
    for _ in range(count):
        acp.add4(acp.GA_NULL, words[0] + 4 * acp.rank(), 3)
    acp.complete()
    acp.sync()
    for rank in range(acp.procs()):
        assert word(words[0] + 4 * rank, 4) == 3 * count


def test_a_lock_of_compare_and_swap_excludes(words):
    lock, total, rounds = words[0], words[acp.procs() - 1] + 32, 20 if SLOW_ROAD else 200
    for _ in range(rounds):
        while acp.fetch_cas8(lock, 0, acp.rank() + 1):
            pass
        put_word(total, word(total) + 1, 8)
        assert acp.fetch_swap8(lock, 0) == acp.rank() + 1
    acp.sync()
    assert word(total) == rounds * acp.procs()


def test_all_ways_to_add_agree_on_one_word(words):
    rounds = 50 if SLOW_ROAD else 1000
    for _ in range(rounds):
        acp.add8(acp.GA_NULL, words[0], 1)
        acp.fetch_add8(words[0], 1)
        acp.fetch_add8_many(words[0], np.ones(3, np.uint64))
    acp.complete()
    acp.sync()
    assert word(words[0]) == 5 * rounds * acp.procs()


def processor_add():
    """Return libatomic's 8-byte addition: the processor's own, which knows nothing of us."""
    name = ctypes.util.find_library("atomic") or "libatomic.so.1"
    try:
        add = ctypes.CDLL(name).__atomic_fetch_add_8
    except OSError:
        return None
    add.restype, add.argtypes = ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int]
    return add


def test_the_owner_s_processor_atomics_mix_with_remote_ones():
    add, sequential = processor_add(), 5
    if not acp.bcast(add is not None):
        pytest.skip("libatomic is not installed here")
    _, array, places = registered(1, np.uint64)
    count = 500 if SLOW_ROAD else 20_000
    for _ in range(count):
        if acp.rank() == 0:
            add(array.ctypes.data, 1, sequential)
        else:
            acp.fetch_add8(places[0], 1)
    acp.sync()
    assert word(places[0]) == count * acp.procs()


def test_processor_atomics_through_a_view_of_a_peer_mix_with_ours():
    add, sequential = processor_add(), 5
    if not acp.bcast(add is not None) or not CAN_LOAD:
        pytest.skip("needs libatomic, and ranks that share memory")
    array, places = shared(1, np.uint64)
    where = acp.query_address(places[0])
    for _ in range(500 if SLOW_ROAD else 20_000):
        add(where, 1, sequential)
        acp.fetch_add8(places[0], 1)
    acp.sync()
    assert word(places[0]) == (1000 if SLOW_ROAD else 40_000) * acp.procs()
    assert acp.rank() or array[0] == word(places[0])
