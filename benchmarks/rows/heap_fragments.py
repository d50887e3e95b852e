"""How much of what a heap has committed is used, through a million random calls."""

import random

from harness import Goal, Row

import acp_mpi as acp

LIVE = 400  # blocks at most at a time: some 100 MiB
MOST = 1 << 20


def measure(quick: bool) -> list[Row]:
    """Measure as the only rank of the job."""
    chance = random.Random(2)
    used = committed = 0
    least = 1.0
    with acp.init():
        blocks = [0] * LIVE
        calls = 100_000 if quick else 1_000_000
        for number in range(calls):
            i = chance.randrange(LIVE)
            if blocks[i]:
                acp.free(blocks[i])
                blocks[i] = 0
            else:
                blocks[i] = acp.malloc(chance.randint(1, MOST))
            if number % 100 == 0 and number > LIVE * 10:
                s = acp.heap_statistics()
                used, committed = used + s.used, committed + s.committed
                least = min(least, s.used / s.committed)
        for ga in filter(None, blocks):
            acp.free(ga)
    return [
        Row("used / committed, mean", "", used / committed, goal=Goal(at_least=0.7)),
        Row("used / committed, least", "", least),
    ]
