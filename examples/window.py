"""A histogram over all ranks: mpi4py's own window calls and those of acp_mpi on the same memory.

Each rank owns some bins, in its starter memory, which is part of the MPI window that `acp.init`
makes. A rank adds its counts to the bins of the others by MPI's `Accumulate`, reads the bins of all
by `acp.get`, and counts the ranks that find them right by an atomic of acp_mpi, which MPI's `Get`
reads. The displacement of an address is its distance from the starter memory of its rank.

    mpiexec -n 4 python examples/window.py
"""

import argparse
import sys

import numpy as np

import acp_mpi as acp


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000, help="of each rank (100000)")
    parser.add_argument("--bins", type=int, default=64, help="on each rank (default 64)")
    arguments = parser.parse_args()
    if arguments.samples < 1 or arguments.bins < 1:
        parser.error("--samples and --bins must be at least 1")
    return arguments


def samples(rank: int, count: int, bins: int) -> np.ndarray:
    """Return numbers of bins, different on every rank and the same in every run."""
    random = np.random.default_rng(rank)
    return random.binomial(bins - 1, 0.3 + 0.4 / (rank + 1), count)


def run(count: int, bins: int) -> int:
    """Count the samples of all ranks, check on every rank, and return the exit code."""
    from mpi4py import MPI

    rank, procs = acp.rank(), acp.procs()
    win = acp.group().window
    if win is None:
        print(
            "window: there is no MPI window; start it by `mpiexec -n 2 python window.py`; if that "
            "is what you did, `python -m acp_mpi info` says why",
            file=sys.stderr,
        )
        return 2
    start = acp.query_starter_ga
    first = 8  # a word before them counts ranks

    local = np.bincount(samples(rank, count, bins * procs), minlength=bins * procs)
    for target in range(procs):
        part = local[target * bins : (target + 1) * bins]
        win.Accumulate([part, MPI.INT64_T], target, [first, bins, MPI.INT64_T], MPI.SUM)
    win.Flush_all()
    acp.group().comm.Barrier()  # MPI's calls may need MPI at their target: a barrier of MPI

    whole = np.empty((procs, bins), np.int64)
    for target in range(procs):  # acp's need nobody there
        acp.get(start(target) + first, whole[target])
    expected = sum(
        np.bincount(samples(r, count, bins * procs), minlength=bins * procs) for r in range(procs)
    )
    if np.array_equal(whole.ravel(), expected):
        acp.fetch_add8(start(0), 1)
    acp.sync()

    right = np.empty(1, np.int64)
    win.Get([right, MPI.INT64_T], 0, [0, 1, MPI.INT64_T])
    win.Flush(0)
    acp.group().comm.Barrier()
    if right[0] != procs:
        print(f"window: rank {rank}: right on {right[0]} of {procs} ranks", file=sys.stderr)
        return 1
    if rank == 0:
        print(f"histogram of {count * procs} samples in {bins * procs} bins: right on all ranks")
    return 0


def main() -> int:
    """Start ACP with room for the bins, count, and return the exit code."""
    arguments = parse_arguments()
    with acp.init(starter_size=8 * (1 + arguments.bins)):
        return run(arguments.samples, arguments.bins)


if __name__ == "__main__":
    sys.exit(main())
