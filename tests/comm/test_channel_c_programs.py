"""What the C library's own programs that test channels do, with the calls of this library."""

import numpy as np
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.mpi

TIMES = 20


def has_part():
    """Of the programs of two ranks."""
    return acp.procs() > 1 and acp.rank() < 2


@pytest.mark.parametrize("count", [1, 1024])
@pytest.mark.parametrize("meets_before_the_end", [True, False])
def test_numbers_from_rank_0_to_rank_1(count, meets_before_the_end):
    """1,024 numbers of 4 bytes are more than a slot has."""
    numbers, got = np.arange(100, 100 + count, dtype="i4"), np.zeros(count, "i4")
    if has_part():
        channel = acp.Channel(0, 1)
        begun = channel.isend(numbers) if channel.sends else channel.irecv(got)
        begun.wait()
        assert channel.sends or (got == numbers).all()
    if meets_before_the_end:
        acp.sync()
    if has_part():
        channel.close()
    acp.sync()


@pytest.mark.parametrize("one_after_the_other", [True, False])
def test_two_channels_there_and_back(one_after_the_other):
    out, into = np.array([acp.rank()]), np.array([-1])
    if has_part():
        there, back = acp.Channel(0, 1), acp.Channel(1, 0)
        calls = [(end.isend, out) if end.sends else (end.irecv, into) for end in (there, back)]
        if one_after_the_other:
            for begin, numbers in calls:
                begin(numbers).wait()
        else:
            acp.waitall([begin(numbers) for begin, numbers in calls])
        assert into[0] == 1 - acp.rank()
    for end in (there, back) if has_part() else ():
        end.close()
        if one_after_the_other:
            acp.barrier([0, 1])
    acp.sync()


@pytest.mark.parametrize("length", [4, 1, 100, 5000])
@pytest.mark.parametrize("back", [False, True])
def test_rank_0_and_each_other_one(back, length):
    """Rank 0 has a channel with one rank after the other; each sends, and frees it at once."""
    others = range(1, acp.procs()) if acp.rank() == 0 else [acp.rank()]
    for other in others:
        channel = acp.Channel(*((other, 0) if back else (0, other)))
        into = bytearray(length)
        for i in range(TIMES):
            message = b"%0*d" % (length, (other * TIMES + i) % 10**length)
            if channel.sends:
                channel.isend(message).wait()
            else:
                channel.irecv(into).wait()
                assert into == message
        channel.close()
    acp.sync()
