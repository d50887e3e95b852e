"""Channels between groups that start together or later, after resets, and under Ctrl-C."""

import alarm
import launch
import pytest
from growing import newcomer

import acp_mpi as acp


def exchange(other, count=200):
    """Send to `other` objects of all sizes, which come back."""
    to = acp.Channel(acp.rank(), other, size=100, slots=3, dtype=object)
    of = acp.Channel(other, acp.rank(), size=100, slots=3, dtype=object)
    for i in range(count):
        to.send((i, "x" * (i * 7)))
        assert of.recv(timeout=60) == (i, "x" * (i * 7))
    to.close()
    with pytest.raises(acp.EndOfChannel):
        of.recv(timeout=60)
    of.close()


def answer(other):
    of = acp.Channel(other, acp.rank(), size=100, slots=3, dtype=object)
    to = acp.Channel(acp.rank(), other, size=100, slots=3, dtype=object)
    for thing in of:
        to.send(thing)
    to.close()
    of.close()


def talk_across():
    """The first rank of all talks to each other one, of whatever group."""
    acp.init()
    for other in acp.ranks()[1:]:
        if acp.rank() == 0:
            exchange(other)
        elif acp.rank() == other:
            answer(0)
    acp.finalize()


@pytest.mark.parametrize("road", ["any", "link"])
def test_groups_of_different_mpis_and_without_talk(groups, meeting, all_pass, road):
    sizes = {"air": ("mpi", 2), "ice": ("acp", 1), "ocean": ("other", 1)}
    place = meeting({name: ranks for name, (_, ranks) in sizes.items()}) | launch.ROADS[road]
    all_pass(groups(sizes, talk_across, env=place))


def come_late():
    with acp.init():
        answer(0)


def reset_and_grow():
    """Ranks that have reset, and one that has not, count only the resets that both have seen."""
    acp.init()
    for _ in range(2):
        old = acp.Channel(0, 1) if acp.rank() < 2 else None
        acp.reset(acp.procs() - 1 - acp.rank())
        assert old is None or old.closed
    if acp.rank() == 0:
        (late,) = acp.spawn_group(newcomer(come_late), 1, mpi=False).ranks
        assert late == acp.procs() - 1
        exchange(late)
        exchange(1)
    elif acp.rank() == 1:
        answer(0)
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_one_that_comes_after_a_reset_is_met(passes, road):
    passes([*launch.mpiexec(2), *launch.program(reset_and_grow)], launch.ROADS[road])


def end_with_an_open_channel():
    """The end of the job closes what is open, and says so to calls that come after it."""
    acp.init()
    channel = acp.Channel(0, 1, size=8)
    channel.send(b"last") if channel.sends else channel.recv()
    acp.finalize()
    assert channel.closed
    assert channel.poll()
    with pytest.raises(acp.ClosedError):
        channel.send(b"more") if channel.sends else channel.recv()


@pytest.mark.parametrize("road", ["any", "link"])
def test_the_end_of_the_job_closes_channels(passes, road):
    passes([*launch.mpiexec(2), *launch.program(end_with_an_open_channel)], launch.ROADS[road])


def interrupt():
    """Each message comes once, however often a call of its sender or receiver is interrupted."""
    acp.init()
    count, got = 300, []
    channel = acp.Channel(0, 1, size=8, slots=2, dtype="i8")
    with alarm.Interrupts() as interrupts:
        for i in range(count):
            before = channel.statistics().messages
            while channel.statistics().messages == before:
                try:
                    interrupts.armed = True
                    if channel.sends:
                        channel.send([i])
                    else:
                        got.append(int(channel.recv()[0]))
                    interrupts.armed = False
                except KeyboardInterrupt:
                    received = not channel.sends and channel.statistics().messages > before
                    if received and len(got) == i:
                        got.append(None)  # the signal came behind the message
    if not channel.sends:
        assert len(got) == count
        assert all(value in (i, None) for i, value in enumerate(got)), got
    acp.finalize()


@pytest.mark.parametrize("road", ["any", "link"])
def test_an_interrupted_call_of_a_channel_loses_and_repeats_nothing(passes, road):
    passes([*launch.mpiexec(2), *launch.program(interrupt)], launch.ROADS[road])
