"""A master in Python whose workers are a program in C (workers.c): they share memory in one job.

The master says in its starter memory what is to be done, starts the workers by a word in the memory
of each, and sleeps until they have counted all pieces as done. The workers take the numbers of
pieces from a counter there, and put their results there. workers.c says how it is compiled.

    cd examples/in_c; macprun job.toml
"""

import argparse
import math
import sys

import numpy as np

import acp_mpi as acp

PLAN = np.dtype([("next", "u8"), ("pieces", "u8"), ("points", "u8"), ("done", "u8")])
DONE = 24  # bytes before that word


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pieces", type=int, default=200, help="of work, 1 to 1000 (default 200)")
    parser.add_argument("--points", type=int, default=20000, help="in a piece (default 20000)")
    arguments = parser.parse_args()
    if not 1 <= arguments.pieces <= 1000 or arguments.points < 1:
        parser.error("--pieces must be 1 to 1000, and --points at least 1")
    return arguments


def main() -> int:
    """Run the example; return the exit code."""
    with acp.init():
        arguments = parse_arguments()
        if acp.rank() > 0 or len(acp.groups()) == 1:
            print("master: one process, with workers in C; see job.toml", file=sys.stderr)
            return 2
        start = acp.query_starter_ga(0)
        plan = acp.view(start, 1, PLAN)
        plan["pieces"], plan["points"] = arguments.pieces, arguments.points
        for rank in range(1, acp.procs()):
            acp.put(acp.query_starter_ga(rank), np.uint64(1))
        acp.wait_until(start + DONE, "==", arguments.pieces)
        pi = acp.view(start + PLAN.itemsize, arguments.pieces, float).sum()
        acp.sync()
    print(f"pi is {pi:.8f}, by {arguments.pieces} pieces in C")
    return 0 if abs(pi - math.pi) < 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
