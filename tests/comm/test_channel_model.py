"""Any program of the two ends of a channel does what a list of messages does."""

import collections

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from support import CAN_LOAD, pattern, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

SHAPES = st.fixed_dictionaries(
    {
        "size": st.sampled_from([1, 8, 56, 200]),
        "slots": st.integers(1, 5),
        "dtype": st.sampled_from([None, "u1"]),
    }
)
SENDS = ("send", "isend", "reserve", "give up", "send long")
RECEIVES = ("recv", "recv into", "irecv", "take", "keep")
STEPS = st.one_of(
    st.tuples(st.sampled_from(SENDS), st.integers(0, 3)),
    st.tuples(st.sampled_from(RECEIVES), st.just(0)),
    st.tuples(st.just("drop"), st.integers(0, 4)),
)
LONG = 3  # slots of a long message


class Program:
    """Both ends, on all ranks: one acts in a step, and all hear what came of it."""

    def __init__(self, size, slots, dtype):
        self.size, self.slots, self.last = size, slots, acp.procs() - 1
        self.sends, self.channel = acp.rank() == 0, None
        if self.last and acp.rank() in (0, self.last):
            self.channel = acp.Channel(0, self.last, size=size, slots=slots, dtype=dtype)
            self.channel.send(pattern(0)) if self.sends else self.channel.recv()
        acp.sync()
        self.sent = 1
        self.ring = collections.deque()  # (number, bytes, slots) of what is not received
        self.held = collections.deque()  # views, and what came behind the oldest of them
        self.posted = None  # (request, buffer) that is to meet the next message

    def free(self):
        return self.slots - len(self.held) - sum(slots for *_, slots in self.ring)

    def step(self, name, choice):
        if name in SENDS:
            self.send(name, choice)
        elif name == "drop":
            self.drop(choice)
        elif not self.posted:
            self.receive(name)

    # --- the sender

    def put(self, name, data):
        """Return whether there was a slot for it."""
        try:
            if name == "isend":
                request = self.channel.isend(data)
                return request.test() or not request.cancel()
            if name in ("send", "send long"):
                self.channel.send(data, timeout=0)
                return True
            with self.channel.reserve(len(data), timeout=0) as view:
                view[:] = data
                if name == "give up":
                    raise KeyError
        except TimeoutError:
            return False
        except KeyError:
            pass
        return True

    def send(self, name, choice):
        size, slots = (0, 1, self.size // 2, self.size)[choice], 1
        if name == "send long":
            size, slots = self.size * LONG, LONG
            if self.free() < slots or not CAN_LOAD:  # elsewhere what is free is told later
                return
        data = pattern(size, self.sent)
        fits = acp.bcast(self.put(name, data) if self.sends else None)
        if CAN_LOAD or not self.free():
            assert fits == (self.free() > 0)
        if not fits or name == "give up":
            return
        self.ring.append((self.sent, size, slots))
        self.sent += 1
        if self.posted:
            request, buffer = self.posted
            self.posted = None
            if request:
                request.wait(timeout=600)
                self.check(buffer[: request.status.size])
            self.received()

    # --- the receiver

    def check(self, got):
        number, size, _ = self.ring[0]
        assert bytes(got) == pattern(size, number).tobytes()

    def received(self, view=None):
        """Take the oldest out of the ring; its slots go back if no view keeps an older one."""
        *_, slots = self.ring.popleft()
        if view is not None or self.held:
            self.held.extend([view] * slots)

    def fails(self, name):
        """Nothing can be received: say so at once, or wait for the next message."""
        error = BufferError if len(self.held) == self.slots else TimeoutError
        buffer = bytearray(self.size * LONG)
        if name == "irecv":
            request = self.channel.irecv(buffer)
            if error is BufferError:
                with pytest.raises(error):
                    request.wait()
            else:
                return request, buffer
        else:
            with pytest.raises(error):
                self.channel.recv(timeout=0)
        return None

    def get(self, name):
        """Receive the oldest; return the view that keeps its slot."""
        channel, buffer = self.channel, bytearray(self.size * LONG)
        if name == "recv":
            self.check(channel.recv())
        elif name in ("recv into", "irecv"):
            status = acp.Status()
            if name == "irecv":
                request = channel.irecv(buffer)
                request.wait(timeout=600)
                status = request.status
            else:
                channel.recv(buffer, status=status)
            self.check(buffer[: status.size])
        else:
            view = next(channel)
            self.check(view)
            return view if name == "keep" else None
        return None

    def receive(self, name):
        acts = self.channel and not self.sends
        if not self.ring:
            waits = name == "irecv" and len(self.held) < self.slots
            self.posted = (acts and self.fails(name)) or (waits and (None, None)) or None
            return acp.sync()
        _, size, slots = self.ring[0]
        view = self.get(name) if acts else None
        keeps = name == "keep" and size and slots == 1
        self.received((view if acts else "a view") if keeps else None)
        return acp.sync()

    def drop(self, index):
        """Drop a view; slots go back up to the next one that is kept."""
        if index < len(self.held):
            self.held[index] = None
        while self.held and self.held[0] is None:
            self.held.popleft()
        acp.sync()

    def finish(self):
        """What is left comes, and then the end."""
        if self.channel and self.posted and not self.sends:
            assert self.posted[0].cancel()
        self.held.clear()
        acp.sync()
        if self.channel and self.sends:
            self.channel.close()
        elif self.channel:
            for number, size, _ in self.ring:
                assert bytes(self.channel.recv()) == pattern(size, number).tobytes()
            with pytest.raises(acp.EndOfChannel):
                self.channel.recv()
            self.channel.close()
        acp.sync()


@settings(max_examples=tries(180))
@given(shape=SHAPES, steps=st.lists(STEPS, max_size=30))
def test_any_program_does_what_the_model_does(shape, steps):
    program = Program(**shape)
    if program.last:
        for step in steps:
            program.step(*step)
        program.finish()
