"""Segmented buffers across groups, under SIGKILL, and under Ctrl-C."""

import os
import random
import signal
from pathlib import Path

import alarm
import launch
import numpy as np
import pytest

import acp_mpi as acp


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_both_ends(folder, seed):
    """Rank 2 sends to 0, receives of 1, and dies anywhere; what it has acked comes."""
    acp.init()
    rank, chosen = acp.rank(), random.Random(int(seed))
    count, segments = chosen.randrange(200), chosen.randint(1, 5)
    before = acp.heap_statistics().used
    make = np.zeros if chosen.random() < 0.5 else acp.zeros
    if rank == 2:
        to = acp.SegmentedBuffer(make((segments, 1000), "i8"), segments, to=0)
        of = acp.SegmentedBuffer(make((segments, 1000), "i8"), segments, source=1)
        for i in range(count):
            with to.fill() as segment:
                segment[:] = i
            of.wait_acked()
            of.ready()
        die()
    got, other = 0, {"source": 2} if rank == 0 else {"to": 2}
    end = acp.SegmentedBuffer(make((segments, 1000), "i8"), segments, **other)
    try:
        while rank == 0:
            end.wait_acked()
            assert (next(iter(end)) == got).all()
            end.ready()
            got += 1
        while rank == 1:
            with end.fill() as segment:
                segment[:] = got
            got += 1
    except acp.PeerLostError as error:
        assert error.rank == 2, error  # noqa: PT017
    assert got == count if rank == 0 else count <= got <= count + segments
    for call in (end.isacked, end.wait_acked) if rank == 0 else (end.isready, end.ack):
        with pytest.raises(acp.PeerLostError):
            call()
    end.close()
    acp.barrier([0, 1])
    while acp.heap_statistics().used > before:
        pass  # the progress thread gives the rings back
    Path(folder, f"{rank} survived").touch()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("road", launch.ROADS)
def test_what_a_dead_source_has_acked_is_received(two_survive, tmp_path, road, seed):
    two_survive(launch.program(kill_at_both_ends, tmp_path, seed), road)


def talk_across():
    """The first rank of all has a buffer to, and one from, each other one, of whatever group."""
    acp.init()
    others = acp.ranks()[1:] if acp.rank() == 0 else [0]
    to = {other: acp.SegmentedBuffer(bytearray(400), 4, to=other) for other in others}
    of = {other: acp.SegmentedBuffer(bytearray(400), 4, source=other) for other in others}
    for i in range(20):
        for other in others:
            with to[other].fill(timeout=60) as segment:
                segment[:] = bytes([i, other] * 50)
        for other in others:
            of[other].wait_acked(timeout=60)
            assert bytes(next(iter(of[other]))) == bytes([i, acp.rank()] * 50)
            of[other].ready()
    for other in others:
        to[other].close()
        assert list(of[other]) == []
    acp.finalize()


@pytest.mark.parametrize("road", ["any", "link"])
def test_groups_of_different_mpis_and_without(groups, meeting, all_pass, road):
    sizes = {"air": ("mpi", 2), "ice": ("acp", 1), "ocean": ("other", 1)}
    place = meeting({name: ranks for name, (_, ranks) in sizes.items()}) | launch.ROADS[road]
    all_pass(groups(sizes, talk_across, env=place))


def interrupt():
    """Each segment comes once, however often a call of its source or destination is interrupted."""
    acp.init()
    count, segments, done = 300, 3, 0
    buffer = np.zeros((segments, 20_000), "i8")
    other = {"to": 1} if acp.rank() == 0 else {"source": 0}
    end = acp.SegmentedBuffer(buffer, segments, **other)
    with alarm.Interrupts() as interrupts:
        while done < count:
            try:
                interrupts.armed = True
                if end.sends:
                    end.wait_ready()
                    buffer[done % segments] = done
                    end.ack()
                else:
                    end.wait_acked()
                    assert (buffer[done % segments] == done).all()
                    end.ready()
                interrupts.armed = False
            except KeyboardInterrupt:
                pass
            done = end.tail if end.sends else end.head
    if end.sends:
        end.wait_empty()
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_an_interrupted_call_loses_and_repeats_nothing(passes, road):
    passes([*launch.mpiexec(2), *launch.program(interrupt)], launch.ROADS[road])
