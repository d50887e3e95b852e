"""Requests: sends and receives beside the program, alone and several at once."""

import gc
import pickle
import weakref

import launch
import numpy as np
import pytest
from support import pattern, refused, right, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

MIB = 1 << 20


def left():
    return (acp.rank() - 1) % acp.procs()


def test_a_receive_is_pending_until_its_message_comes():
    request = acp.irecv(source=left(), tag=1)
    assert not request.done
    assert not request.test()
    assert request.status is None
    acp.sync()
    acp.send("here", right(), 1)
    assert request.wait() == "here"
    assert request.done
    assert request.test()
    assert request.wait() == "here"
    assert (request.status.source, request.status.tag) == (left(), 1)
    assert not request.cancelled


@pytest.mark.parametrize("size", [1, 8, 200, 3000, 100_000, 4 * MIB])
@pytest.mark.parametrize("place", [np.zeros, acp.zeros])
def test_what_is_done_is_in_the_buffer_without_another_call(size, place):
    room = place(size, np.uint8)
    request = acp.irecv(room, left(), 2)
    acp.sync()
    sent = acp.isend(pattern(size, right()), right(), 2)
    launch.until(lambda: request.done)
    assert room.tobytes() == pattern(size, acp.rank()).tobytes()
    assert request.status.size == size
    assert request.wait() is room
    sent.wait()


def test_a_send_has_no_result_and_no_status():
    request = acp.isend(b"x", right())
    assert acp.recv(source=left()) == b"x"
    assert request.wait() is None
    assert request.status is None


def test_a_request_says_what_it_is():
    request = acp.irecv(source=left(), tag=6)
    assert repr(request) == f"<acp_mpi.Request irecv from rank {left()}, tag 6, pending>"
    acp.sync()
    assert str(acp.isend(1, right(), 6)) == f"isend to rank {right()}, tag 6"
    request.wait()
    assert "done" in repr(request)
    assert repr(request.status).startswith(f"<acp_mpi.Status source={left()} tag=6 size=")
    request = acp.irecv()
    request.cancel()
    assert repr(request) == "<acp_mpi.Request irecv from any rank, any tag, cancelled>"


def test_waitall_returns_all_results_in_order():
    requests = [acp.irecv(source=left(), tag=tag) for tag in range(20)]
    sends = [acp.isend(tag * 10, right(), tag) for tag in reversed(range(20))]
    assert acp.waitall([*requests, *sends]) == [*range(0, 200, 10), *[None] * 20]
    assert acp.waitall([]) == []


def test_waitany_returns_each_once():
    requests = [acp.irecv(source=left(), tag=tag) for tag in range(10)]
    acp.sync()
    for tag in (3, 1, 4):
        acp.send(tag, right(), tag)
    seen = [acp.waitany(requests) for _ in range(3)]
    assert sorted(seen) == [(1, 1), (3, 3), (4, 4)]
    assert not acp.testall(requests)
    acp.sync()
    for tag in (0, 2, 5, 6, 7, 8, 9):
        acp.send(tag, right(), tag)
    seen = [acp.waitany(requests)[0] for _ in range(7)]
    assert sorted(seen) == [0, 2, 5, 6, 7, 8, 9]
    assert acp.testall(requests)
    with refused(ValueError, "waitany", 10):
        acp.waitany(requests)


def test_testall_waits_for_nothing():
    requests = [acp.irecv(source=left()) for _ in range(2)]
    assert not acp.testall(requests)
    acp.sync()
    acp.send(1, right())
    acp.send(2, right())
    acp.waitall(requests)
    assert acp.testall(requests)
    assert acp.testall([])


def test_waiting_stops_after_the_timeout_and_the_request_goes_on():
    requests = [acp.irecv(source=left()), acp.irecv(source=left())]
    for wait in (
        lambda: requests[0].wait(timeout=0.01),
        lambda: acp.waitall(requests, timeout=0.01),
        lambda: acp.waitany(requests, timeout=0.01),
    ):
        with pytest.raises(TimeoutError, match=f"irecv from rank {left()}"):
            wait()
    acp.sync()
    acp.send("a", right())
    acp.send("b", right())
    assert acp.waitall(requests, timeout=600) == ["a", "b"]


def test_a_blocking_receive_that_times_out_takes_nothing():
    with refused(TimeoutError, f"recv from rank {left()}, tag 4"):
        acp.recv(source=left(), tag=4, timeout=0.01)
    acp.sync()
    acp.send("later", right(), 4)
    assert acp.recv(source=left(), tag=4) == "later"


def test_waitall_raises_the_first_error_when_all_are_done():
    rooms = [bytearray(2), bytearray(10), bytearray(3)]
    requests = [acp.irecv(room, left(), tag) for tag, room in enumerate(rooms)]
    acp.sync()
    for tag in range(3):
        acp.send(b"12345678", right(), tag)
    with pytest.raises(acp.TruncationError, match="the buffer 2; ") as caught:
        acp.waitall(requests)
    assert "the buffer 3" in caught.value.__notes__[0]
    assert rooms[1][:8] == b"12345678"
    with pytest.raises(acp.TruncationError):
        acp.testall(requests)


def test_a_cancelled_receive_leaves_the_message_to_the_next():
    request = acp.irecv(source=left())
    assert request.cancel()
    assert request.cancelled
    assert request.cancel()
    assert request.wait() is None
    acp.sync()
    acp.send("kept", right())
    assert acp.recv(source=left()) == "kept"


def test_a_receive_that_has_met_its_message_cannot_be_cancelled():
    request = acp.irecv(source=left())
    acp.sync()
    acp.send(5, right())
    assert request.wait(timeout=600) == 5
    assert not request.cancel()
    assert not request.cancelled
    assert request.wait() == 5


def test_cancelling_and_sending_at_once_loses_nothing():
    received, cancelled = [], 0
    count = tries(600)
    for step in range(count):
        request = acp.irecv(source=left(), tag=2)
        acp.send(step, right(), 2)
        if request.cancel():
            cancelled += 1
            assert request.wait() is None
        else:
            received.append(request.wait())
    received += [acp.recv(source=left(), tag=2) for _ in range(cancelled)]
    assert received == list(range(count))


def test_the_buffer_of_a_request_cannot_be_resized():
    room = bytearray(100)
    request = acp.irecv(room, left())
    with pytest.raises(BufferError):
        room.extend(b"more")
    acp.sync()
    acp.send(b"x" * 100, right())
    request.wait()
    room.extend(b"more")


def test_the_buffer_of_a_request_that_was_dropped_stays():
    room = np.zeros(3 * MIB, np.uint8)
    watch = weakref.ref(room)
    acp.irecv(room, left(), 1)
    del room
    gc.collect()
    assert watch() is not None
    acp.sync()
    acp.send(pattern(3 * MIB, 4), right(), 1)
    acp.send(b"after it", right(), 1)
    assert acp.recv(source=left(), tag=1) == b"after it"
    while watch() is not None:  # by link a long message may be whole later than a short one
        acp.waitall([acp.isend(tag, acp.rank(), tag) for tag in range(300)])
        acp.waitall([acp.irecv(source=acp.rank(), tag=tag) for tag in reversed(range(300))])


def test_isend_keeps_its_buffer():
    size = 20 * MIB
    request = acp.isend(pattern(size, 8), right())  # nobody else refers to it
    gc.collect()
    assert (acp.recv(source=left()) == pattern(size, 8)).all()
    request.wait()


def test_many_requests_at_once():
    count = tries(900)
    rooms = np.zeros((count, 50), np.int64)
    requests = [acp.irecv(rooms[i], left(), i) for i in range(count)]
    order = np.random.default_rng(1).permutation(count).tolist()
    requests += [acp.isend(np.full(50, i), right(), i) for i in order]
    acp.waitall(requests)
    assert (rooms == np.arange(count)[:, None]).all()


def test_a_buffer_that_is_not_contiguous_is_filled_when_its_request_ends():
    room = np.zeros((30, 40), np.int32)
    request = acp.irecv(room[:, ::4], left())
    acp.sync()
    acp.send(np.arange(300, dtype=np.int32), right())
    request.wait()
    assert (room[:, ::4].reshape(-1) == np.arange(300)).all()
    assert not room[:, 1::4].any()


def test_only_requests_can_be_waited_for():
    for function in (acp.waitall, acp.waitany, acp.testall):
        with refused(TypeError, function.__name__, "'no'"):
            function(["no"])
        with refused(TypeError, function.__name__, "None", "list"):
            function(None)


def test_requests_and_messages_come_from_calls():
    for kind in (acp.Request, acp.Message):
        with refused(TypeError, kind.__name__):
            kind()


def test_a_request_cannot_be_pickled_and_says_what_to_send_instead():
    acp.send("x", acp.rank())
    request, message = acp.irecv(tag=5), acp.mprobe()
    for each in (request, acp.ibarrier()):
        with refused(TypeError, "Request", "cannot be pickled; send what its "):
            pickle.dumps(each)
    with refused(TypeError, "Message", "cannot be pickled; receive it"):
        acp.send(message, acp.rank())
    assert message.recv() == "x"
    assert request.cancel()
