"""Ends of a channel: how they meet, what each learns of the other, memory that goes back."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from segmented import is_destination, is_source, until

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def test_each_side_learns_that_the_other_has_closed(pair):
    channel = pair(size=8, slots=2)
    if is_source(channel):
        channel.send(b"last")
        channel.close()
        channel.close()
        assert channel.closed
        with pytest.raises(acp.ClosedError):
            channel.send(b"more")
    elif is_destination(channel):
        assert channel.recv() == b"last"
        with pytest.raises(acp.EndOfChannel):
            channel.recv()
        with pytest.raises(EOFError):
            channel.recv(timeout=0)
    channel = pair(size=8, slots=2)
    if is_source(channel):
        with pytest.raises(acp.ClosedError, match="receives nothing more"):
            list(map(channel.send, itertools.repeat(b"x")))
    elif is_destination(channel):
        channel.recv()
        channel.close()


def test_an_end_shows_by_poll_that_it_is_over(pair):
    channel = pair(size=8)
    if is_source(channel):
        channel.close()
        assert channel.poll()
    elif is_destination(channel):
        until(channel.poll)
        with pytest.raises(acp.EndOfChannel):
            channel.recv(timeout=0)


def test_an_end_that_is_dropped_is_closed():
    acp.sync()
    last, used = acp.procs() - 1, acp.heap_statistics().used
    if last and acp.rank() in (0, last):
        channel = acp.Channel(0, last, size=1000)
        if channel.sends:
            channel.send(b"last")
        else:
            assert list(map(bytes, channel)) == [b"last"]
        del channel
    acp.sync()
    while acp.heap_statistics().used > used:
        pass  # the ring goes back; a hang is a failed test


def test_a_ring_for_which_the_heap_has_no_room_is_refused_and_not_counted(pair):
    if acp.procs() > 1 and acp.rank() == acp.procs() - 1:
        with pytest.raises(acp.HeapFullError):
            acp.Channel(0, acp.rank(), size=1 << 38, slots=8)
    channel = pair(size=8)
    if is_source(channel):
        channel.send(b"meets")
    elif is_destination(channel):
        assert channel.recv() == b"meets"


def test_ends_meet_in_the_order_of_their_creation(pair):
    first = [pair(size=8, slots=2) for _ in range(10)]
    back = [pair(back=True, size=8, slots=2) for _ in range(10)]
    for i in reversed(range(10)):
        for channel in (first[i], back[i]):
            if is_source(channel):
                channel.send(b"%d" % i)
    for i in range(10):
        for channel in (first[i], back[i]):
            if is_destination(channel):
                assert channel.recv() == b"%d" % i


def test_ends_that_threads_create_there_and_back_meet_in_order(pair):
    with ThreadPoolExecutor(2) as pool:
        ways = [
            pool.submit(lambda back: [pair(back, size=8) for _ in range(40)], b) for b in (0, 1)
        ]
    there, back = (way.result() for way in ways)
    for i, ends in enumerate(zip(there, back, strict=True)):
        for channel in filter(is_source, ends):
            channel.send(b"%d" % i)
    for i, ends in enumerate(zip(there, back, strict=True)):
        for channel in filter(is_destination, ends):
            assert channel.recv() == b"%d" % i


@pytest.mark.parametrize("alone", ["sender", "receiver"])
def test_an_end_without_another_is_given_up(alone):
    acp.sync()
    last, used = acp.procs() - 1, acp.heap_statistics().used
    first = 0 if alone == "sender" else last
    if last and acp.rank() == first:
        with acp.Channel(0, last, size=1000) as channel:
            with pytest.raises(TimeoutError):
                channel.send(b"", timeout=0.01) if channel.sends else channel.recv(timeout=0.01)
            assert not channel.connected
        while acp.heap_statistics().used > used:
            pass  # the ring goes back; a hang is a failed test
        acp.send(None, last - first, 1)
    elif last and acp.rank() == last - first:
        acp.recv(source=first, tag=1)
        channel = acp.Channel(0, last, size=1000)  # it is met all the same
        with channel, pytest.raises(acp.ClosedError if channel.sends else acp.EndOfChannel):
            list(map(channel.send, itertools.repeat(b""))) if channel.sends else channel.recv()
    acp.sync()


def test_ends_that_differ_are_refused(pair):
    last = acp.procs() - 1
    for what, ours, theirs in (("size", 8, 16), ("slots", 2, 3), ("dtype", "i4", "f4")):
        channel = pair(**{what: ours if acp.rank() == 0 else theirs})
        if channel is not None:
            with pytest.raises(ValueError, match="give the same on both"):
                channel.send(
                    np.zeros(1, channel.dtype or "u1")
                ) if channel.sends else channel.recv()
            acp.barrier([0, last])


def test_close_ends_a_wait_of_another_thread(pair):
    channel = pair(size=8, slots=2)
    if is_destination(channel):
        thread = threading.Thread(target=channel.close)
        thread.start()
        with pytest.raises(acp.ClosedError):
            channel.recv()
        thread.join()
    if channel is not None:
        acp.barrier([0, acp.procs() - 1])  # the sender must not close first


def test_memory_goes_back_when_both_have_closed(pair):
    acp.sync()
    before = acp.heap_statistics().used
    for closed_first in (True, False):
        start = acp.heap_statistics().used
        channels = [pair(size=1000, slots=4) for _ in range(20)]
        taken = acp.heap_statistics().used - start
        if channels[0] is not None:
            if is_destination(channels[0]):
                rings = 20 * (176 + 4 * 1024)
                assert rings <= taken < 1.1 * rings
                assert rings < sum(channel.memory for channel in channels) < rings + 20 * 1024
            else:
                assert taken < 1000  # a ring is more
                assert 0 < channels[0].memory < 1024
            acp.barrier([0, acp.procs() - 1])
            for channel in channels:
                if is_source(channel):
                    channel.send(b"x")
            acp.barrier([0, acp.procs() - 1])
            if is_source(channels[0]) == closed_first:
                for channel in channels:
                    channel.close()
            acp.barrier([0, acp.procs() - 1])
            for channel in channels:
                channel.close()
        del channels
        acp.sync()
        while acp.heap_statistics().used > before:
            pass  # the progress thread gives it back; a hang is a failed test


def lives(count):
    """Create a channel, send a message by it, and close it, one after the other."""
    last = acp.procs() - 1
    for i in range(count if last and acp.rank() in (0, last) else 0):
        with acp.Channel(0, last, size=64, slots=2) as channel:
            if channel.sends:
                channel.send(b"%d" % i)
            else:
                assert channel.recv() == b"%d" % i
    acp.sync()


def anonymous():
    """Return the bytes of private memory that this process has written."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return int(text.partition("\nAnonymous:")[2].split()[0]) * 1024


@pytest.mark.parametrize(
    "count", [2000, pytest.param(10**6, marks=[pytest.mark.campaign, pytest.mark.timeout(7200)])]
)
def test_memory_is_flat_however_many_channels_there_were(count):
    lives(500)
    heap, own = acp.heap_statistics().used, anonymous()
    lives(count)
    while acp.heap_statistics().used > heap:
        pass  # the progress thread gives it back; a hang is a failed test
    assert anonymous() - own < max(count * 50, 200_000)  # an end takes more than 300 bytes
