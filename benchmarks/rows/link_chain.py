"""A chain of dependent operations to another host, in round trips."""

import os

import numpy as np
from harness import US, Effort, Goal, Row, singles

import acp_mpi as acp
from rows.cores import keep_apart
from rows.loops import chain, fetch_add8

LENGTHS = (10, 100, 1000)


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    effort, rows = Effort.of(quick), []
    keep_apart(int(os.environ["ACP_GROUP_RANK"]), 2)
    with acp.init():
        mine = acp.zeros(1, np.int64)
        ga = acp.allgather(acp.query_ga(mine))[1]
        if acp.rank() == 0:
            trip, *chains = singles(effort, fetch_add8(ga), *(chain(ga, n) for n in LENGTHS))
            rows = [
                Row(
                    f"{length} dependent add8, a cable that holds back for 50 µs",
                    "µs",
                    sample.median / US,
                    "one fetch_add8",
                    trip.median / US,
                    Goal(times=2) if length <= 100 else Goal(),
                )
                for length, sample in zip(LENGTHS, chains, strict=True)
            ]
        acp.sync()
        if acp.rank() == 1 and mine[0] <= 0:
            raise RuntimeError("nothing was added")
        acp.sync()
    return rows
