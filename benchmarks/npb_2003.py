"""Measure NPB IS as in 2003: sixteen hosts, gigabit Ethernet, small socket buffers.

    python benchmarks/npb_2003.py [--quick] [--only S] [--json FILE]

Start it as root, without mpiexec, from the environment of the MPI to be measured. The hosts are
network namespaces of this machine: a rank on each, a socket to each other one. What a host sends
waits 40 us and passes at 1 Gbit/s; a process of the harness sees to it, for `tc netem` is missing
in some kernels, and takes its processor time from the ranks.
"""

import sys

import spanning
from jobs import Job, Wire
from npb import TCP_ONLY
from program import main

HOSTS = 16
WIRE = Wire(delay=40e-6, rate=125e6, buffers=64 << 10)
JOBS = [
    Job(
        name,
        f"class {name} on {HOSTS} hosts",
        HOSTS,
        "rows.npb_2003",
        TCP_ONLY | {"NPB_CLASS": name},
        HOSTS,
        WIRE,
    )
    for name in "SW"
]


if __name__ == "__main__":
    if reason := spanning.why_not():
        sys.exit(f"npb_2003.py cannot make hosts: {reason}")
    sys.exit(main(__doc__, JOBS))
