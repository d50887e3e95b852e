"""Sends and receives of channels that go on beside the program."""

import alarm
import numpy as np
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.mpi


@pytest.fixture
def both():
    """Make a channel from rank 0 to the last: (channel, sends) there, else (None, False)."""
    acp.sync()
    opened = []
    last = acp.procs() - 1

    def make(**arguments):
        if not last or acp.rank() not in (0, last):
            return None, False
        opened.append(acp.Channel(0, last, **arguments))
        return opened[-1], acp.rank() == 0

    yield make
    for channel in opened:
        channel.close()
    acp.sync()


def message(i):
    """Return bytes that tell i, of a length that goes up and down."""
    return bytes((i * 7 + k) % 251 for k in range(i * 13 % 200))


def test_what_has_begun_ends_in_order_with_what_waits(both):
    channel, sending = both(size=48, slots=2)
    if sending:
        requests = []
        for i in range(60):
            if i % 4 == 3:
                channel.send(message(i))
            else:
                requests.append(channel.isend(message(i)))
        assert acp.waitall(requests) == [None] * len(requests)
    elif channel:
        buffers = [bytearray(200) for _ in range(60)]
        requests = []
        for i, buffer in enumerate(buffers):
            if i % 5 == 4:
                channel.recv(buffer)
            else:
                requests.append((i, channel.irecv(buffer)))
        for i, request in requests:
            assert request.wait() is buffers[i]
            assert request.status.source == channel.peer
            assert request.status.size == len(message(i))
        for i, buffer in enumerate(buffers):
            assert buffer[: len(message(i))] == message(i)


def test_it_goes_on_while_the_program_waits_for_something_else(both):
    channel, sending = both(size=16, slots=1)
    last = acp.procs() - 1
    if sending:
        for i in range(20):
            channel.isend(message(i))  # nobody keeps it
        assert acp.recv(source=last) == "all"
    elif channel:
        for i in range(20):
            assert channel.recv() == message(i)
        acp.send("all", 0)


def test_all_kinds_of_requests_are_waited_for_together(both):
    channel, sending = both(size=16, slots=1)
    last = acp.procs() - 1
    if sending:
        requests = [channel.isend(b"first"), channel.isend(b"second")]
        answer = acp.irecv(source=last)
        assert acp.waitany([requests[1], answer]) == (1, "has not received")
        assert not requests[1].done
        acp.send("go on", last)
        assert acp.waitany([requests[1]]) == (0, None)
        assert acp.testall(requests)
    elif channel:
        acp.send("has not received", 0)
        assert acp.recv(source=0) == "go on"
        buffers = [bytearray(6), bytearray(6)]
        requests = [channel.irecv(buffer) for buffer in buffers]
        assert acp.waitall(requests) == [bytearray(b"first\0"), bytearray(b"second")]


def test_one_is_taken_back_or_given_up_waiting_for(both):
    channel, sending = both(size=16, slots=1)
    if sending:
        acp.recv(source=channel.peer)
        channel.send(b"for the second")
        channel.send(b"for the third")
    elif channel:
        buffers = [bytearray(16) for _ in range(3)]
        first, second, third = [channel.irecv(buffer) for buffer in buffers]
        assert first.cancel()
        assert first.done
        assert first.wait() is None
        with pytest.raises(TimeoutError, match="irecv from rank 0 by a channel"):
            second.wait(timeout=0.001)
        acp.send(None, 0)
        assert second.wait().rstrip(b"\0") == b"for the second"
        assert third.wait().rstrip(b"\0") == b"for the third"
        assert not second.cancel()


@pytest.mark.parametrize("together", [True, False])
def test_a_signal_handler_takes_back_what_is_waited_for(both, together):
    channel, sending = both(size=16, slots=1)
    if sending:
        acp.recv(source=channel.peer)
    elif channel:
        request = channel.irecv(bytearray(16))
        with alarm.in_wait(request.cancel):
            if together:
                message = acp.irecv(source=0, tag=99)
                assert acp.waitany([message, request]) == (1, None)
                assert message.cancel()
            else:
                assert request.wait() is None
        assert request.cancelled
        acp.send(None, 0)


def test_elements_and_what_does_not_fit(both):
    channel, sending = both(size=64, slots=2, dtype="i4")
    if sending:
        with pytest.raises(TypeError, match="float64"):
            channel.isend(np.zeros(3))
        channel.isend(np.arange(100, dtype="i4")[::2]).wait()
        channel.isend(np.arange(30, dtype="i4")).wait()
        channel.isend([1, 2] if np.dtype(int).itemsize == 4 else np.array([1, 2], "i4")).wait()
    elif channel:
        with pytest.raises(TypeError, match="float64"):
            channel.irecv(np.zeros(3))
        even = np.zeros(50, "i4")
        assert channel.irecv(even).wait() is even
        assert even.tolist() == list(range(0, 100, 2))
        short, rest = np.zeros(20, "i4"), np.zeros(2, "i4")
        requests = [channel.irecv(short), channel.irecv(rest)]
        with pytest.raises(acp.TruncationError, match="120 bytes and a buffer of 80"):
            requests[0].wait()
        assert short.tolist() == list(range(20))
        assert requests[1].wait().tolist() == [1, 2]


def test_objects_are_sent_beside_the_program_and_received_by_recv(both):
    channel, sending = both(size=32, slots=2, dtype=object)
    if sending:
        acp.waitall([channel.isend({"n": i, "x": "y" * i}) for i in range(40)])
    elif channel:
        with pytest.raises(TypeError, match="pickled objects; receive by recv"):
            channel.irecv(bytearray(10))
        assert [channel.recv()["n"] for _ in range(40)] == list(range(40))


def test_the_end_of_the_channel_ends_them(both):
    channel, sending = both(size=8, slots=1)
    if sending:
        channel.send(b"last")
        pending = [channel.isend(b"x"), channel.isend(b"y")]
        channel.close()
        for request in pending:
            with pytest.raises(acp.ClosedError, match="isend"):
                request.wait()
        with pytest.raises(acp.ClosedError):
            channel.isend(b"z").wait()
        acp.send(None, channel.peer)
    elif channel:
        acp.recv(source=0)
        assert channel.irecv(bytearray(4)).wait() == b"last"
        with pytest.raises(acp.EndOfChannel):
            channel.irecv(bytearray(4)).wait()
    channel, sending = both(size=8, slots=2)
    if sending:
        with pytest.raises(acp.Error, match=f"rank {channel.peer}, calls that"):
            channel.irecv(bytearray(4))
        acp.recv(source=channel.peer)  # else its end could come first
    elif channel:
        request = channel.irecv(bytearray(4))
        assert "pending" in repr(request)
        channel.close()
        with pytest.raises(acp.ClosedError):
            request.test()
        acp.send(None, 0)
