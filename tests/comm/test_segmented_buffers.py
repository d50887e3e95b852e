"""Segmented buffers: what is full and what is free, on both sides, and bytes where they belong."""

import array
import contextlib
import pickle
import random

import numpy as np
import pytest
from segmented import MEMORY, is_destination, is_source, meet, until

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def reads(end, head, tail):
    return (end.head, end.tail) == (head, tail)


@pytest.mark.parametrize("segments", [1, 2, 5])
@pytest.mark.parametrize("memory", MEMORY)
def test_a_stream_comes_in_order_and_ends(open_ends, memory, segments):
    buffer = MEMORY[memory]((segments * 3, 1000), "i8")
    end, count = open_ends(buffer, segments), 7 * segments + 1
    if is_source(end):
        for i in range(count):
            with end.fill() as segment:
                assert segment.shape == (3, 1000)
                assert np.shares_memory(segment, buffer[i % segments * 3])
                segment[:] = i
        assert (end.tail, end.sent) == (count, count)
        end.wait_empty()
        assert end.head == count
        end.close()
    elif is_destination(end):
        seen = []
        for segment in end:
            assert np.shares_memory(segment, buffer[len(seen) % segments * 3])
            assert (segment == len(seen)).all()
            seen.append(segment)
        assert len(seen) == count
        with pytest.raises(acp.EndOfChannel):
            end.wait_acked()


@pytest.mark.parametrize("memory", MEMORY)
def test_each_state_reads_the_same_at_both_ends(open_ends, memory):
    buffer = MEMORY[memory](8, "i4")
    end = open_ends(buffer, 4)
    if end is None:
        return
    assert end.head == 0
    end.connect()
    assert end.connected
    if end.sends:  # empty
        assert end.isready()
        end.wait_empty()
        buffer[:6] = range(6)
        end.ack(3)
        assert (end.head, end.tail, end.sent) == (0, 3, 3)
        assert end.isready()
    meet()
    if not end.sends:
        end.wait_acked()
        until(lambda: reads(end, 0, 3))
        assert end.isacked()
        assert buffer.tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    meet()
    if end.sends:  # full
        buffer[6:] = 6, 7
        end.ack()
        assert not end.isready()
        with pytest.raises(acp.Error, match="0 of 4 are free"):
            end.ack()
        with pytest.raises(TimeoutError, match="released no segment"):
            end.wait_ready(timeout=0.01)
        with pytest.raises(TimeoutError):
            end.wait_empty(timeout=0)
        assert (end.head, end.tail) == (0, 4)
    meet()
    if not end.sends:
        until(lambda: reads(end, 0, 4))
        assert buffer.tolist() == list(range(8))
        end.ready(2)
        assert reads(end, 2, 4)
    meet()
    if end.sends:  # around the end
        end.wait_ready()
        until(lambda: reads(end, 2, 4))
        with pytest.raises(acp.Error, match="2 of 4 are free"):
            end.ack(3)
        buffer[:4] = 8, 9, 10, 11
        end.ack(2)
        assert reads(end, 2, 6)
    meet()
    if not end.sends:
        until(lambda: reads(end, 2, 6))
        assert buffer.tolist() == [8, 9, 10, 11, 4, 5, 6, 7]
        end.ready(3)
        with pytest.raises(acp.Error, match="1 of 4 are full"):
            end.ready(2)
        end.ready()
        assert not end.isacked()
        with pytest.raises(TimeoutError, match="acked no segment"):
            end.wait_acked(timeout=0.01)
        with pytest.raises(acp.Error, match="0 of 4 are full"):
            end.ready()
    else:
        end.wait_empty()
        assert reads(end, 6, 6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("memory", MEMORY)
def test_random_steps_are_those_of_a_model(open_ends, memory, seed):
    chosen = random.Random(seed)
    segments, width = chosen.randint(1, 6), chosen.randint(1, 40)
    buffer = MEMORY[memory]((segments, width), "u2")
    end, head, tail = open_ends(buffer, segments), 0, 0
    for _ in range(40):
        acks, n = chosen.random() < 0.5, chosen.randint(1, segments + 1)
        possible = segments - (tail - head) if acks else tail - head
        refusal = ValueError if n > segments else acp.Error if n > possible else None
        if end is not None and acks == end.sends:
            end.connect()
            for i in range(tail, tail + n if acks and not refusal else tail):
                buffer[i % segments] = i
            with pytest.raises(refusal) if refusal else contextlib.nullcontext():
                end.ack(n) if acks else end.ready(n)
        head, tail = head + n * (not acks and not refusal), tail + n * (acks and not refusal)
        if end is not None:
            until(lambda: reads(end, head, tail))  # noqa: B023
            for i in range(head, tail):
                assert (buffer[i % segments] == i).all()
            meet()


@pytest.mark.parametrize("seed", range(2))
def test_several_segments_at_a_time_at_any_speed(open_ends, seed):
    segments, count = 7, 2000
    buffer = acp.zeros(segments, "i8")
    end = open_ends(buffer, segments)
    chosen = random.Random(seed * 2 + (end is not None and end.sends))
    if is_source(end):
        while end.tail < count:
            end.wait_ready()
            free = min(segments - (end.tail - end.head), count - end.tail)
            n = chosen.randint(1, free)
            for i in range(end.tail, end.tail + n):
                buffer[i % segments] = i
            end.ack(n)
    elif is_destination(end):
        while end.head < count:
            end.wait_acked()
            n = chosen.randint(1, end.tail - end.head)
            for i in range(end.head, end.head + n):
                assert buffer[i % segments] == i
            end.ready(n)


def test_many_at_once_both_ways(open_ends):
    """Those that are created k-th meet, beside channels, whatever is used first."""
    last, count = acp.procs() - 1, 250
    if not last or acp.rank() not in (0, last):
        return
    here = acp.rank()
    early = acp.Channel(0, last) if here else None
    there = [open_ends(np.zeros(2, "i8"), 2) for _ in range(count)]
    back = [open_ends(acp.zeros(2, "i8"), 2, back=True) for _ in range(count)]
    channel = early or acp.Channel(0, last)
    out, into = (there, back) if here == 0 else (back, there)
    for i in reversed(range(count)):
        with out[i].fill() as segment:
            segment[:] = here * count + i
    for i in range(count):
        into[i].wait_acked()
        assert next(iter(into[i])).tolist() == [(last - here) * count + i]
        into[i].ready()
    for end in out:
        end.wait_empty()
    channel.send(b"x") if channel.sends else channel.recv()
    channel.close()


def test_buffers_of_all_kinds(open_ends):
    record = np.dtype([("a", "i2"), ("b", "f4", 3)])
    for whole in (
        bytearray(range(12)),
        array.array("h", range(12)),
        memoryview(bytearray(range(12))).cast("i"),
        memoryview(bytearray(range(12))).cast("B", (6, 2)),
        np.arange(84, dtype="u1").view(record),
        np.arange(12).view("M8[s]").reshape(6, 2),
        np.asfortranarray(np.arange(6.0)),
    ):
        buffer = whole.copy() if isinstance(whole, np.ndarray) else whole
        expected = np.asarray(whole).tobytes()
        segments = 3 if len(buffer) % 2 else 2
        end = open_ends(buffer, segments)
        if is_source(end):
            end.wait_ready()
            end.ack(segments)
            end.wait_empty()
        elif is_destination(end):
            until(lambda: end.tail == segments)  # noqa: B023
            assert np.asarray(buffer).tobytes() == expected
            size = len(expected) // segments
            for i, segment in zip(range(segments), end, strict=False):
                assert np.asarray(segment).tobytes() == expected[i * size : i * size + size]
            end.ready()
    end = open_ends(b"never changed" if acp.rank() == 0 else bytearray(13), 1)
    if is_source(end):
        end.wait_ready()
        end.ack()
    elif is_destination(end):
        assert bytes(next(iter(end))) == b"never changed"


def test_an_exception_in_fill_sends_nothing_and_a_break_releases_nothing(open_ends):
    end = open_ends(np.zeros(2), 2)
    if is_source(end):
        with contextlib.suppress(KeyError), end.fill() as segment:
            segment[:] = -1
            raise KeyError
        assert end.tail == 0
        for i in (1, 2):
            with end.fill() as segment:
                segment[:] = i
    elif is_destination(end):
        for segment in end:
            assert segment[0] == 1
            break
        assert end.head == 0
        assert [float(segment[0]) for _, segment in zip(range(2), end, strict=False)] == [1, 2]


def test_wrong_arguments_are_named(open_ends):
    last = acp.procs() - 1
    other = {"to": last} if acp.rank() == 0 else {"source": 0}
    with pytest.raises(acp.RankError, match="two ranks"):
        acp.SegmentedBuffer(bytearray(4), 2, to=acp.rank())
    with pytest.raises(acp.RankError, match="no rank"):
        acp.SegmentedBuffer(bytearray(4), 2, source=acp.procs())
    for wrong in ({}, {"to": 0, "source": 0}):
        with pytest.raises(TypeError, match="give to=rank"):
            acp.SegmentedBuffer(bytearray(4), 2, **wrong)
    for buffer, segments, message in (
        (np.zeros(5), 2, "divisible by 2"),
        (np.zeros((2, 4)), 4, "divisible by 4"),
        (np.zeros(0), 1, "divisible"),
        (np.array(1.0), 1, "divisible"),
        (np.zeros((4, 4))[:, ::2], 2, "contiguous"),
        (np.zeros(4), 0, "SegmentedBuffer: .* 1 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            acp.SegmentedBuffer(buffer, segments, **other)
    with pytest.raises(ValueError, match="read-only"):
        acp.SegmentedBuffer(bytes(4), 2, source=0)
    with pytest.raises(TypeError, match="integer"):
        acp.SegmentedBuffer(bytearray(4), 2.0, **other)
    with pytest.raises(TypeError):
        acp.SegmentedBuffer(np.array([None, None]), 2, **other)
    end = open_ends(bytearray(4), 2)
    if end is None:
        return
    with pytest.raises(ValueError, match="65536"):
        acp.SegmentedBuffer(np.zeros(1 << 17, "u1"), 1 << 17, **other)
    assert f"rank {end.peer}" in repr(end)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(end)
    end.connect()
    for n, error in ((3, ValueError), (0, ValueError), (-1, ValueError), (1.0, TypeError)):
        with pytest.raises(error):
            end.ack(n) if end.sends else end.ready(n)
    wrong = (
        (end.ready, end.wait_acked, end.isacked, lambda: next(iter(end)))
        if end.sends
        else (end.ack, end.wait_ready, end.isready, end.wait_empty, lambda: end.sent)
    )
    for call in (*wrong, *(() if end.sends else (lambda: end.fill().__enter__(),))):
        with pytest.raises(acp.Error, match=f"rank {end.peer}, the .*, calls that"):
            call()
