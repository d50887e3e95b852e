"""Several programs as one job: a process without MPI hands out work to groups with MPI.

Rank 0 owns a counter, from which groups take the number of the next piece, and a vector for the
results. Within a group MPI divides the piece and adds up; between groups nobody knows of anybody.
Under macprun rank 0 is a process that has imported neither mpi4py nor NumPy; under plain mpiexec it
is a worker like the others. A group that computes faster takes more pieces.

    cd examples; macprun groups.toml
    macprun -n 1 python groups.py : -n 2 --mpi python groups.py : -n 1 --mpi python groups.py
"""

import argparse
import math
import sys

import acp_mpi as acp


def area(piece: int, pieces: int, part: int, parts: int, points: int) -> float:
    """Return one part of one piece of the integral of 4 / (1 + x^2) from 0 to 1, which is pi."""
    width = 1 / (pieces * points)
    total = 0.0
    for point in range(part, points, parts):
        x = (piece * points + point + 0.5) * width
        total += 4 / (1 + x * x)
    return total * width


def work(counter: acp.Counter, results: acp.Vector[float], pieces: int, points: int) -> int:
    """Take pieces until there are no more; return how many. Collective over a group with MPI."""
    comm, done = acp.group().comm, 0
    while True:
        piece = comm.bcast(counter.next() if comm.rank == 0 else None)
        if piece >= pieces:
            return done
        total = comm.reduce(area(piece, pieces, comm.rank, comm.size, points))
        if comm.rank == 0:
            results[piece] = total
        done += 1


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pieces", type=int, default=200, help="of work (default 200)")
    parser.add_argument("--points", type=int, default=2000, help="in a piece (default 2000)")
    arguments = parser.parse_args()
    if arguments.pieces < 1 or arguments.points < 1:
        parser.error("--pieces and --points must be at least 1")
    return arguments


def main() -> int:
    """Run the example; return the exit code."""
    with acp.init():
        arguments = parse_arguments()
        if acp.rank() == 0:
            acp.publish("work", (acp.Counter(), acp.Vector("d", size=arguments.pieces)))
        counter, results = acp.lookup("work")
        group = acp.group()
        if group.has_mpi:
            done = work(counter, results, arguments.pieces, arguments.points)
            if acp.rank() == group.ranks[0]:
                print(f"group {group.name} of {group.size} did {done} pieces", flush=True)
        acp.sync()
        if acp.rank() > 0:
            return 0
        if not any(each.has_mpi for each in acp.groups()):
            print(
                "groups: no group has MPI, so nobody worked; start it by `macprun groups.toml` or "
                "`mpiexec -n 4 python groups.py`",
                file=sys.stderr,
            )
            return 2
        pi = math.fsum(results)
        print(f"pi is {pi:.9f}, by {acp.procs()} processes in {len(acp.groups())} groups")
        if abs(pi - math.pi) < 1e-6:
            return 0
        print("groups: that is not pi; more --pieces or --points are needed", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
