"""Channels: order, pieces, views that keep their slots, what waits for one or several."""

import contextlib
import gc
import mmap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from segmented import is_destination, is_source, meet, until

import acp_mpi as acp

pytestmark = pytest.mark.mpi

SIZES = [0, 1, 7, 8, 55, 56, 57, 63, 64]
STRUCTURED = ("S3", "U2", "V7", "M8[s]", "m8[ns]", [("a", "i2"), ("b", "f4", 3)])


@pytest.mark.parametrize("slots", [1, 2, 8])
@pytest.mark.parametrize("size", [1, 56, 64])
def test_messages_of_all_sizes_come_in_order(pair, size, slots):
    lengths = [n for n in (*SIZES, size, 3 * size, 3 * size + 1) for _ in range(3)]
    channel = pair(size=size, slots=slots)
    if is_source(channel):
        for i, n in enumerate(lengths):
            channel.send(bytes((i + k) % 251 for k in range(n)))
    elif is_destination(channel):
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
    if is_source(there):
        for i in range(2000):
            there.send(np.array([i]))
            if i >= 3:
                assert back.recv()[0] == i - 3
    elif is_destination(there):
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
        if is_source(channel):
            channel.send(values)
            channel.send(values[::2])
            with pytest.raises(TypeError, match="convert them"):
                channel.send(np.zeros(3, other))
        elif is_destination(channel):
            got, into = channel.recv(), np.zeros(4, dtype)
            with pytest.raises(TypeError, match="give one of that type"):
                channel.recv(np.zeros(4, other))
            assert got.dtype == dtype
            assert got.tobytes() == values.tobytes()
            assert channel.recv(into)[:3].tobytes() == values[::2].tobytes()
    channel = pair(size=64, dtype=object)
    things = [None, {"a": [1, 2]}, "x" * 1000, b"y"]
    if is_source(channel):
        for thing in things:
            channel.send(thing)
    elif is_destination(channel):
        assert [channel.recv() for _ in things] == things


@pytest.mark.parametrize("size", [80, 4096, 2 << 20])
def test_a_slot_is_written_and_read_where_it_lies(pair, size):
    channel = pair(size=size, slots=4, dtype="i8")
    if is_source(channel):
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
    elif is_destination(channel):
        with channel.take() as view:
            assert view.tolist() == [0, 1, 2, 3]
            assert not view.flags.writeable
        assert [view.tolist() for view in channel] == [[7, 8, 9]]
        with pytest.raises(acp.EndOfChannel):
            channel.recv()


def test_views_keep_their_slots_until_they_go(pair):
    channel = pair(size=8, slots=3, dtype="i8")
    if is_source(channel):
        for i in range(12):
            channel.send(np.array([i]))
    elif is_destination(channel):
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
    if is_source(channel):
        for i in range(20):
            channel.send(b"%d" % i)
    elif is_destination(channel):
        for i in range(20):
            with channel.take() as view:
                cycle = [memoryview(view)]
            cycle.append(cycle)
            assert bytes(cycle[0]) == b"%d" % i
            del view, cycle
            gc.collect()


def test_a_loop_over_one_slot_is_told_that_its_variable_keeps_it(pair):
    channel = pair(size=8, slots=1)
    if is_source(channel):
        channel.send(b"1")
        channel.send(b"2")
    elif is_destination(channel):
        view = next(channel)
        with pytest.raises(BufferError, match="copy"):
            next(channel)
        assert bytes(view) == b"1"
        del view
        assert channel.recv() == b"2"


def test_a_refused_reset_closes_no_channel(pair):
    channel = pair(size=8)
    if acp.procs() > 1:
        with pytest.raises(acp.RankError):
            acp.reset(0)
    if is_source(channel):
        channel.send(b"on")
    elif is_destination(channel):
        assert channel.recv() == b"on"


def test_a_full_ring_holds_its_sender_up(pair):
    channel = pair(size=8, slots=2)
    if is_source(channel):
        channel.send(b"1")
        channel.send(b"2")
        with pytest.raises(TimeoutError, match="no slot"):
            channel.send(b"lost", timeout=0.01)
        assert not channel.poll()
        acp.send(None, channel.peer, 1)
        channel.send(b"3")
        acp.recv(source=channel.peer, tag=1)
    elif is_destination(channel):
        acp.recv(source=channel.peer, tag=1)
        assert [channel.recv() for _ in range(3)] == [b"1", b"2", b"3"]
        with pytest.raises(TimeoutError, match="no message"):
            channel.recv(timeout=0.01)
        acp.send(None, channel.peer, 1)


def test_one_of_several_channels_is_chosen(pair):
    channels = [pair(size=8, slots=2) for _ in range(3)]
    if is_source(channels[0]):
        for i in range(30):
            channels[i % 3].send(b"%d" % i)
        for channel in channels:
            channel.close()
    elif is_destination(channels[0]):
        got = {channel: [] for channel in channels}
        for _ in range(33):
            channel = acp.select(channels)
            with contextlib.suppress(acp.EndOfChannel):
                got[channel].append(int(channel.recv()))
        with pytest.raises(acp.EndOfChannel, match="all of the 3"):
            acp.select(channels)
        assert [got[channel] for channel in channels] == [list(range(i, 30, 3)) for i in range(3)]


def test_what_waits_for_several_channels_takes_turns(pair):
    channels = [pair(size=8, slots=4) for _ in range(3)]
    if is_source(channels[0]):
        meet()
        for channel in channels * 3:
            channel.send(b"x")
        meet()
    elif is_destination(channels[0]):
        assert not any(channel.poll() for channel in channels)
        for timeout in (0, 0.01):
            with pytest.raises(TimeoutError, match="nothing came on 3"):
                acp.select(channels, timeout=timeout)
        meet()
        until(lambda: all(channel.pending == 3 for channel in channels))
        assert all(channel.poll() for channel in channels)
        chosen = []
        for _ in range(9):
            chosen.append(acp.select(channels))
            chosen[-1].recv()
        assert all(set(chosen[i : i + 3]) == set(channels) for i in (0, 3, 6))
        assert not any(channel.poll() for channel in channels)
        meet()


def test_only_receiving_ends_are_waited_for_together(pair):
    channel = pair(size=8)
    with pytest.raises(TypeError, match="no Channel"):
        acp.select(["a channel"])
    if is_source(channel):
        with pytest.raises(acp.Error, match="calls that"):
            acp.select([channel])


def test_threads_take_turns(pair):
    channel = pair(size=8, slots=2, dtype="i8")
    if is_source(channel):
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda i: channel.send(np.array([i])), range(300), timeout=600))
        channel.close()
    elif is_destination(channel):
        got = []

        def receive(_):
            with contextlib.suppress(acp.EndOfChannel):  # a view would hold up all slots
                while True:
                    got.append(int(channel.recv()[0]))

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(receive, range(2), timeout=600))
        assert sorted(got) == list(range(300))


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
