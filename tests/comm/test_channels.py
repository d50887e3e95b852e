"""Channels: order, pieces, views that keep their slots, ends, what a side learns of the other."""

import contextlib
import gc
import itertools
import mmap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.mpi

SIZES = [0, 1, 7, 8, 55, 56, 57, 63, 64]
STRUCTURED = ("S3", "U2", "V7", "M8[s]", "m8[ns]", [("a", "i2"), ("b", "f4", 3)])


@pytest.fixture
def pair():
    """Open channels between rank 0 and the last rank, there and back; None on other ranks."""
    acp.sync()
    opened = []
    last = acp.procs() - 1

    def make(back=False, **arguments):
        sender, receiver = (last, 0) if back else (0, last)
        if not last or acp.rank() not in (sender, receiver):
            return None
        opened.append(acp.Channel(sender, receiver, **arguments))
        return opened[-1]

    yield make
    for channel in opened:
        channel.close()
    acp.sync()


def sends(channel):
    return channel is not None and channel.sends


def receives(channel):
    return channel is not None and not channel.sends


@pytest.mark.parametrize("slots", [1, 2, 8])
@pytest.mark.parametrize("size", [1, 56, 64])
def test_messages_of_all_sizes_come_in_order(pair, size, slots):
    lengths = [n for n in (*SIZES, size, 3 * size, 3 * size + 1) for _ in range(3)]
    channel = pair(size=size, slots=slots)
    if sends(channel):
        for i, n in enumerate(lengths):
            channel.send(bytes((i + k) % 251 for k in range(n)))
    elif receives(channel):
        for i, n in enumerate(lengths):
            expected = bytes((i + k) % 251 for k in range(n))
            if i % 2:
                buffer = bytearray(b"\xff" * (n + 3))
                status = acp.Status()
                assert channel.recv(buffer, status=status) is buffer
                assert (bytes(buffer), status.size) == (expected + b"\xff" * 3, n)
            else:
                assert channel.recv() == expected


def test_a_stream_both_ways_is_whole(pair):
    there, back = pair(size=8, slots=4, dtype="i8"), pair(back=True, size=8, slots=4, dtype="i8")
    if sends(there):
        for i in range(2000):
            there.send(np.array([i]))
            if i >= 3:
                assert back.recv()[0] == i - 3
    elif receives(there):
        for i in range(2000):
            value = there.recv()
            assert value[0] == i
            if i < 1997:
                back.send(value)


def test_elements_and_objects_come_as_they_were_sent(pair):
    plain = [code for code in np.typecodes["All"] if code not in "OSUVMm"]
    other = [("of another type", "u1")]
    for dtype in (*plain, ">i4", ">f8", *STRUCTURED):
        channel = pair(size=256, slots=2, dtype=dtype)
        values = np.arange(24 * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype)[:5]
        if sends(channel):
            channel.send(values)
            channel.send(values[::2])
            with pytest.raises(TypeError, match="convert them"):
                channel.send(np.zeros(3, other))
        elif receives(channel):
            got, into = channel.recv(), np.zeros(4, dtype)
            with pytest.raises(TypeError, match="give one of that type"):
                channel.recv(np.zeros(4, other))
            assert got.dtype == dtype
            assert got.tobytes() == values.tobytes()
            assert channel.recv(into)[:3].tobytes() == values[::2].tobytes()
    channel = pair(size=64, dtype=object)
    things = [None, {"a": [1, 2]}, "x" * 1000, b"y"]
    if sends(channel):
        for thing in things:
            channel.send(thing)
    elif receives(channel):
        assert [channel.recv() for _ in things] == things


@pytest.mark.parametrize("size", [80, 4096, 2 << 20])
def test_a_slot_is_written_and_read_where_it_lies(pair, size):
    channel = pair(size=size, slots=4, dtype="i8")
    if sends(channel):
        with channel.reserve(4) as view:
            view[:] = range(4)
        with contextlib.suppress(KeyError), channel.reserve() as view:
            view[:] = -1
            raise KeyError
        with channel.reserve() as view:
            assert view.nbytes == size
            view[:3] = 7, 8, 9
            channel.commit(3)
            with pytest.raises(acp.Error, match="inside reserve"):
                channel.send(view)
        channel.close()
    elif receives(channel):
        with channel.take() as view:
            assert view.tolist() == [0, 1, 2, 3]
            assert not view.flags.writeable
        assert [view.tolist() for view in channel] == [[7, 8, 9]]
        with pytest.raises(acp.EndOfChannel):
            channel.recv()


def test_views_keep_their_slots_until_they_go(pair):
    channel = pair(size=8, slots=3, dtype="i8")
    if sends(channel):
        for i in range(12):
            channel.send(np.array([i]))
    elif receives(channel):
        kept = []
        for _ in range(3):
            with channel.take() as view:
                kept.append(view)
        del view
        with pytest.raises(BufferError, match="copy"):
            channel.recv()
        assert [view[0] for view in kept] == [0, 1, 2]
        assert channel.statistics().held == 3
        kept = [view.copy() for view in kept]
        assert [channel.recv()[0] for _ in range(9)] == list(range(3, 12))
        assert [view[0] for view in kept] == [0, 1, 2]


def test_a_view_in_a_cycle_gives_its_slot_back(pair):
    channel = pair(size=8, slots=1)
    if sends(channel):
        for i in range(20):
            channel.send(b"%d" % i)
    elif receives(channel):
        for i in range(20):
            with channel.take() as view:
                cycle = [memoryview(view)]
            cycle.append(cycle)
            assert bytes(cycle[0]) == b"%d" % i
            del view, cycle
            gc.collect()


def test_a_refused_reset_closes_no_channel(pair):
    channel = pair(size=8)
    if acp.procs() > 1:
        with pytest.raises(acp.RankError):
            acp.reset(0)
    if sends(channel):
        channel.send(b"on")
    elif receives(channel):
        assert channel.recv() == b"on"


def test_a_full_ring_holds_its_sender_up(pair):
    channel = pair(size=8, slots=2)
    if sends(channel):
        channel.send(b"1")
        channel.send(b"2")
        with pytest.raises(TimeoutError, match="no slot"):
            channel.send(b"lost", timeout=0.01)
        assert not channel.poll()
        acp.send(None, channel.peer, 1)
        channel.send(b"3")
        acp.recv(source=channel.peer, tag=1)
    elif receives(channel):
        acp.recv(source=channel.peer, tag=1)
        assert [channel.recv() for _ in range(3)] == [b"1", b"2", b"3"]
        with pytest.raises(TimeoutError, match="no message"):
            channel.recv(timeout=0.01)
        acp.send(None, channel.peer, 1)


def test_each_side_learns_that_the_other_has_closed(pair):
    channel = pair(size=8, slots=2)
    if sends(channel):
        channel.send(b"last")
        channel.close()
        channel.close()
        assert channel.closed
        with pytest.raises(acp.ClosedError):
            channel.send(b"more")
    elif receives(channel):
        assert channel.recv() == b"last"
        with pytest.raises(acp.EndOfChannel):
            channel.recv()
        with pytest.raises(EOFError):
            channel.recv(timeout=0)
    channel = pair(size=8, slots=2)
    if sends(channel):
        with pytest.raises(acp.ClosedError, match="receives nothing more"):
            list(map(channel.send, itertools.repeat(b"x")))
    elif receives(channel):
        channel.recv()
        channel.close()


def test_ends_meet_in_the_order_of_their_creation(pair):
    first = [pair(size=8, slots=2) for _ in range(10)]
    back = [pair(back=True, size=8, slots=2) for _ in range(10)]
    for i in reversed(range(10)):
        for channel in (first[i], back[i]):
            if sends(channel):
                channel.send(b"%d" % i)
    for i in range(10):
        for channel in (first[i], back[i]):
            if receives(channel):
                assert channel.recv() == b"%d" % i


def test_ends_that_threads_create_there_and_back_meet_in_order(pair):
    with ThreadPoolExecutor(2) as pool:
        ways = [
            pool.submit(lambda back: [pair(back, size=8) for _ in range(40)], b) for b in (0, 1)
        ]
    there, back = (way.result() for way in ways)
    for i, ends in enumerate(zip(there, back, strict=True)):
        for channel in filter(sends, ends):
            channel.send(b"%d" % i)
    for i, ends in enumerate(zip(there, back, strict=True)):
        for channel in filter(receives, ends):
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


def test_one_of_several_channels_is_chosen(pair):
    channels = [pair(size=8, slots=2) for _ in range(3)]
    if sends(channels[0]):
        for i in range(30):
            channels[i % 3].send(b"%d" % i)
        for channel in channels:
            channel.close()
    elif receives(channels[0]):
        got = {channel: [] for channel in channels}
        for _ in range(33):
            channel = acp.select(channels)
            with contextlib.suppress(acp.EndOfChannel):
                got[channel].append(int(channel.recv()))
        with pytest.raises(acp.EndOfChannel, match="all of the 3"):
            acp.select(channels)
        assert [got[channel] for channel in channels] == [list(range(i, 30, 3)) for i in range(3)]


def test_threads_take_turns(pair):
    channel = pair(size=8, slots=2, dtype="i8")
    if sends(channel):
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda i: channel.send(np.array([i])), range(300), timeout=600))
        channel.close()
    elif receives(channel):
        got = []

        def receive(_):
            with contextlib.suppress(acp.EndOfChannel):  # a view would hold up all slots
                while True:
                    got.append(int(channel.recv()[0]))

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(receive, range(2), timeout=600))
        assert sorted(got) == list(range(300))


def test_close_ends_a_wait_of_another_thread(pair):
    channel = pair(size=8, slots=2)
    if receives(channel):
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
        channels = [pair(size=1000, slots=4) for _ in range(20)]
        if channels[0] is not None:
            if receives(channels[0]):
                rings = 20 * (176 + 4 * 1024)
                assert rings <= acp.heap_statistics().used
                assert rings < sum(channel.memory for channel in channels) < rings + 20 * 1024
            else:
                assert 0 < channels[0].memory < 1024
            acp.barrier([0, acp.procs() - 1])
            for channel in channels:
                if sends(channel):
                    channel.send(b"x")
            acp.barrier([0, acp.procs() - 1])
            if sends(channels[0]) == closed_first:
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


def test_wrong_arguments_are_named(pair):
    last = acp.procs() - 1
    with pytest.raises(acp.RankError, match="two ranks"):
        acp.Channel(0, 0)
    with pytest.raises(acp.RankError, match="no rank"):
        acp.Channel(0, acp.procs())
    channel = pair(size=16)
    if channel is None:
        return
    with pytest.raises(TypeError, match=r"select: one Channel is not a list .* recv\(\)"):
        acp.select(channel, timeout=0.1)  # a list of it would wait for all that it brings
    with pytest.raises(TypeError, match="Channel: 'nothing' is not a type of elements"):
        acp.Channel(0, last, dtype="nothing")
    if channel.sends:
        access = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, "prot": mmap.PROT_READ}
        with mmap.mmap(-1, 1 << 39, **access) as huge, pytest.raises(ValueError, match="2\\*\\*39"):
            channel.send(huge)
    with pytest.raises(ValueError, match="slots=0"):
        acp.Channel(0, last, slots=0)
    with pytest.raises(ValueError, match="fixed size"):
        acp.Channel(0, last, size=4, dtype="f8")
    with pytest.raises(acp.Error, match=f"rank {channel.peer}, calls that"):
        channel.recv() if channel.sends else channel.send(b"x")
    with pytest.raises(TypeError, match="pickled"):
        __import__("pickle").dumps(channel)
    assert f"rank {channel.peer}" in repr(channel)
