"""NPB CG on three transports over loopback, for the class in `NPB_CLASS`."""

import os

from harness import Goal, Row
from mpi4py import MPI
from npb import measuring
from npb.conjugate_gradient import ConjugateGradient

from rows.npb_rows import rows_of


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, name = MPI.COMM_WORLD, os.environ["NPB_CLASS"]
    kernel = ConjugateGradient(name, comm.rank, comm.size)
    title = f"CG {name}, {comm.size} ranks"
    accounts = measuring.run_all(comm, kernel.run, comm.size, 3 if quick else 10, title)
    return rows_of(title, accounts, kernel.rate, Goal())
