"""Measure channels between two groups of a node, and by link, against messages, mpi4py and others.

    python benchmarks/channels.py [--quick] [--only pair --only link] [--json FILE]

Start it without mpiexec, from the environment of the MPI to be measured. All sides of a row run in
the same job in alternating slices; ACP takes each rank for a group of its own. Beside them stand
the connection of multiprocessing.Pipe, and pyzmq, pynng and iceoryx2 where they are installed.
"""

import sys

from jobs import Job
from program import main

JOBS = [
    Job("pair", "8 B to 1 MiB there and back, and streams", 2, "rows.channel_messages"),
    Job("native", "8 B from C, between two threads", 1, "rows.channel_native"),
    Job("filled", "arrays filled by one rank, summed by the other", 2, "rows.channel_filled"),
    Job("calls", "processor time of each call", 2, "rows.channel_calls"),
    Job("life", "creation to end, memory, waiting", 2, "rows.channel_life"),
    Job("link", "8 B beside a bare ping-pong", 2, "rows.channel_link", {"ACP_PATH": "link"}),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, JOBS))
