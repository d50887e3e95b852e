"""Run a function over a range of parameters by a pool of processes: mpi4py.futures as it is.

    python -m acp_mpi.spawn spawn_sweep.py

The pool's processes are spawned by the first call; a notebook may do the same.
"""

import argparse

from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor


def period(length: float) -> float:
    """Return the period of a pendulum of that length that swings by a right angle (s)."""
    angle, speed, time, step = 1.5707963, 0.0, 0.0, 1e-3
    while angle > 0.0:
        speed -= 9.81 / length * step * angle * (1 - angle**2 / 6 + angle**4 / 120)
        angle += speed * step
        time += step
    return 4.0 * time


def main(count: int, workers: int) -> None:
    """Compare `count` lengths."""
    lengths = [0.5 + 0.25 * i for i in range(count)]
    with MPIPoolExecutor(workers) as pool:
        periods = list(pool.map(period, lengths))
    for length, seconds in zip(lengths, periods, strict=True):
        print(f"{length:5.2f} m {seconds:6.3f} s")
    ratios = [seconds**2 / length for length, seconds in zip(lengths, periods, strict=True)]
    assert max(ratios) - min(ratios) < 0.02 * ratios[0]  # a period goes with the root of the length
    print(f"{count} pendulums by {workers} processes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=8, help="lengths to compare (default 8)")
    parser.add_argument("--workers", type=int, default=2, help="in the pool (default 2)")
    options = parser.parse_args()
    if options.count < 1 or options.workers < 1:
        parser.error("--count and --workers must be at least 1")
    if options.workers > options.count:  # a pool that cannot be started waits for ever
        parser.error("--workers must be at most --count: the others would have nothing to do")
    if MPI.COMM_WORLD.Get_rank() == 0:
        main(options.count, options.workers)
