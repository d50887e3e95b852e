"""Measure what `acp.progress` does for the MPI windows of a rank that computes, and its cost.

    python benchmarks/mpi_progress.py [--quick] [--only put] [--json FILE]

Start it without mpiexec, from the environment of the MPI to be measured: its jobs are started
here. The other side of each row is the same program without `acp.progress`; of MPICH also with the
progress thread that MPICH has itself.
"""

import sys

import spanning
from jobs import Job
from program import main

JOBS = [
    Job("put", "to a rank that computes, and to one that waits in MPI", 2, "rows.progress_put"),
    Job("cost", "processor time, and the speed of a computation", 1, "rows.progress_cost"),
]
if spanning.mpi_name() == "mpich":
    JOBS.append(Job("mpich", "against MPICH's own progress thread", 0, "rows.progress_mpich"))


if __name__ == "__main__":
    sys.exit(main(__doc__, JOBS))
