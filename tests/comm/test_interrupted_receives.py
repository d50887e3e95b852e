"""Ctrl-C while a receive makes of a message what it returns: that is the next receive's."""

import functools
import pickle

import alarm
import numpy as np
import pytest
from support import right

import acp_mpi as acp
from acp_mpi.comm import payload
from acp_mpi.rma import buffers

pytestmark = pytest.mark.mpi

_presses = 0  # of Ctrl-C that are still to come


def left():
    return (acp.rank() - 1) % acp.procs()


def press():
    global _presses
    if _presses:
        _presses -= 1
        raise KeyboardInterrupt


def restored(step, padding):
    press()
    return step


class Thing:
    """An object whose unpickling Ctrl-C interrupts."""

    padding = b""

    def __init__(self, step):
        self.step = step

    def __reduce__(self):
        return restored, (self.step, self.padding)


@pytest.fixture(params=["in a ring", "in the mailbox"])
def length(request, monkeypatch):
    """Let a Thing be so short that its receiver may find it in a ring, or longer."""
    short = request.param == "in a ring"
    if not short:
        monkeypatch.setattr(Thing, "padding", bytes(5000))
    assert (len(pickle.dumps(Thing("it"), 5)) <= 4096) == short


@pytest.fixture
def interrupted():
    """interrupted(times) says how often; returns what a call must raise then."""

    def begin(times=1):
        global _presses
        _presses = times

    yield begin
    begin(0)


@pytest.fixture
def strided(monkeypatch, interrupted):
    """Return a buffer that is not contiguous; its filling is interrupted once."""
    usual = buffers.unusual

    def unusual(*arguments):
        plain, finish = usual(*arguments)

        def fill(size):
            press()
            finish(size)

        return plain, finish and fill

    monkeypatch.setattr(buffers, "unusual", unusual)
    interrupted()
    return np.zeros((30, 40), np.int32)[:, ::4]


def stopped(call):
    with pytest.raises(KeyboardInterrupt):
        call()


NUMBERS = np.arange(300, dtype=np.int32).reshape(30, 10)


def test_while_a_buffer_is_filled_that_is_not_contiguous(strided):
    acp.send(NUMBERS, right(), 1)
    stopped(lambda: acp.recv(strided, left(), 1))
    assert acp.iprobe(left(), 1).size == NUMBERS.nbytes
    assert acp.recv(strided, left(), 1) is strided
    assert (strided == NUMBERS).all()


def test_while_the_buffer_of_a_request_is_filled(strided):
    request = acp.irecv(strided, left(), 1)
    acp.send(NUMBERS, right(), 1)
    stopped(request.wait)
    assert request.wait() is strided
    assert (strided == NUMBERS).all()
    assert request.status.size == NUMBERS.nbytes


@pytest.mark.usefixtures("length")
def test_while_an_object_is_unpickled_again_and_again(interrupted):
    acp.send(Thing("it"), right(), 1)
    interrupted(3)
    receive = functools.partial(acp.recv, source=left(), tag=1, timeout=600)
    for _ in range(3):
        stopped(receive)
    assert receive() == "it"
    assert acp.iprobe() is None


@pytest.mark.usefixtures("length")
def test_what_was_taken_out_of_the_queue_stays_its_message(interrupted):
    acp.send(Thing("it"), right(), 1)
    interrupted(2)
    stopped(lambda: acp.recv(source=left(), tag=1))
    message = acp.mprobe(left(), 1)
    stopped(message.recv)
    assert acp.iprobe() is None
    assert message.recv() == "it"


@pytest.mark.usefixtures("length")
def test_the_order_of_messages_is_kept(interrupted):
    for tag in (1, 2):
        acp.send(Thing(tag), right(), tag)
    interrupted(3)
    for tag in (1, 2, 2):
        stopped(lambda tag=tag: acp.recv(source=left(), tag=tag))
    assert [acp.recv(source=left()) for _ in range(2)] == [1, 2]


def test_a_receive_that_was_posted_meanwhile_gets_what_was_unpickled(interrupted, monkeypatch):
    requests, interrupt = [], press

    def post():
        requests.append(acp.irecv(source=left(), tag=1))
        interrupt()

    acp.send(1, right(), 1)  # the mailbox has entries from now on, and a ring is used
    assert acp.recv(source=left(), tag=1) == 1
    acp.sync()
    acp.send(Thing("it"), right(), 1)
    monkeypatch.setattr(f"{__name__}.press", post)
    interrupted()
    stopped(lambda: acp.recv(source=left(), tag=1))
    monkeypatch.undo()
    assert requests[0].wait(60) == "it"
    assert acp.iprobe() is None


@pytest.mark.parametrize("receive", ["object", "buffer"])
def test_while_an_array_is_made_of_what_its_header_says(receive, monkeypatch, interrupted, request):
    made = payload.array_as

    def array_as(header):
        press()
        return made(header)

    monkeypatch.setattr(payload, "array_as", array_as)
    room = request.getfixturevalue("strided") if receive == "buffer" else None
    moments = np.arange(300).astype("M8[s]").reshape(30, 10)
    if room is not None:
        moments = moments.astype("i4").astype([("x", "i4")])  # of a type that no note has room for
        room = room.view(moments.dtype)
    acp.send(moments, right(), 1)
    interrupted()
    call = functools.partial(acp.recv, room, left(), 1, timeout=600)
    stopped(call)
    got = call()
    assert (got == moments).all()
    acp.sync()
    assert acp.iprobe() is None


@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("room", [None, bytearray(200_000)], ids=["object", "buffer"])
def test_a_receive_that_waits_gets_what_one_before_it_leaves(size, room):
    here = acp.rank()

    def handler():
        requests.append(acp.irecv(room, here, 1))
        acp.send(b"1" * size, here, 1)  # for the one that is interrupted, which was there before
        raise KeyboardInterrupt

    requests = []
    with alarm.in_wait(handler):
        stopped(lambda: acp.recv(source=here, tag=1))
    acp.send("the next", here, 1)
    got = requests[0].wait(20)
    assert got[:size] == b"1" * size
    assert requests[0].status.size == size
    assert acp.recv(source=here, tag=1) == "the next"
    assert acp.iprobe() is None
