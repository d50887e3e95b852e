"""Measure copies between device memories of two ranks, each beside what programs do without them.

    python benchmarks/devices.py [--quick] [--only exchange] [--json FILE]

Start it without mpiexec, from the environment of the MPI to be measured. *Direct*: a put of device
memory into the other rank's, and a flag. *Staged*: a copy to the host, Sendrecv of MPI, a copy to
the device. It measures OpenCL where pyopencl and a driver are, and CUDA where CuPy is.
"""

import sys

from jobs import Job
from program import main

JOBS = [
    Job("exchange", "8 B to 16 MiB to each other, direct and staged", 2, "rows.device_exchange"),
    Job("messages", "4 to 64 MiB by send and recv, in parts", 2, "rows.device_messages"),
    Job(
        "collectives", "1 to 64 MiB by bcast, allreduce and alltoall", 2, "rows.device_collectives"
    ),
    Job("owner", "memory that only its owner reaches", 2, "rows.device_owner"),
    Job("none", "what a program without device memory pays for it", 2, "rows.device_none"),
    Job("busy", "the owner of the memory computes meanwhile", 2, "rows.device_busy"),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, JOBS))
