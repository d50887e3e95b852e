"""Signal handlers in a wait for messages: what they do with its request, and what they raise."""

import alarm
import pytest
from support import refused, right

import acp_mpi as acp

pytestmark = pytest.mark.mpi


class Alarm(Exception):
    """What is caught on its way if anything is."""


def raise_(error):
    raise error


def left():
    return (acp.rank() - 1) % acp.procs()


@pytest.mark.parametrize("wait", [lambda r: r.wait(), lambda r: acp.waitany([r])[1]])
def test_a_handler_cancels_what_is_waited_for(wait):
    request = acp.irecv(source=acp.rank(), tag=1)
    told = []
    with alarm.in_wait(lambda: told.append(request.cancel())):
        assert wait(request) is None
    assert told == [True]
    assert request.cancelled
    assert request.cancel()
    acp.send("kept", acp.rank(), 1)
    assert acp.recv(source=acp.rank(), tag=1) == "kept"


@pytest.mark.parametrize("look", [acp.Request.test, acp.Request.wait, lambda r: acp.waitany([r])])
def test_the_result_is_that_of_the_wait_around_the_handler(look):
    request = acp.irecv(source=acp.rank(), tag=1)
    seen = []

    def handler():
        seen.append(request.done)
        acp.send("here", acp.rank(), 1)
        seen.append(request.done)
        with refused(acp.Error, f"irecv from rank {acp.rank()}, tag 1", "signal handler"):
            look(request)

    with alarm.in_wait(handler):
        assert request.wait() == "here"
    assert seen == [False, True]


class Thing:
    """An object whose unpickling asks for its own request."""

    request = None

    def __reduce__(self):
        return Thing.look, ()

    @classmethod
    def look(cls):
        return cls.request.test()


def test_an_object_that_asks_for_its_own_receive():
    Thing.request = acp.irecv(source=left(), tag=1)
    acp.send(Thing(), right(), 1)
    with pytest.raises(acp.Error, match=r"irecv .*: the call that"):
        Thing.request.wait()


@pytest.mark.parametrize("error", [Alarm(), TimeoutError("of the handler")])
def test_what_a_handler_raises_ends_the_wait_for_many(error):
    requests = [acp.irecv(source=left(), tag=tag) for tag in range(3)]
    with alarm.in_wait(lambda: raise_(error)), pytest.raises(type(error)) as raised:
        acp.waitall(requests)
    assert raised.value is error
    assert not any(request.claimed for request in requests)
    acp.sync()
    for tag in range(3):
        acp.send(tag, right(), tag)
    assert acp.waitall(requests) == [0, 1, 2]
