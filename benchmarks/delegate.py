"""Measure commands of a delegate against a socket, acp's collectives, mpi4py, and bare file calls.

    python benchmarks/delegate.py [--quick] [--only commands --only files] [--json FILE]

Start it without mpiexec, from the environment of the MPI to be measured. All sides of a row run in
the same job in alternating slices. Files are written to the directory for temporary ones (TMPDIR).
"""

import sys

from jobs import Job
from program import main

JOBS = [
    Job("commands", "commands that do nothing, and none", 1, "rows.delegate_commands"),
    Job("ring", "commands that a kernel fires", 1, "rows.delegate_ring"),
    Job("collectives", "allreduce of 8 B and 1 MiB", 2, "rows.delegate_collectives"),
    Job("files", "saves of 32 MiB by one rank", 1, "rows.delegate_files"),
    Job("files-4", "saves of 32 MiB by each of four ranks", 4, "rows.delegate_files"),
    Job("checkpoints", "checkpoints, and a program with output", 1, "rows.delegate_checkpoints"),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, JOBS))
