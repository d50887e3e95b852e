"""Handles: numbers, completion, order, errors that come late, and interrupted waits."""

import signal
import threading

import alarm
import numpy as np
import pytest
from support import ROAD, fetch, pattern, refused, right, shared, stale_address

import acp_mpi as acp

pytestmark = pytest.mark.mpi

LONG = 4 << 20  # bytes; copies above 1 MiB run in the background on every road
UNKNOWN = 2**60


@pytest.fixture
def long_copy():
    """A function that starts a long copy within this rank's memory and returns its handle."""
    source, sink = acp.zeros(LONG, np.uint8), acp.zeros(LONG, np.uint8)
    source[:] = 1
    return lambda **order: acp.copy(acp.query_ga(sink), acp.query_ga(source), LONG, **order)


# Numbers --------------------------------------------------------------------------------------


def test_queued_operations_get_even_numbers_that_increase_by_two(long_copy):
    handles = [long_copy() for _ in range(10)]
    assert handles == list(range(handles[0], handles[0] + 20, 2))
    assert handles[0] % 2 == 0
    acp.complete()


def test_an_operation_that_is_complete_at_once_has_the_last_number_and_one(long_copy):
    last = long_copy()
    acp.complete()
    own = acp.zeros(16, np.uint8)
    at_once = [acp.copy(acp.query_ga(own), acp.query_ga(own) + 8, 8) for _ in range(3)]
    assert at_once == [last + 1] * 3
    assert long_copy() == last + 2
    acp.complete()


def test_the_named_handles_are_no_operation():
    assert acp.HANDLE_NULL == 0
    assert len({acp.HANDLE_NULL, acp.HANDLE_ALL, acp.HANDLE_CONT}) == 3


@pytest.mark.parametrize("bad", [-1, 2**63])
def test_what_cannot_be_a_handle_is_refused(bad):
    for call in (acp.complete, acp.inquire, acp.wait, acp.test):
        with pytest.raises(ValueError, match=f"{call.__name__}: .*{bad}"):
            call(bad)


def test_a_float_is_no_handle():
    with pytest.raises(TypeError, match=r"wait: .*1\.5"):
        acp.wait(1.5)


# Completion -----------------------------------------------------------------------------------


def test_null_unknown_and_finished_handles_are_complete_at_once(long_copy):
    done = long_copy()
    acp.complete()
    for handle in (acp.HANDLE_NULL, done, done + 1, UNKNOWN):
        acp.complete(handle)
        acp.wait(handle)
        assert acp.test(handle)
        assert not acp.inquire(handle)


def test_wait_and_test_of_all_and_of_the_previous_one(long_copy):
    handles = [long_copy() for _ in range(8)]
    while not acp.test(acp.HANDLE_ALL):
        assert acp.inquire(acp.HANDLE_ALL) or not acp.inquire(handles[-1])
    assert not any(map(acp.inquire, handles))
    for end in (acp.wait, acp.complete):
        last = long_copy()
        assert acp.inquire(acp.HANDLE_CONT) or acp.test(last)
        end(acp.HANDLE_CONT)
        assert not acp.inquire(last)
        handles = [long_copy() for _ in range(8)]
        end(acp.HANDLE_ALL)
        assert not any(map(acp.inquire, handles))


def test_complete_of_a_handle_means_all_before_it(long_copy):
    handles = [long_copy() for _ in range(8)]
    acp.complete(handles[4])
    assert all(acp.test(handle) for handle in handles[:5])
    assert not acp.inquire(handles[4])
    acp.complete()
    assert all(acp.test(handle) for handle in handles)


def test_complete_of_a_number_between_two_operations_means_those_before(long_copy):
    first = long_copy()
    long_copy()
    acp.complete(first + 1)
    assert acp.test(first)
    acp.complete()


def test_wait_means_one_operation_alone(long_copy):
    handles = [long_copy() for _ in range(5)]
    for handle in reversed(handles):
        acp.wait(handle)
        assert acp.test(handle)
    assert not acp.inquire(acp.HANDLE_ALL)


def test_test_and_inquire_come_to_agree(long_copy):
    handle = long_copy()
    while not acp.test(handle):
        pass
    while acp.inquire(handle):
        pass
    acp.complete()


def test_a_handle_of_many_operations_stays_usable():
    """No free slot: the call waits, it never fails."""
    counter, places = shared(1, np.uint64)
    handles = [acp.add8(acp.GA_NULL, places[right()], 1) for _ in range(5000)]
    assert handles == sorted(handles)
    acp.complete(handles[-1])
    acp.sync()
    assert counter[0] == 5000


def test_more_long_operations_than_slots_are_all_done():
    data, places = shared(300, np.uint64)
    incoming = np.zeros((300, 300), np.uint64)
    data[:] = acp.rank()
    acp.sync()
    for row in incoming:
        acp.iget(places[right()], row, order=acp.HANDLE_ALL)
    acp.complete()
    assert (incoming == right()).all()


# Errors that come late ------------------------------------------------------------------------


def late_errors(count, ga):
    """Issue operations on a stale address; skip where this road knows at the call."""
    try:
        return [acp.copy(acp.query_starter_ga(acp.rank()), ga, 8) for _ in range(count)]
    except acp.AddressError:
        pytest.skip("on this road the caller knows a stale address at once")


def stale():
    ga = stale_address(acp.procs() - 1)
    if acp.procs() == 1 or ROAD == "any" or acp.rank() == acp.procs() - 1:
        pytest.skip("here the caller knows a stale address at once")
    return ga


def test_a_late_error_is_raised_once_at_complete():
    (handle,) = late_errors(1, stale())
    with refused(acp.AddressError, "copy"):
        acp.complete(handle)
    acp.complete(handle)
    acp.complete()


def test_the_first_error_is_raised_and_the_others_are_notes():
    handles = late_errors(3, stale())
    with pytest.raises(acp.AddressError) as caught:
        acp.complete()
    notes = "\n".join(caught.value.__notes__)
    assert all(str(handle) in notes for handle in handles)
    acp.complete()


def test_wait_raises_the_error_of_its_operation_alone():
    first, second = late_errors(2, stale())
    with pytest.raises(acp.AddressError):
        acp.wait(second)
    with pytest.raises(acp.AddressError):
        acp.wait(first)
    acp.complete()


def repeat(end):
    while not end(acp.HANDLE_ALL):
        pass


def test_a_late_error_is_raised_by_wait_and_test_of_all(long_copy):
    ga = stale()
    for end in (acp.wait, acp.test):
        late_errors(1, ga)
        long_copy()
        with pytest.raises(acp.AddressError):
            repeat(end)
        acp.complete()


def test_an_error_that_nobody_completed_is_raised_at_sync():
    ga = stale_address(acp.procs() - 1)
    expect = acp.procs() > 1 and ROAD != "any" and acp.rank() < acp.procs() - 1
    try:
        acp.copy(acp.query_starter_ga(acp.rank()), ga, 8)
    except acp.AddressError:
        expect = False
    if expect:
        with pytest.raises(acp.AddressError):
            acp.sync()
    acp.sync()


def test_an_operation_whose_order_failed_does_not_run_and_carries_the_error():
    sink = acp.zeros(1, np.uint64)
    (bad,) = late_errors(1, stale())
    after = acp.add8(acp.GA_NULL, acp.query_ga(sink), 1, order=bad)
    with pytest.raises(acp.AddressError):
        acp.wait(after)
    with pytest.raises(acp.AddressError):
        acp.wait(bad)
    assert sink[0] == 0
    acp.complete()


def test_errors_of_other_operations_do_not_stop_those_without_order():
    target, places = shared(64)
    ga = stale()
    late_errors(1, ga)
    acp.copy(places[acp.rank()], acp.query_starter_ga(right()), 8)
    with pytest.raises(acp.AddressError):
        acp.complete()
    assert target[:8].tobytes() == fetch(acp.query_starter_ga(right()), 8)


MANY = 5000  # more errors than are kept


def test_calls_that_wait_raise_their_errors_however_many_others_nobody_asked_for():
    ga = stale()
    late_errors(MANY, ga)
    for call in (acp.get, acp.put, lambda ga, _: acp.fetch_add8(ga, 1)):
        with pytest.raises(acp.AddressError):
            call(ga, bytearray(8))
    with pytest.raises(acp.AddressError) as caught:
        acp.complete()
    assert caught.value.__notes__[-1] == f"and {MANY - 16} more operations that failed"
    acp.complete()


def test_of_too_many_errors_the_first_and_the_latest_are_kept():
    first, *_, last = late_errors(MANY, stale())
    own = acp.zeros(1, np.uint64)
    dependent = acp.add8(acp.GA_NULL, acp.query_ga(own), 1, order=last)
    for handle in (dependent, last, first):
        with pytest.raises(acp.AddressError):
            acp.wait(handle)
    assert own[0] == 0
    with pytest.raises(acp.AddressError):
        acp.complete()


# Interrupted waits ----------------------------------------------------------------------------


@pytest.fixture
def ctrl_c_soon():
    """A function after which Ctrl-C comes while the program waits; on a busy machine at once."""
    with alarm.handled_by(signal.default_int_handler):
        yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.02)


def forever():
    threading.Event().wait()


def test_ctrl_c_interrupts_a_wait_that_nobody_would_end(ctrl_c_soon):
    word = acp.zeros(1, np.uint64)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        ctrl_c_soon()
        acp.wait_until(acp.query_ga(word), "==", 1)


def test_ctrl_c_interrupts_sync_which_can_be_called_again(ctrl_c_soon):
    go, places = shared(1, np.uint64)
    if acp.rank() == 0:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            ctrl_c_soon()
            acp.sync()
            forever()  # with one rank sync returns
        for ga in places:
            acp.fetch_add8(ga, 1)
    acp.wait_until(places[acp.rank()], "==", 1)
    acp.sync()
    assert go[0] == 1


def test_ctrl_c_leaves_operations_running_and_their_buffers_held(ctrl_c_soon):
    rows = 20
    _, places = shared((rows, LONG))
    for row in range(rows):
        acp.iput(places[right()] + row * LONG, pattern(LONG))
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        ctrl_c_soon()
        acp.complete()
        forever()  # the transfers may be faster than the signal
    acp.complete()
    for row in range(rows):
        assert fetch(places[right()] + row * LONG, LONG) == pattern(LONG).tobytes()
