"""Measure the containers against those of Python in one process, each with its goal.

    python benchmarks/containers.py [--quick] [--only maps --only sequences] [--json FILE]

Start it without mpiexec: it starts its own jobs one after the other and prints one table.
"""

import sys

from jobs import Job
from program import main

JOBS = [
    Job("lists", "list of another rank", 2, "rows.lists"),
    Job("maps", "a map of another rank", 2, "rows.maps"),
    Job(
        "maps-link",
        "the same by link, against one round trip",
        2,
        "rows.maps_link",
        {"ACP_PATH": "link"},
    ),
    Job("maps-crowd", "4 ranks at one of them, against one alone", 4, "rows.maps_crowd"),
    Job("sequences", "vector, deque and counter of another rank", 2, "rows.sequences"),
    Job(
        "sequences-link",
        "the same by link, against one round trip",
        2,
        "rows.sequences_link",
        {"ACP_PATH": "link"},
    ),
    Job("sequences-crowd", "4 ranks at one of them, against one alone", 4, "rows.sequences_crowd"),
    Job("objects", "objects in containers of another rank, against pickle", 2, "rows.objects"),
    Job("busy", "containers of a rank that computes, against one that waits", 2, "rows.busy"),
    Job("busy-link", "the same by link", 2, "rows.busy", {"ACP_PATH": "link"}),
    Job("workspace", "a workspace on another rank, against put and get", 2, "rows.workspace"),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, JOBS))
