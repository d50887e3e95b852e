"""How segmented buffers end: what the other end hears, what differs, and what is given back."""

import contextlib
import threading

import numpy as np
import pytest
from segmented import MEMORY, fill_for_ever, is_destination, is_source, meet, until

import acp_mpi as acp
from acp_mpi.rma import registration

pytestmark = pytest.mark.mpi


def test_the_destination_hears_of_the_end_after_all_segments(open_ends):
    end = open_ends(np.zeros(3), 3)
    if is_source(end):
        end.wait_ready()
        end.ack(3)
        end.close()
        end.disconnect()
        assert end.closed
        assert not end.connected
        for call in (end.ack, end.isready, end.wait_ready, end.connect, end.wait_empty):
            with pytest.raises(acp.ClosedError):
                call()
    elif is_destination(end):
        until(lambda: end.tail == 3)
        for _ in range(3):
            end.wait_acked()
            end.ready()
        for call in (end.wait_acked, end.isacked):
            with pytest.raises(acp.EndOfChannel):
                call()
        assert list(end) == []


@pytest.mark.parametrize("memory", MEMORY)
def test_no_byte_comes_when_the_destination_has_closed(open_ends, memory):
    buffer = MEMORY[memory]((4, 50_000), "u1")
    end = open_ends(buffer, 4)
    if is_source(end):
        with pytest.raises(acp.ClosedError, match="has closed its end"):
            fill_for_ever(end)
        with pytest.raises(acp.ClosedError):
            fill_for_ever(end)
        meet()
    elif is_destination(end):
        for _ in range(10):
            end.wait_acked()
            end.ready()
        end.close()
        buffer[:] = 77
        meet()
        assert (buffer == 77).all()
        for call in (end.ready, end.wait_acked, end.isacked):
            with pytest.raises(acp.ClosedError):
                call()


def test_ends_that_differ_are_refused_on_both(open_ends):
    for ours, theirs in (((6, 2), (6, 3)), ((6, 2), (12, 2))):
        rows, segments = ours if acp.rank() == 0 else theirs
        end = open_ends(np.zeros(rows), segments)
        if end is not None:
            with pytest.raises(ValueError, match="give the same on both"):
                end.connect()
            with pytest.raises(ValueError, match=f"this end has {segments} segments"):
                end.ack() if end.sends else end.wait_acked()
            meet()


def test_an_end_without_another_is_given_up(open_ends):
    last = acp.procs() - 1
    used = acp.heap_statistics().used
    if last and acp.rank() == last:
        with acp.SegmentedBuffer(bytearray(8), 4, source=0) as end:
            with pytest.raises(TimeoutError, match="not created its end"):
                end.connect(timeout=0.01)
            assert not end.connected
            assert not end.isacked()
            with pytest.raises(acp.Error, match="0 of 4 are full"):
                end.ready()
        until(lambda: acp.heap_statistics().used <= used)
        acp.send(None, 0, 1)
    elif last and acp.rank() == 0:
        acp.recv(source=last, tag=1)
        with acp.SegmentedBuffer(np.zeros(8, "u1"), 4, to=last) as end:
            end.wait_empty()  # nothing was acked
            with pytest.raises(acp.ClosedError):  # it is met all the same
                fill_for_ever(end)


def test_close_ends_a_wait_of_another_thread(open_ends):
    end = open_ends(bytearray(4), 1)
    if end is not None:
        if end.sends:
            end.wait_ready()
            end.ack()
        thread = threading.Thread(target=end.close)
        with pytest.raises(acp.ClosedError) if end.sends else contextlib.nullcontext():
            if end.sends:
                meet()
                thread.start()
                end.wait_ready()
            else:
                end.wait_acked()
                meet()
                thread.start()
        thread.join()


def test_ends_that_are_dropped_are_closed_and_give_their_memory_back():
    last = acp.procs() - 1
    if not last or acp.rank() not in (0, last):
        return
    before, keys = acp.heap_statistics().used, len(registration._published)
    for _ in range(3):
        other = {"to": last} if acp.rank() == 0 else {"source": 0}
        ends = [acp.SegmentedBuffer(bytearray(1000), 1000, **other) for _ in range(20)]
        for end in ends:
            end.connect()
        meet()
        del ends, end
    until(lambda: acp.heap_statistics().used <= before)
    assert len(registration._published) == keys
