"""Measure the heap: paper 000's experiment, by every road, and how well memory is used.

    python benchmarks/heap.py [--quick] [--only experiment --only fragments] [--json FILE]

Start it without mpiexec, as benchmarks/basic_layer.py.
"""

import sys

from jobs import Job
from program import main

JOBS = [
    Job("experiment", "100 mallocs, then 100 frees in random order", 2, "rows.heap_calls"),
    Job("experiment-link", "the same by link", 2, "rows.heap_calls", {"ACP_PATH": "link"}),
    Job("fragments", "a million random mallocs and frees", 1, "rows.heap_fragments"),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, JOBS))
