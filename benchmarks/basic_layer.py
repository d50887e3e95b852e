"""Measure the basic layer against MPI, bare system calls and NumPy, each with its goal.

    python benchmarks/basic_layer.py [--quick] [--only calls --only barrier] [--json FILE]

Start it without mpiexec: it starts its own jobs, each with the ranks that it needs and one after
the other, with the mpiexec beside this Python, and prints one table. Both sides of a row run in
the same job in alternating slices. A slow figure is no error; a job that fails is.
"""

import os
import sys

from jobs import Job
from program import main

CORES = len(os.sched_getaffinity(0))

# In the order of the table. A module is imported in its own job only, because importing mpi4py.MPI
# starts MPI.
JOBS = [
    Job("calls", "8-byte operations on global memory, one by one", 2, "rows.calls"),
    Job("engine", "8-byte operations from C through engine.h", 0, "rows.engine"),
    Job("many", "copy_many and fetch_add8_many", 2, "rows.many"),
    Job("third-party", "copies between two other ranks", 3, "rows.third_party"),
    Job("registered", "NumPy memory of another rank: put, get, atomics", 2, "rows.registered"),
    Job("target", "the same calls while the target does something else", 2, "rows.target"),
    Job("barrier-2", "sync and barrier of 2 ranks", 2, "rows.barriers"),
    Job("barrier-crowd", "the same with 4 ranks a core", 4 * CORES, "rows.barriers"),
    Job("chain", "100 dependent additions by link", 2, "rows.chain", {"ACP_PATH": "link"}),
    Job("idle", "processor time of a job that does nothing", 4, "rows.idle"),
    *(
        Job(f"memory-{ranks}", f"memory of our own at {ranks} ranks", ranks, "rows.memory")
        for ranks in (2, 8, 32)
    ),
    Job(
        "memory-link",
        "memory of our own at 8 ranks by link",
        8,
        "rows.memory",
        {"ACP_PATH": "link"},
    ),
    Job("loss", "time until a killed rank is noticed", 0, "rows.loss"),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, JOBS))
