"""Measure NPB IS as in 2003: sixteen hosts, gigabit Ethernet, small socket buffers; and each alone.

    python benchmarks/npb_2003.py [--quick] [--only S] [--json FILE]

Start it as root, without mpiexec, from the environment of the MPI to be measured. The hosts are
network namespaces of this machine: a rank on each, a socket to each other one. What a host sends
waits 40 us and passes at 1 Gbit/s; a process of the harness sees to it, for `tc netem` is missing
in some kernels, and takes its processor time from the ranks. Jobs whose name ends in `-wire` have
nothing but that, in `-buffers` nothing but socket buffers of 64 KiB, in `-hosts` neither.
"""

import sys

import spanning
from jobs import Job, Wire
from npb import TCP_ONLY, syscalls
from program import main

HOSTS = 16
DELAY, RATE, BUFFERS = 40e-6, 125e6, 64 << 10
CONDITIONS = {
    "": ("slow wires and small buffers", Wire(DELAY, RATE, BUFFERS)),
    "-wire": ("slow wires", Wire(DELAY, RATE)),
    "-buffers": ("small buffers", Wire(buffers=BUFFERS)),
    "-hosts": ("nothing slowed", None),
}
JOBS = [
    Job(
        name + end,
        f"class {name} on {HOSTS} hosts, {about}",
        HOSTS,
        "rows.npb_2003",
        TCP_ONLY | syscalls.environment() | {"NPB_CLASS": name, "NPB_CONDITIONS": about},
        HOSTS,
        wire,
    )
    for name in "SWA"
    for end, (about, wire) in CONDITIONS.items()
]


if __name__ == "__main__":
    if reason := spanning.why_not():
        sys.exit(f"npb_2003.py cannot make hosts: {reason}")
    sys.exit(main(__doc__, JOBS))
