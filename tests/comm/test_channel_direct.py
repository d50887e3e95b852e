"""Long messages, into the buffer of a receiver that waits, among short ones and those of slots."""

import contextlib
import itertools

import numpy as np
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.mpi

SLOT = 256 << 10
LENGTHS = [SLOT, SLOT - 8, 128 << 10, 3 * SLOT + 5, 100, 0, 128 << 10, SLOT // 2 + 1]
MESSAGES = 60


def length(number):
    return LENGTHS[number % len(LENGTHS)]


def expected(number):
    """Bytes of a message that differ from those of others, at every place."""
    pattern = np.arange(length(number) % 251 + 1 + number, dtype=np.uint8) * 7 + number
    return np.resize(pattern.astype(np.uint8), length(number))


def receive(channel, number, way):
    """Receive a message and return its bytes."""
    if way == "new":
        return channel.recv()
    if way == "view":
        with channel.take() as view:
            return bytes(view)
    buffer, status = np.full(4 * SLOT, 255, np.uint8), acp.Status()
    if way == "exact":
        buffer = np.full(length(number), 255, np.uint8)
    while way == "late":
        with contextlib.suppress(TimeoutError):
            channel.recv(buffer, timeout=0.0003, status=status)
            break
    else:
        channel.recv(buffer, status=status)
    assert (buffer[status.size :] == 255).all()
    return buffer[: status.size].tobytes()


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize(
    "ways", ["exact", "more exact", "more view", "more late", "new more exact view late"]
)
def test_long_messages_come_whole_and_in_order(ways, slots):
    acp.sync()
    last = acp.procs() - 1
    if last and acp.rank() in (0, last):
        with acp.Channel(0, last, size=SLOT, slots=slots) as channel:
            way = itertools.cycle(ways.split())
            for number in range(MESSAGES):
                if acp.rank() == 0:
                    channel.send(expected(number))
                else:
                    assert receive(channel, number, next(way)) == expected(number).tobytes()
            if acp.rank():
                with pytest.raises(acp.EndOfChannel):
                    channel.recv(np.empty(SLOT, np.uint8))
                assert channel.statistics().messages == MESSAGES
    acp.sync()
