"""Channels by link: 8 bytes there and back beside a bare ping-pong of TCP, and a stream of them."""

from contextlib import ExitStack

import numpy as np
from harness import US, Body, Effort, Goal, Row, interleave

import acp_mpi as acp
from rows import bare_tcp
from rows.channel_ways import both
from rows.link_latency import PATIENCE
from rows.messages import round_trips, stream

M = 1e6
HEAD, DATA, SUM = 64, 16, 4  # bytes of a frame: the slot's own words beside the eight
DEEP = 1024  # slots of the stream


class _Asleep:
    """How the ranks meet between slices: MPI would spin where the ping-pong's server runs."""

    Barrier = staticmethod(acp.sync)
    bcast = staticmethod(acp.bcast)


def _asks() -> list[Body]:
    """Return the ping-pongs, on both ranks; the other one answers in a thread."""
    bodies: list[Body] = []
    for patience in PATIENCE:
        connection = bare_tcp.connect(0, 1)
        assert connection is not None
        size = HEAD + DATA + SUM
        if acp.rank() == 0:
            bodies.append(bare_tcp.ask(connection, size, size, patience))
        else:
            bare_tcp.serve(connection, size, size)
            bodies.append(lambda count: None)
    return bodies


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    effort, out, back = Effort.of(quick), np.zeros(8, np.uint8), np.zeros(8, np.uint8)
    with acp.init(), ExitStack() as stack:
        rank, messages = acp.rank(), (acp.send, acp.recv)
        there, here = both(stack, rank, size=8)
        ours, acp_send, *asks = interleave(
            effort,
            round_trips(rank, (there.send, here.recv), out, back, None),
            round_trips(rank, messages, out, back, 1 - rank),
            *_asks(),
            comm=_Asleep,
        )
        bare = min(ask.median for ask in asks)
        there, here = both(stack, rank, size=8, slots=DEEP)
        deep, acp_stream = interleave(
            effort,
            stream(rank, (there.send, here.recv), out, back, None),
            stream(rank, messages, out, back, 1 - rank),
            comm=_Asleep,
        )
        acp.sync()
    what = "half a round trip of 8 B by link"
    half, ping = ours.median / 2 / US, bare / 2 / US
    return [
        Row(what, "µs", half, "ping-pong", ping, Goal(times=1.3)),
        Row(what, "µs", half, "acp.send", acp_send.median / 2 / US),
        Row(f"stream of 8 B by link, {DEEP} slots", "M/s", 1 / deep.median / M, "acp.send",
            1 / acp_stream.median / M, Goal(at_least=1.0), rate=True),
    ]  # fmt: skip
