"""Paper 000's experiment: 100 mallocs of random sizes on a rank, then 100 frees in random order."""

import os
import random
import time

import numpy as np
from harness import US, Body, Effort, Goal, Row, interleave, singles
from mpi4py import MPI

import acp_mpi as acp

BLOCKS = 100
MOST = 32768
ROUND_TRIPS = 1.3


def _experiment(rank: int, sizes: list[int], order: list[int]) -> tuple[Body, Body]:
    """Return loops that do it all and whose seconds are those of one malloc, or one free."""

    def once() -> tuple[float, float]:
        malloc, free = acp.malloc, acp.free
        start = time.perf_counter()
        blocks = [malloc(size, rank) for size in sizes]
        middle = time.perf_counter()
        shuffled = [blocks[i] for i in order]
        again = time.perf_counter()
        for ga in shuffled:
            free(ga)
        return middle - start, time.perf_counter() - again

    def mallocs(count: int) -> float:
        return sum(once()[0] for _ in range(count)) / BLOCKS

    def frees(count: int) -> float:
        return sum(once()[1] for _ in range(count)) / BLOCKS

    return mallocs, frees


def _round_trip(ga: int) -> Body:
    buffer = np.zeros(64, np.uint8)

    def loop(count: int) -> None:
        for _ in range(count):
            acp.get(ga, buffer)

    return loop


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    by_link = os.environ.get("ACP_PATH") == "link"
    rows: list[Row] = []
    chance = random.Random(1)
    sizes = [chance.randint(1, MOST) for _ in range(BLOCKS)]
    order = chance.sample(range(BLOCKS), BLOCKS)
    with acp.init(comm):
        if comm.rank == 0 and by_link:
            mallocs, frees = _experiment(1, sizes, order)
            a, b, trip = interleave(effort, mallocs, frees, _round_trip(acp.query_starter_ga(1)))
            goal = Goal(times=ROUND_TRIPS)
            for what, each in (("malloc", a), ("free", b)):
                rows.append(
                    Row(
                        f"{what}, by link",
                        "µs",
                        each.median / US,
                        "get of 64 B",
                        trip.median / US,
                        goal,
                    )
                )
        elif comm.rank == 0:
            for where, rank in (("own rank", 0), ("another rank of the node", 1)):
                a, b = singles(effort, *_experiment(rank, sizes, order))
                for what, each in (("malloc", a), ("free", b)):
                    rows.append(
                        Row(f"{what}, {where}", "µs", each.median / US, goal=Goal(at_most=0.2))
                    )
        acp.sync()
    return rows
