"""Sum a series by workers that a master spawns: mpi4py's own calls and nothing else.

    python -m acp_mpi.spawn spawn_master_worker.py      # children by acp_mpi
    python spawn_master_worker.py                       # children by the MPI library

The master hands out pieces to whoever asks, merges with its workers, and checks the result.
"""

import argparse
import math
import os
import sys

from mpi4py import MPI

PIECE, END = 1, 2


def worker() -> None:
    """Sum the pieces that the master hands out."""
    master = MPI.Comm.Get_parent()
    status = MPI.Status()
    total = 0.0
    while True:
        master.send(None, 0, PIECE)
        piece = master.recv(source=0, status=status)
        if status.Get_tag() == END:
            break
        total += math.fsum(4.0 / (1.0 + x * x) for x in piece)
    everybody = master.Merge(True)
    everybody.reduce(total, op=MPI.SUM, root=0)
    everybody.Free()
    master.Disconnect()


def main(workers: int, points: int) -> float:
    """Return pi, from `points` points and by so many workers."""
    here = os.path.abspath(__file__)
    children = MPI.COMM_SELF.Spawn(sys.executable, [here, "--worker"], workers)
    status = MPI.Status()
    step = max(points // (workers * 4), 1)
    first, ended = 0, 0
    while ended < workers:
        children.recv(source=MPI.ANY_SOURCE, status=status)
        if first < points:
            last = min(first + step, points)
            children.send(
                [(i + 0.5) / points for i in range(first, last)], status.Get_source(), PIECE
            )
            first = last
        else:
            children.send(None, status.Get_source(), END)
            ended += 1
    everybody = children.Merge(False)
    total = everybody.reduce(0.0, op=MPI.SUM, root=0)
    assert total is not None  # this is the root
    everybody.Free()
    children.Disconnect()
    return float(total / points)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=2, help="to spawn (default 2)")
    parser.add_argument("--points", type=int, default=10000, help="of the series (default 10000)")
    options = parser.parse_args()
    if options.workers < 1 or options.points < 1000:
        parser.error("--workers must be at least 1, --points at least 1000")
    if options.worker:
        worker()
    elif MPI.COMM_WORLD.Get_rank() == 0:
        pi = main(options.workers, options.points)
        assert abs(pi - math.pi) < 1e-6, pi
        print(f"pi is {pi:.8f} by {options.workers} workers")
