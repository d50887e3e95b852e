"""Long messages of device memory: their parts leave the device while others are on their way."""

import threading

import far
import numpy as np
import pytest
from far import array_of

import acp_mpi as acp
from acp_mpi.comm import device_parts, payload
from acp_mpi.rma import device_rooms

pytestmark = pytest.mark.mpi

PART = 4096
COUNT = 5 * PART // 8 + 3  # elements: six parts


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    far.begin()
    acp.sync()  # all or none
    monkeypatch.setattr(device_parts, "_PART", PART)
    monkeypatch.setattr(payload, "_LONG", PART)
    yield
    acp.sync()


def right():
    return (acp.rank() + 1) % acp.procs()


def left():
    return (acp.rank() - 1) % acp.procs()


def message(rank):
    return np.arange(COUNT, dtype="i8") + 1000 * rank


def test_parts_come_to_whatever_the_receiver_gives():
    mine, expected = array_of(message(acp.rank())), message(left())
    there, here, apart = (
        array_of(np.zeros(COUNT, "i8")),
        np.zeros(COUNT, "i8"),
        np.zeros((COUNT, 2), "i8"),
    )
    for buffer, look in (
        (there, there.get),
        (here, lambda: here),
        (apart[:, 1], lambda: apart[:, 1]),
    ):
        acp.send(mine, right(), 5)
        assert acp.recv(buffer, left(), 5) is buffer
        assert (look() == expected).all()
    assert not apart[:, 0].any()
    acp.send(mine, right())
    got, status = None, acp.Status()
    got = acp.recv(status=status)
    assert type(got) is np.ndarray
    assert (got == expected).all()
    assert (status.source, status.size, status.count("i8")) == (left(), mine.nbytes, COUNT)
    matrix = array_of(message(acp.rank())[: COUNT // 3 * 3].reshape(3, -1))
    acp.send(matrix, right())
    assert (acp.recv(source=left()) == message(left())[: COUNT // 3 * 3].reshape(3, -1)).all()


def test_receives_that_were_there_before():
    mine, there, here = (
        array_of(message(acp.rank())),
        array_of(np.zeros(COUNT, "i8")),
        np.zeros(COUNT, "i8"),
    )
    requests = [acp.irecv(there, left(), 1), acp.irecv(here, left(), 2), acp.irecv(None, left(), 3)]
    acp.sync()
    for tag in (3, 2, 1):
        acp.send(mine, right(), tag)
    got = acp.waitall(requests)
    assert got[0] is there
    assert all((each == message(left())).all() for each in (there.get(), here, got[2]))
    assert [request.status.size for request in requests] == [mine.nbytes] * 3
    assert all(request.done and request.test() for request in requests)


def test_both_directions_at_a_time():
    mine, there = array_of(message(acp.rank())), array_of(np.zeros(COUNT, "i8"))
    here, status = np.zeros(COUNT, "i8"), acp.Status()
    for _ in range(3):
        assert acp.sendrecv(mine, right(), 1, there, left(), 1, status=status) is there
        assert status.size == mine.nbytes
        assert (there.get() == message(left())).all()
        acp.sendrecv(mine, right(), 1, here, left(), 1)
        assert (here == message(left())).all()
        assert (acp.sendrecv(mine, right(), 1, source=left()) == here).all()
        there.set(0)
    assert acp.sendrecv(mine, right(), 2, mine, left(), 2) is mine
    assert (mine.get() == message(left())).all()
    assert (
        acp.sendrecv(np.arange(3), right(), 1, there, left(), 1).get()[:3] == np.arange(3)
    ).all()


def test_isends_go_on_while_this_rank_receives():
    mine = array_of(message(acp.rank()))
    requests = [acp.isend(mine, right(), tag) for tag in range(3)]
    got = [acp.recv(source=left(), tag=tag) for tag in (2, 0, 1)]  # before any of them is asked
    assert not any(request.cancel() for request in requests)
    assert acp.waitall(requests) == [None] * 3
    assert all((each == message(left())).all() for each in got)
    there = array_of(np.zeros(COUNT, "i8"))
    requests = [acp.irecv(there, left()), acp.isend(mine, right())]
    while requests:
        requests.pop(acp.waitany(requests)[0])
    assert (there.get() == message(left())).all()
    acp.isend(mine, right())  # it goes on without its request
    assert acp.recv(there, left()) is there


def test_an_isend_keeps_to_parts_of_host_memory(monkeypatch):
    taken, out, most = device_rooms.take, [], []
    give = device_rooms.give

    def take(function):
        out.append(taken(function))
        most.append(len(out))
        return out[-1]

    def back(room):
        out[:] = [each for each in out if each is not room]
        give(room)

    monkeypatch.setattr(device_rooms, "take", take)
    monkeypatch.setattr(device_rooms, "give", back)
    mine = array_of(np.arange(64 * PART, dtype="u1"))
    there = array_of(np.zeros(64 * PART, "u1"))
    most.clear()
    request = acp.isend(mine, right())
    acp.recv(there, left())
    request.wait()
    assert len(most) >= 128  # of both ends
    assert max(most) <= 16


def test_it_is_looked_at_with_its_size_and_taken_out():
    mine = array_of(message(acp.rank()))
    acp.send(mine, right(), 9)
    assert acp.probe(left(), 9).size == mine.nbytes
    assert acp.iprobe(left(), 9).count("i8") == COUNT
    taken = acp.mprobe(left(), 9)
    assert taken.status.size == mine.nbytes
    assert acp.iprobe(left(), 9) is None
    assert taken.recv(mine) is mine
    assert (mine.get() == message(left())).all()


@pytest.mark.parametrize("count", [1, PART // 8, PART // 8 + 1, COUNT - 1])
def test_a_buffer_that_is_too_short_gets_the_first(count):
    mine, there, here = (
        array_of(message(acp.rank())),
        array_of(np.zeros(count, "i8")),
        np.zeros(count, "i8"),
    )
    for buffer, look in ((there, there.get), (here, lambda: here)):
        acp.send(mine, right())
        with pytest.raises(
            acp.TruncationError, match=f"has {mine.nbytes} bytes and the buffer {8 * count}"
        ):
            acp.recv(buffer, left())
        assert (look() == message(left())[:count]).all()
    acp.send(mine[:2], right())
    assert acp.recv(source=left()).tolist() == message(left())[:2].tolist()


def test_elements_of_another_type_are_refused_and_the_message_stays():
    acp.send(array_of(message(acp.rank())), right())
    with pytest.raises(TypeError, match="type int64 and the buffer of float32"):
        acp.recv(np.zeros(2 * COUNT, "f4"), left())
    place = bytearray(8 * COUNT)
    assert acp.recv(place, left()) is place
    assert bytes(place) == message(left()).tobytes()


def test_many_are_kept_in_the_order_of_their_sends():
    arrays = [array_of(message(acp.rank()) + k) for k in range(5)]
    for array in arrays:
        acp.send(array, right())
    acp.sync()
    for k in range(5):
        assert (acp.recv(source=left()) == message(left()) + k).all()


def test_it_starts_behind_the_stream_of_its_array():
    tensor = far.Tensor(np.zeros(6 * PART, "u1"))
    for value, send in ((7, acp.send), (8, acp.isend)):
        far.library().far_fill(0, 0, tensor.address, value, 6 * PART, 3_000_000)
        sending = send(tensor, right())
        assert (acp.recv(source=left()) == value).all()
        if sending is not None:
            sending.wait()
    tensor.free()  # who has sent it has let go of it
    acp.sync()


@pytest.mark.parametrize("send", [acp.send, lambda *to: acp.isend(*to).wait()])
def test_what_the_device_refuses_ends_the_receive_at_the_other_end(monkeypatch, send):
    mine, start = array_of(message(acp.rank())), device_parts._engine.device_start
    begun = []

    def fail(*given):
        begun.append(given)
        if len(begun) == 4:
            raise acp.DeviceError("a device that fails")
        return start(*given)

    with monkeypatch.context() as patch:
        patch.setattr(device_parts._engine, "device_start", fail)
        with pytest.raises(acp.DeviceError):
            send(mine, right())
    buffer = np.zeros(COUNT, "i8")
    with pytest.raises(
        acp.Error, match=rf"from rank {left()} ended after {2 * PART} of {mine.nbytes} bytes"
    ):
        acp.recv(buffer, left())
    assert (buffer[: 2 * PART // 8] == message(left())[: 2 * PART // 8]).all()
    acp.send(mine, right())
    assert (acp.recv(source=left()) == message(left())).all()


@pytest.mark.parametrize("sink", [device_parts._Host, device_parts._Device])
@pytest.mark.parametrize("part", [1, 3, 6])
def test_a_message_of_which_a_call_was_interrupted_is_the_next_receives(monkeypatch, sink, part):
    mine, there, here = (
        array_of(message(acp.rank())),
        array_of(np.zeros(COUNT, "i8")),
        np.zeros(COUNT, "i8"),
    )
    taken, begun = sink.taken, []

    def interrupted(*given):
        begun.append(given)
        if len(begun) == part:
            raise KeyboardInterrupt
        return taken(*given)

    first, second = (here, there) if sink is device_parts._Host else (there, here)
    acp.send(mine, right(), 4)
    with monkeypatch.context() as patch:
        patch.setattr(sink, "taken", interrupted)
        with pytest.raises(KeyboardInterrupt):
            acp.recv(first, left(), 4)
    assert acp.probe(left(), 4).size == mine.nbytes
    here[:] = -1
    acp.recv(second, left(), 4)
    assert ((there.get() if second is there else here) == message(left())).all()
    request = acp.irecv(first, left(), 4)
    acp.send(mine, right(), 4)
    with monkeypatch.context() as patch:
        begun.clear()
        patch.setattr(sink, "taken", interrupted)
        with pytest.raises(KeyboardInterrupt):
            request.wait()
    assert request.wait() is first
    assert ((there.get() if first is there else here) == message(left())).all()


def test_host_memory_for_it_is_bounded():
    mine = array_of(np.arange(64 * PART, dtype="u1"))
    there = array_of(np.zeros(64 * PART, "u1"))
    for _ in range(3):
        acp.send(mine, right())
        acp.recv(there, left())
    assert (there.get() == np.arange(64 * PART, dtype="u1")).all()
    assert len(device_rooms._rooms) <= device_rooms.SPARE


@pytest.fixture
def slots(monkeypatch):
    """A channel to the next rank and one from the one before, with slots that parts fill."""
    if acp.procs() == 1:
        pytest.skip("a channel joins two ranks")
    size = payload._PIECES[0]
    monkeypatch.setattr(device_parts, "_PART", size)
    sender, receiver = (
        acp.Channel(acp.rank(), right(), size=size, slots=4),
        acp.Channel(left(), acp.rank(), size=size, slots=4),
    )
    yield sender, receiver
    sender.close()
    receiver.close()


SLOTS = payload._PIECES[0] * 7 + 1000  # bytes of a message in eight pieces


def flow(rank):
    return (np.arange(SLOTS) * (rank + 3) % 251).astype("u1")


def exchange(sender, receiver, mine, buffer=None):
    """Have a thread send, as everybody does; return what came."""
    thread = threading.Thread(target=sender.send, args=(mine,))
    thread.start()
    try:
        return receiver.recv(buffer)
    finally:
        thread.join()


@pytest.mark.parametrize("part", [64 << 10, 150_000, 1 << 20])
def test_a_channel_takes_device_memory_in_parts(slots, monkeypatch, part):
    monkeypatch.setattr(device_parts, "_PART", part)
    taken = device_parts._engine.device_start
    counted = []

    def count(*given):
        counted.append(given[2][2])
        return taken(*given)

    monkeypatch.setattr(device_parts._engine, "device_start", count)
    mine, there = array_of(flow(acp.rank())), array_of(np.zeros(SLOTS + 5, "u1"))
    assert bytes(exchange(*slots, mine)) == flow(left()).tobytes()
    assert max(counted) <= part
    assert sum(counted) == SLOTS  # nothing went as a whole
    for x in (mine, flow(acp.rank())):
        there.set(9)
        counted.clear()
        assert exchange(*slots, x, there) is there
        assert (there.get() == [*flow(left()), 9, 9, 9, 9, 9]).all()
        assert max(counted) <= part
        assert sum(counted) == (2 * SLOTS if x is mine else SLOTS)
    assert len(device_rooms._rooms) <= device_rooms.SPARE
    short = array_of(np.zeros(SLOTS // 2, "u1"))
    with pytest.raises(acp.TruncationError):
        exchange(*slots, mine, short)
    assert (short.get() == flow(left())[: SLOTS // 2]).all()


def test_what_a_timeout_leaves_of_a_message_is_the_next_receives(slots):
    sender, receiver = slots
    there = array_of(np.zeros(SLOTS, "u1"))
    exchange(sender, receiver, there)  # now both ends know each other
    with pytest.raises(TimeoutError):
        sender.send(flow(acp.rank())[: SLOTS - 1], timeout=0)  # four pieces, then the ring is full
    acp.sync()
    with pytest.raises(TimeoutError):
        receiver.recv(there, timeout=0.01)
    acp.sync()
    assert exchange(sender, receiver, array_of(flow(acp.rank())), there) is there
    assert (there.get() == flow(left())).all()


def test_a_device_that_fails_ends_a_send_and_its_pieces_are_dropped(slots, monkeypatch):
    sender, receiver = slots
    start, begun = device_parts._engine.device_start, []

    def fail(*given):
        begun.append(given)
        if len(begun) == 3:
            raise acp.DeviceError("a device that fails")
        return start(*given)

    mine = array_of(flow(acp.rank()))
    with monkeypatch.context() as patch:
        patch.setattr(device_parts._engine, "device_start", fail)
        with pytest.raises(acp.DeviceError):
            sender.send(mine)
    acp.sync()
    assert bytes(exchange(sender, receiver, mine)) == flow(left()).tobytes()
