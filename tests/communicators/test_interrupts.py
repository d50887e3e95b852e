"""Ctrl-C, which ends waits of communicators of several groups: no message is lost by it."""

import contextlib

import alarm
import numpy as np
import pytest

pytestmark = pytest.mark.mpi


class Stopped(Exception):
    """What Ctrl-C does here."""


@contextlib.contextmanager
def interrupted():
    def handler():
        raise Stopped

    with alarm.in_wait(handler), pytest.raises(Stopped):
        yield


@pytest.mark.parametrize(
    "call",
    [
        lambda comm, room, nobody: comm.Recv(room, comm.rank, 3),
        lambda comm, room, nobody: comm.recv(source=comm.rank, tag=3),
        lambda comm, room, nobody: comm.Sendrecv(room, nobody, 0, room, comm.rank, 3),
        lambda comm, room, nobody: comm.Sendrecv_replace(room, nobody, 0, comm.rank, 3),
        lambda comm, room, nobody: comm.sendrecv(None, nobody, 0, None, comm.rank, 3),
        lambda comm, room, nobody: comm.mprobe(comm.rank, 3),
    ],
)
def test_a_receive_that_is_interrupted_leaves_its_message_to_the_next(MPI, several, call):
    room, found = np.zeros(4), np.zeros(4)
    with interrupted():
        call(several, room, MPI.PROC_NULL)
    several.Send(np.arange(4.0), several.rank, 3)
    several.Recv(found, several.rank, 3)
    assert found.tolist() == [0, 1, 2, 3]
    assert not room.any()


def unpacked():
    """Be pressed Ctrl-C upon once."""
    if not pressed:
        pressed.append(True)
        raise KeyboardInterrupt
    return "unpacked"


pressed: list[bool] = []


class Slow:
    """What takes so long to unpack that Ctrl-C comes meanwhile."""

    def __reduce__(self):
        return unpacked, ()


def ask_until_pressed(request):
    while not pressed:
        request.test()


def test_an_interrupt_is_for_who_waits_and_not_for_the_message_that_is_unpacked(MPI, several):
    pressed.clear()
    sent = [several.issend(Slow(), several.rank, 1)]
    other, own = (several.irecv(source=several.rank, tag=tag) for tag in (1, 2))
    with pytest.raises(KeyboardInterrupt):
        ask_until_pressed(own)
    sent.append(several.isend("own", several.rank, 2))
    assert own.wait() == "own"
    assert other.wait() == "unpacked"
    MPI.Request.waitall(sent)


def test_who_is_interrupted_can_wait_again(MPI, several):
    pressed.clear()
    sent, request = several.issend(Slow(), several.rank, 1), several.irecv(source=several.rank)
    with pytest.raises(KeyboardInterrupt):
        request.wait()
    assert request != MPI.REQUEST_NULL
    assert request.wait() == "unpacked"
    sent.wait()
