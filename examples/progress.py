"""Workers send bounds into the window of a rank that computes: mpi4py alone, and `acp.progress`.

Rank 0 searches and makes no call of MPI meanwhile; it looks at a word of its memory. The others
find bounds and put the best into that word by `Accumulate` and `Flush`, which return when the word
has changed. Without `acp.progress` they would not before rank 0 calls MPI again, and rank 0 waits
for their bounds: for ever. Nothing else of the program is new to who knows mpi4py.

    mpiexec -n 4 python examples/progress.py
"""

import argparse
import sys

import numpy as np
from mpi4py import MPI

import acp_mpi as acp


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bounds", type=int, default=100, help="of each worker (default 100)")
    arguments = parser.parse_args()
    if arguments.bounds < 2:
        parser.error("--bounds must be at least 2: the last one ends the search")
    return arguments


def search(bound: np.ndarray, finest: int) -> int:
    """Compute until the bound is as good as it gets; return in how many steps."""
    steps, x = 0, np.linspace(0.0, 1.0, 1000)
    while bound[0] > finest:
        x = np.cos(x)
        steps += 1
    return steps


def work(win: MPI.Win, rank: int, count: int) -> None:
    """Put one better bound after the other: 1000 + rank, ... down to rank."""
    win.Lock(0, MPI.LOCK_SHARED)
    for value in np.linspace(1000 + rank, rank, count).astype(np.int64):
        win.Accumulate(np.array([value]), 0, op=MPI.MIN)
        win.Flush(0)
    win.Unlock(0)


def main() -> int:
    """Search on rank 0 while the others work; return the exit code."""
    arguments = parse_arguments()
    comm = MPI.COMM_WORLD
    bound = np.full(1, 10_000, np.int64)
    if comm.size == 1:
        bound[0] = 1  # nobody else will find it
    win = MPI.Win.Create(bound, 8, comm=comm)
    comm.Barrier()
    steps = 0
    if comm.rank == 0:
        with acp.progress():
            steps = search(bound, finest=1)
    else:
        work(win, comm.rank, arguments.bounds)
    win.Fence()
    if comm.rank == 0:
        sent = (comm.size - 1) * arguments.bounds
        print(f"the best of {sent} bounds, {bound[0]}, arrived while rank 0 computed {steps} steps")
    win.Free()
    return 0


if __name__ == "__main__":
    sys.exit(main())
