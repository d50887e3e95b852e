"""Random addresses, sizes and command sequences: everything works or raises, nothing crashes."""

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import fetch, registered, shared, starter, store, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

ROOM = 256  # bytes a rank in the model
EXAMPLES = tries(450)
REFUSALS = (acp.AddressError, acp.RankError, acp.AlignmentError)
fuzz = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))

near_a_region = st.builds(
    lambda rank, offset: starter(rank % acp.procs(), 8192) + offset,
    st.integers(0, 3), st.integers(-(2**14), 2**14),
)  # fmt: skip
addresses = st.one_of(
    near_a_region,
    st.integers(0, 2**63 - 1),
    st.integers(-(2**65), 2**65),
    st.builds(lambda rank, color, offset: rank << 42 | color << 40 | offset,
              st.integers(0, 5), st.integers(0, 3), st.integers(2**30, 2**40 - 1)),
)  # fmt: skip
sizes = st.one_of(st.integers(0, 4096), st.integers(0, 2**63 - 1))
orders = st.sampled_from([acp.HANDLE_NULL, acp.HANDLE_ALL, acp.HANDLE_CONT, 2**50])
values = st.integers(-(2**63), 2**64 - 1)


def one_rank_fuzzes(test):
    """Let rank 0 alone run a property; the memory of the others takes part."""

    def alone():
        acp.fetch_add8(starter(0), 0)
        if acp.rank() == 0:
            test()

    alone.__name__, alone.__doc__ = test.__name__, test.__doc__
    return alone


def works_or_refuses(call):
    with contextlib.suppress(*REFUSALS):
        call()
    with contextlib.suppress(*REFUSALS):
        acp.complete()
    acp.complete()


# Anything goes in -----------------------------------------------------------------------------


@one_rank_fuzzes
@fuzz
@given(near_a_region | st.integers(0, 2**30), addresses, sizes, orders)
def test_copies_between_random_addresses_work_or_refuse(dst, src, size, order):
    works_or_refuses(lambda: acp.copy(dst, src, size, order=order))
    works_or_refuses(lambda: acp.copy(src, dst, size, order=order))


@one_rank_fuzzes
@fuzz
@given(addresses, st.integers(0, 20_000))
def test_transfers_at_random_addresses_work_or_refuse(ga, size):
    buffer = bytearray(size)
    for call in (acp.get, acp.put, acp.iget, acp.iput):
        works_or_refuses(lambda call=call: call(ga, buffer))


@one_rank_fuzzes
@fuzz
@given(
    st.sampled_from(["swap", "add", "xor", "or", "and"]),
    st.sampled_from([4, 8]),
    addresses,
    addresses,
    values,
    orders,
)
def test_atomics_on_random_addresses_work_or_refuse(name, size, dst, src, value, order):
    works_or_refuses(lambda: getattr(acp, f"fetch_{name}{size}")(src, value))
    works_or_refuses(lambda: getattr(acp, f"{name}{size}")(dst, src, value, order=order))
    works_or_refuses(lambda: getattr(acp, f"cas{size}")(dst, src, value, value, order=order))


@one_rank_fuzzes
@fuzz
@given(st.lists(st.tuples(addresses, addresses, sizes), max_size=20), orders)
def test_many_copies_between_random_addresses_work_or_refuse(rows, order):
    dsts, srcs, lengths = (
        (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 3
    )
    works_or_refuses(lambda: acp.copy_many(dsts, srcs, lengths, order=order))
    works_or_refuses(lambda: acp.fetch_add8_many(srcs, 1))


@one_rank_fuzzes
@fuzz
@given(addresses)
def test_queries_of_random_addresses_answer_or_refuse(ga):
    for call in (
        acp.query_rank,
        acp.query_color,
        acp.query_address,
        lambda ga: acp.view(ga, 4, np.uint8),
        lambda ga: acp.remote(ga, 4, np.uint8)[:],
        lambda ga: acp.wait_until(ga, "==", 0, timeout=0),
    ):
        with contextlib.suppress(*REFUSALS, TimeoutError):
            call(ga)


@one_rank_fuzzes
@fuzz
@given(st.integers(-(2**70), 2**70))
def test_random_handles_are_complete_or_refused(handle):
    for call in (acp.complete, acp.wait, acp.test, acp.inquire):
        with contextlib.suppress(ValueError):
            call(handle)


# Sequences against a model --------------------------------------------------------------------

places = st.tuples(st.integers(0, 3), st.integers(0, ROOM))
words = st.tuples(st.integers(0, 3), st.integers(0, ROOM // 8 - 1).map(lambda i: 8 * i))
lengths = st.integers(0, ROOM)
commands = st.lists(
    st.one_of(
        st.tuples(st.just("copy"), places, places, lengths),
        st.tuples(st.just("put"), places, st.binary(max_size=ROOM)),
        st.tuples(st.just("get"), places, lengths),
        st.tuples(st.just("add8"), words, words, values),
        st.tuples(st.just("swap4"), words, words, values),
        st.tuples(st.just("cas8"), words, words, st.sampled_from([0, 1, 255])),
    ),
    max_size=30,
)


class Model:
    """What the memory of all ranks should hold; commands run in order on both."""

    def __init__(self, bases):
        self.bases, self.ranks = bases, [bytearray(ROOM) for _ in bases]

    def place(self, where, size):
        rank, offset = where[0] % len(self.bases), min(where[1], ROOM - size)
        return self.bases[rank] + offset, self.ranks[rank], offset

    def copy(self, dst, src, size):
        to, target, at = self.place(dst, size)
        ga, source, offset = self.place(src, size)
        acp.copy(to, ga, size, order=acp.HANDLE_ALL)
        target[at : at + size] = source[offset : offset + size]

    def put(self, dst, data):
        acp.complete()
        to, target, at = self.place(dst, len(data))
        acp.put(to, data)
        target[at : at + len(data)] = data

    def get(self, src, size):
        acp.complete()
        ga, source, at = self.place(src, size)
        assert fetch(ga, size) == source[at : at + size]

    def atomic(self, name, size, dst, src, value, change):
        to, target, at = self.place(dst, 8)
        ga, source, offset = self.place(src, 8)
        arguments = (0, value) if name == "cas" else (value,)
        getattr(acp, f"{name}{size}")(to, ga, *arguments, order=acp.HANDLE_ALL)
        old = int.from_bytes(source[offset : offset + size], "little")
        new = change(old) % (1 << 8 * size)
        source[offset : offset + size] = new.to_bytes(size, "little")
        target[at : at + size] = old.to_bytes(size, "little")

    def add8(self, dst, src, value):
        self.atomic("add", 8, dst, src, value, lambda old: old + value)

    def swap4(self, dst, src, value):
        self.atomic("swap", 4, dst, src, value, lambda old: value)

    def cas8(self, dst, src, value):
        self.atomic("cas", 8, dst, src, value, lambda old: old if old else value)


def check_sequences_against(bases):
    @settings(fuzz)
    @given(commands)
    def property_(sequence):
        for base in bases:
            store(base, bytes(ROOM))
        model = Model(bases)
        for name, *arguments in sequence:
            getattr(model, name)(*arguments)
        acp.complete()
        assert [fetch(base, ROOM) for base in bases] == model.ranks

    if acp.rank() == 0:
        property_()


def test_random_sequences_do_what_the_model_does():
    _, bases = shared(ROOM)
    check_sequences_against(bases)


def test_random_sequences_on_registered_memory_do_what_the_model_does():
    _, _, bases = registered(ROOM)
    check_sequences_against(bases)
