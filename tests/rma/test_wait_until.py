"""Sleeping on a word of this process until an operation makes it compare so."""

import threading

import numpy as np
import pytest
from support import refused, registered, right, shared, starter

import acp_mpi as acp

pytestmark = pytest.mark.mpi

WRITES = {
    "put": lambda ga, one: acp.put(ga, one),
    "put with flag": lambda ga, one: acp.put(ga + 8, one, flag=(ga, 1)),
    "iput": lambda ga, one: acp.complete(acp.iput(ga, one)),
    "copy": lambda ga, one: acp.complete(acp.copy(ga, acp.query_ga(one), 8)),
    "copy_many": lambda ga, one: acp.complete(acp.copy_many([ga], [acp.query_ga(one)], 8)),
    "add8": lambda ga, one: acp.complete(acp.add8(acp.GA_NULL, ga, 1)),
    "add4": lambda ga, one: acp.complete(acp.add4(acp.GA_NULL, ga, 1)),
    "cas8": lambda ga, one: acp.complete(acp.cas8(acp.GA_NULL, ga, 0, 1)),
    "fetch_swap8": lambda ga, one: acp.fetch_swap8(ga, 1),
    "fetch_or8_many": lambda ga, one: acp.fetch_or8_many([ga], 1),
    "old value of an atomic": lambda ga, one: acp.complete(acp.add8(ga, acp.query_ga(one), 1)),
}
COMPARISONS = {"==": (7,), "!=": (0, 1), "<": (8,), "<=": (7, 8), ">": (6,), ">=": (7, 6)}


@pytest.fixture
def one():
    array = acp.empty(1, np.uint64)
    array[0] = 1
    return array


@pytest.mark.parametrize("name", WRITES)
def test_every_operation_that_writes_the_word_wakes_its_owner(name, one):
    word, places = shared(2, np.uint64)
    WRITES[name](places[right()], one)
    acp.wait_until(places[acp.rank()], "==", 1, timeout=600)
    assert word[0] == 1


@pytest.mark.parametrize("name", WRITES)
def test_words_in_registered_memory_can_be_waited_for(name, one):
    _, word, places = registered(2, np.uint64)
    WRITES[name](places[right()], one)
    acp.wait_until(places[acp.rank()], "==", 1, timeout=600)
    assert word[0] == 1


@pytest.mark.parametrize("op", COMPARISONS)
def test_a_comparison_that_holds_returns_at_once(op):
    word = acp.empty(1, np.uint64)
    word[0] = 7
    for value in COMPARISONS[op]:
        acp.wait_until(acp.query_ga(word), op, value, timeout=600)


@pytest.mark.parametrize("op", COMPARISONS)
def test_a_comparison_that_does_not_hold_times_out(op):
    word = acp.empty(1, np.uint64)
    word[0] = 7
    wrong = {"==": 8, "!=": 7, "<": 7, "<=": 6, ">": 7, ">=": 8}[op]
    ga = acp.query_ga(word)
    with refused(TimeoutError, "wait_until", hex(ga), f"{op} {wrong}", "0.01 s"):
        acp.wait_until(ga, op, wrong, timeout=0.01)


def test_values_are_signed_if_the_value_is_negative():
    word = acp.empty(1, np.int64)
    word[0] = -5
    ga = acp.query_ga(word)
    acp.wait_until(ga, "==", -5, timeout=600)
    acp.wait_until(ga, "<", -4, timeout=600)
    acp.wait_until(ga, ">", 2**63, timeout=600)


def test_words_of_four_bytes_can_be_waited_for():
    words, places = shared(2, np.uint32)
    acp.fetch_add4(places[right()] + 4, 3)
    acp.wait_until(places[acp.rank()] + 4, "==", 3, timeout=600, size=4)
    acp.wait_until(places[acp.rank()], "==", 0, timeout=600, size=4)
    assert words.tolist() == [0, 3]


def test_a_token_passes_round_the_ranks_many_times():
    _, places = shared(1, np.uint64)
    laps = 20
    for lap in range(1, laps + 1):
        if acp.rank() == 0:
            acp.put(places[right()], np.array([lap], np.uint64))
        acp.wait_until(places[acp.rank()], "==", lap)
        if acp.rank() > 0:
            acp.put(places[right()], np.array([lap], np.uint64))


def test_a_third_party_copy_wakes_the_owner_of_its_destination(one):
    word, places = shared(1, np.uint64)
    sources = acp.allgather(acp.query_ga(one))
    acp.complete(acp.copy(places[(right() + 1) % acp.procs()], sources[right()], 8))
    acp.wait_until(places[acp.rank()], "==", 1, timeout=600)
    assert word[0] == 1
    acp.sync()  # another may still be copying from here


def test_many_ranks_wake_one():
    counter, places = shared(1, np.uint64)
    rounds = 30
    for lap in range(1, rounds + 1):
        acp.add8(acp.GA_NULL, places[0], 1, order=acp.HANDLE_ALL)
        acp.complete()
        if acp.rank() == 0:
            acp.wait_until(places[0], "==", lap * acp.procs())
        acp.sync()
    assert acp.rank() or counter[0] == rounds * acp.procs()


# Refusals -------------------------------------------------------------------------------------


def test_a_word_of_another_rank_is_refused():
    if acp.procs() > 1:
        with pytest.raises(acp.AddressError, match=f"wait_until: .*rank {right()}"):
            acp.wait_until(starter(right()), "==", 0)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("=", 1), ValueError, "'='"),
        (("==", 1.0), TypeError, "1.0"),
        (("==", 2**64), OverflowError, str(2**64)),
        (("==", 1, -1), ValueError, "-1"),
        (([], 1), ValueError, "[]"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, words):
    with pytest.raises(error, match="wait_until") as caught:
        acp.wait_until(starter(acp.rank()), *arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("size", "error"), [(8.0, TypeError), ("8", TypeError), (2, ValueError), (-8, ValueError)]
)
def test_a_word_has_four_or_eight_bytes(size, error):
    with pytest.raises(error, match=f"wait_until: .*{size}"):
        acp.wait_until(starter(acp.rank()), ">=", 0, size=size)


class Whole:
    """What can only be made an integer."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


def test_a_value_is_what_can_be_made_an_integer():
    word = acp.zeros(1, np.int64)
    word[0] = -5
    for value in (np.int64(-5), np.array(-5), Whole(-5)):
        acp.wait_until(acp.query_ga(word), "==", value, timeout=600)


@pytest.mark.parametrize("value", [2**32, -(2**31) - 1])
def test_a_value_beyond_a_word_of_four_bytes_is_refused(value):
    """It would never come."""
    with pytest.raises(OverflowError, match=f"wait_until: .*{value}"):
        acp.wait_until(starter(acp.rank()), "==", value, timeout=0.01, size=4)


def test_a_word_must_be_aligned():
    with pytest.raises(acp.AlignmentError, match="wait_until"):
        acp.wait_until(starter(acp.rank(), 4), "==", 0)


def test_memory_that_another_thread_unregisters_is_waited_for_no_longer():
    for _ in range(3):
        word = np.zeros(1, np.uint64)
        key = acp.register_memory(word)
        ga = acp.query_ga(key)
        told = []

        def wait(ga=ga, told=told):
            try:
                acp.wait_until(ga, "==", 1)
            except acp.AddressError as error:
                told.append(str(error))

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not told
        acp.unregister_memory(key)
        word[0] = 1  # which is no global memory any more
        waiting.join()
        assert len(told) == 1
        assert "wait_until" in told[0]
    acp.sync()
