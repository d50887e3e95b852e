"""Measure NPB CG on three transports: messages of acp_mpi, select and read, MPI held to TCP.

    python benchmarks/npb_cg.py [--quick] [--only S] [--json FILE]

Start it without mpiexec, from the environment of the MPI to be measured. Every rank is a node of
its own, so that all messages pass the loopback interface; the three sides run in turn in the same
job, in which the kernel (NAS TR 95-020) is verified each time. It sends to one rank and waits for
one, over and over: the pattern on which paper 002 promises no gain, and no loss.
"""

import sys

from jobs import Job
from npb import TCP_ONLY
from program import main

JOBS = [
    Job(
        f"{name}{ranks}",
        f"class {name} on {ranks} ranks",
        ranks,
        "rows.npb_cg",
        TCP_ONLY | {"NPB_CLASS": name},
    )
    for name in "SW"
    for ranks in (2, 4, 8, 16)
]


if __name__ == "__main__":
    sys.exit(main(__doc__, JOBS))
