"""Puts to another host through the group's MPI window, beside mpi4py's own on the same transport.

Meanwhile the target waits, in `sync` for our puts and in `Barrier` for mpi4py's, which need it
inside MPI where the network does not write memory by itself. There the first of our puts after a
pause also has the target begin to drive MPI: it has a row of its own.
"""

import os
import time
from itertools import repeat

import numpy as np
from harness import US, Body, Effort, Goal, Row, interleave
from mpi4py import MPI

import acp_mpi as acp
from rows.loops import put
from rows.mpi_side import Window

SIZES = {"8 B": 8, "64 KiB": 64 << 10, "1 MiB": 1 << 20}


def _both(first: Body, second: Body) -> Body:
    def loop(count: int) -> None:
        for _ in repeat(None, count):
            first(1)
            second(1)

    return loop


def _while_in_sync(body: Body, first: int = 0) -> Body:
    def loop(count: int) -> float:
        body(first)
        start = time.perf_counter()
        body(count)
        seconds = time.perf_counter() - start
        acp.sync()
        return seconds

    return loop


def _nothing(count: int) -> None:
    """Leave it to the other rank."""


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    # its flush returns before the put is there; the read that follows waits for it
    early = os.environ.get("MPIR_CVAR_CH4_NETMOD") == "ofi"
    against = "Put + Flush + Get + Flush" if early else "Put + Flush"
    transport = "ofi;tcp" if early else "tcp"
    rows, most = [], max(SIZES.values())
    with acp.init(comm, starter_size=most), Window(comm, most) as window:
        for name, size in SIZES.items():
            ours: Body = _nothing
            theirs: Body = _nothing
            if comm.rank == 0:
                buffer = np.ones(size, np.uint8)
                ours, theirs = put(acp.query_starter_ga(1), buffer), window.put(1, buffer)
                if early:
                    theirs = _both(theirs, window.get(1, np.empty(8, np.uint8)))
            a, b = interleave(effort, _while_in_sync(ours, first=1), theirs, comm=comm)
            comm.Barrier()  # the last slice needs the target inside MPI
            c, d = interleave(Effort(effort.rounds * 3, 0), _while_in_sync(ours), theirs, comm=comm)
            comm.Barrier()
            what = f"put {name} through the window, {transport}"
            rows.append(Row(what, "µs", a.median / US, against, b.median / US, Goal(speed=1)))
            rows.append(Row(f"{what}: the first", "µs", c.median / US, against, d.median / US))
        acp.sync()
    return rows
