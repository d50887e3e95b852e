"""NPB IS on three transports between hosts, for the class in `NPB_CLASS`.

How they are connected stands in `NPB_CONDITIONS`.
"""

import os
import socket

from harness import Goal, Row
from mpi4py import MPI
from npb import measuring
from npb.integer_sort import IntegerSort

from rows.npb_rows import rows_of


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, name = MPI.COMM_WORLD, os.environ["NPB_CLASS"]
    kernel = IntegerSort(name, comm.rank, comm.size)
    title = f"IS {name}, {comm.size} hosts, {os.environ['NPB_CONDITIONS']}"
    accounts = measuring.run_all(
        comm,
        kernel.run,
        kernel.checks(comm.size),
        3 if quick else 10,
        title,
        socket.gethostbyname(socket.gethostname()),
    )
    return rows_of(title, accounts, kernel.rate, Goal())
