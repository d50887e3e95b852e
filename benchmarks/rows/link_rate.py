"""Many 8-byte operations on another host under way at once, in millions a second."""

from itertools import repeat

import numpy as np
from harness import Body, Effort, Goal, Row, interleave

import acp_mpi as acp

M = 1e6
COUNT = 4096


def _one_by_one(dst: int, src: int) -> Body:
    copy, complete = acp.copy, acp.complete

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            for _ in repeat(None, COUNT):
                copy(dst, src, 8)
            complete()

    return loop


def _copy_many(dsts: np.ndarray, srcs: np.ndarray) -> Body:
    copy_many, complete = acp.copy_many, acp.complete

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            complete(copy_many(dsts, srcs, 8))

    return loop


def _fetch_add_many(gas: np.ndarray) -> Body:
    call, ones = acp.fetch_add8_many, np.ones(COUNT, np.int64)

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            call(gas, ones)

    return loop


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    rows: list[Row] = []
    with acp.init():
        mine = acp.zeros(COUNT, np.int64)
        own, there = (ga + 8 * np.arange(COUNT) for ga in acp.allgather(acp.query_ga(mine)))
        if acp.rank() == 0:
            sides = [
                ("put 8 B call by call", _one_by_one(int(there[0]), int(own[0])), 0.5),
                ("get 8 B call by call", _one_by_one(int(own[0]), int(there[0])), None),
                ("put 8 B by copy_many", _copy_many(there, own), 5.0),
                ("get 8 B by copy_many", _copy_many(own, there), None),
                ("fetch_add8_many", _fetch_add_many(there), None),
            ]
            samples = interleave(Effort.of(quick), *(body for _, body, _ in sides))
            rows = [
                Row(
                    f"{what}, {COUNT} under way",
                    "M/s",
                    COUNT / sample.median / M,
                    goal=Goal(at_least=least),
                    rate=True,
                )
                for (what, _, least), sample in zip(sides, samples, strict=True)
            ]
        acp.sync()
    return rows
