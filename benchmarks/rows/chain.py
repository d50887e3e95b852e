"""A chain of dependent operations to a rank that only a link reaches, in round trips."""

import numpy as np
from harness import US, Effort, Goal, Row, singles
from mpi4py import MPI

import acp_mpi as acp
from rows.activity import Activity, Target
from rows.loops import chain, fetch_add8

LENGTH = 100


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    rows: list[Row] = []
    with acp.init(comm):
        mine = acp.zeros(1, np.int64)
        gas = comm.allgather(acp.query_ga(mine))
        target = Target()
        if comm.rank == 0:
            for activity in (Activity.IDLE, Activity.NUMPY):
                with target.doing(activity):
                    whole, trip = singles(effort, chain(gas[1], LENGTH), fetch_add8(gas[1]))
                rows.append(
                    Row(
                        f"{LENGTH} dependent add8 by link, target: {activity.value}",
                        "µs",
                        whole.median / US,
                        "one fetch_add8",
                        trip.median / US,
                        Goal(times=2),
                    )
                )
            target.release()
        else:
            target.serve()
        acp.sync()
    return rows
