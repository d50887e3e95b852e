"""Any program of sends and receives does what a list of messages does."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from support import pattern, right, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

TAGS = st.integers(0, 2)
WANTED = st.sampled_from([acp.ANY_TAG, 0, 1, 2])
SOURCES = st.booleans()  # named, or any
SIZES = st.sampled_from([0, 1, 255, 256, 257, 5000, 70_000])

STEPS = st.one_of(
    st.tuples(st.just("send"), TAGS, SIZES),
    st.tuples(st.just("isend"), TAGS, SIZES),
    st.tuples(st.just("irecv"), WANTED, SOURCES),
    st.tuples(st.just("irecv buffer"), WANTED, SOURCES),
    st.tuples(st.just("recv"), WANTED, SOURCES),
    st.tuples(st.just("mprobe"), WANTED, SOURCES),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
)


class Model:
    """One rank's mailbox, whose only sender runs the same program at the same place."""

    def __init__(self):
        self.kept = []  # (tag, number)
        self.posted = []  # (tag, request, buffer)

    def arrives(self, tag, number):
        for i, (wanted, *_) in enumerate(self.posted):
            if wanted in (acp.ANY_TAG, tag):
                return self.posted.pop(i), (tag, number)
        self.kept.append((tag, number))
        return None, None

    def takes(self, wanted):
        for i, (tag, _) in enumerate(self.kept):
            if wanted in (acp.ANY_TAG, tag):
                return self.kept.pop(i)
        return None


def left():
    return (acp.rank() - 1) % acp.procs()


class Player:
    def __init__(self):
        self.model = Model()
        self.sizes = []
        self.requests = []  # sends

    def check(self, got, message, status):
        tag, number = message
        assert bytes(got)[: self.sizes[number]] == pattern(self.sizes[number], number).tobytes()
        assert (status.source, status.tag, status.size) == (left(), tag, self.sizes[number])

    def send(self, name, tag, size):
        number = len(self.sizes)
        self.sizes.append(size)
        data = pattern(size, number).tobytes()
        acp.sync()  # what was posted is posted everywhere
        if name == "send":
            acp.send(data, right(), tag)
        else:
            self.requests.append(acp.isend(data, right(), tag))
        receiver, message = self.model.arrives(tag, number)
        if receiver:
            _, request, buffer = receiver
            got = request.wait(timeout=600)
            self.check(got, message, request.status)
            assert buffer is None or got is buffer

    def receive(self, name, wanted, named):
        source = left() if named else acp.ANY_SOURCE
        message = self.model.takes(wanted)
        if name == "recv" and message:
            status = acp.Status()
            got = acp.recv(None, source, wanted, status, timeout=600)
            self.check(got, message, status)
        elif name == "mprobe" and message:
            taken = acp.mprobe(source, wanted, timeout=600)
            self.check(taken.recv(), message, taken.status)
        elif name.startswith("irecv"):
            buffer = bytearray(70_000) if "buffer" in name else None
            request = acp.irecv(buffer, source, wanted)
            if message:
                self.check(request.wait(timeout=600), message, request.status)
            else:
                assert not request.done
                self.model.posted.append((wanted, request, buffer))

    def cancel(self, index):
        if index < len(self.model.posted):
            assert self.model.posted.pop(index)[1].cancel()

    def finish(self):
        while self.model.posted:
            self.cancel(0)
        while self.model.kept:
            self.receive("recv", acp.ANY_TAG, False)
        acp.waitall(self.requests, timeout=600)
        acp.sync()
        assert acp.iprobe() is None


@settings(max_examples=tries(180))
@given(steps=st.lists(STEPS, max_size=25))
def test_any_program_does_what_the_model_does(steps):
    player = Player()
    for name, *arguments in steps:
        if name in ("send", "isend"):
            player.send(name, *arguments)
        elif name == "cancel":
            player.cancel(*arguments)
        else:
            acp.sync()  # the sends before it have come
            player.receive(name, *arguments)
    player.finish()
