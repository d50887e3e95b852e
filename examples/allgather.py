"""Gather one block of every rank on all ranks: non-blocking and in place, on starter memory.

The algorithm of paper 003, section 2.5: each rank broadcasts its own block along a binary tree that
it drives alone. Most of its copies are third-party ones, from one rank's starter memory to
another's; the handle of the copy that brought the block to a rank orders the copies that pass it
on from there. Nobody waits before the last two lines.

    mpiexec -n 4 python examples/allgather.py
"""

import argparse
import sys

import numpy as np

import acp_mpi as acp


def allgather(n: int) -> None:
    """Copy block `rank` (n bytes) of every rank's starter memory to the same place on all ranks."""
    rank = acp.rank()
    procs = acp.procs()
    handle = [acp.HANDLE_NULL] * procs
    for i in range(1, procs):
        dst = (rank + i) % procs
        src = (rank + (i >> 1)) % procs
        handle[dst] = acp.copy(
            acp.query_starter_ga(dst) + n * rank,
            acp.query_starter_ga(src) + n * rank,
            n,
            order=handle[src],
        )
    acp.complete(acp.HANDLE_ALL)
    acp.sync()


def pattern(rank: int, n: int) -> np.ndarray:
    """Return the n bytes that `rank` contributes, different on every rank."""
    return ((np.arange(n) * 7 + rank * 31 + 1) % 251).astype(np.uint8)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=512, help="size of a block (default 512)")
    arguments = parser.parse_args()
    if arguments.bytes < 1:
        parser.error("--bytes must be at least 1")
    return arguments


def run(n: int) -> int:
    """Gather blocks of n bytes, check them on every rank, and return the exit code."""
    rank, procs = acp.rank(), acp.procs()
    try:
        blocks = acp.view(acp.query_starter_ga(rank), (procs, n), np.uint8)
    except acp.AddressError as error:
        if rank == 0:
            print(f"allgather: {error}; start with ACP_STARTER_SIZE={procs * n}", file=sys.stderr)
        return 2

    blocks[rank] = pattern(rank, n)
    allgather(n)

    wrong = [r for r in range(procs) if not np.array_equal(blocks[r], pattern(r, n))]
    if wrong:
        print(f"allgather: rank {rank} holds wrong blocks of ranks {wrong}", file=sys.stderr)
    failed = sum(acp.allgather(bool(wrong)))
    if rank == 0 and not failed:
        print(f"all-gather of {n} bytes on {procs} ranks: every rank holds every block")
    return 1 if failed else 0


def main() -> int:
    """Start ACP, gather, and return the same exit code on all ranks."""
    with acp.init():
        return run(parse_arguments().bytes)


if __name__ == "__main__":
    sys.exit(main())
