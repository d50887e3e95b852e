"""Measure messages and collectives between ranks of one node against mpi4py, with goals.

    python benchmarks/messages.py [--quick] [--only pair] [--json FILE]

Start it without mpiexec, from the environment of the MPI to be measured. Both sides of a row run in
the same job in alternating slices; ACP takes each rank of the job `pair` for a group of its own.
`messages_svg.py` draws what several of these runs have written.
"""

import sys

from jobs import Job
from message_sizes import WITHOUT_CMA
from program import main

JOBS = [
    Job("pair", "1 B to 64 MiB between two groups", 2, "rows.messages"),
    Job("pair_without_cma", "the same, MPI without CMA", 2, "rows.messages", WITHOUT_CMA),
    *(
        Job(f"crowd{ranks}", f"ring and pairs of {ranks} ranks", ranks, "rows.messages_crowd")
        for ranks in (2, 4, 8)
    ),
    *(
        Job(f"collectives{ranks}", f"collectives of {ranks} ranks", ranks, "rows.collectives")
        for ranks in (2, 4, 8)
    ),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, JOBS))
