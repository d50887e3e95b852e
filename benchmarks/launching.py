"""Measure what macprun adds to the start and end of a program.

    python benchmarks/launching.py [--rounds 20]

The same command alone and under macprun, in turn: wall time and, which others on the machine do
not disturb as much, processor time, of all processes together; medians. The goal is 100 ms of wall
time of its own.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness import MS, Goal, Row, environment, positive, print_environment, progress, table
from jobs import LAUNCHER, JobError, launcher

GOAL = 100.0  # ms


def once(command: Sequence[str]) -> tuple[float, float]:
    """Run a command; return wall and processor time in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        command, env=os.environ | LAUNCHER, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    wall = time.perf_counter() - began
    if done.returncode:
        raise JobError(f"{' '.join(command)}: exit status {done.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(name: str, bare: Sequence[str], ours: Sequence[str], rounds: int) -> Iterator[Row]:
    """Yield wall and processor time of both sides, and by how much the least of ours is more."""
    progress(name)
    both = [(once(bare), once(ours)) for _ in range(rounds)]
    goals = {"wall time": Goal(times=1, plus=GOAL), "processor time": Goal()}
    for kind, (what, goal) in enumerate(goals.items()):
        alone = [pair[0][kind] / MS for pair in both]
        under = [pair[1][kind] / MS for pair in both]
        more, least = statistics.median(under) - statistics.median(alone), min(under) - min(alone)
        note = f"{more:.0f} ms more in the median, {least:.0f} between the least of each"
        sides = statistics.median(under), "alone", statistics.median(alone)
        yield Row(f"{name}: {what}", "ms", *sides, goal, note=note)


def _rows(rounds: int) -> Iterator[Row]:
    macprun = str(Path(sys.executable).with_name("macprun"))
    loop = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do true & done; wait"]
    yield from compare("a process", ["true"], [macprun, "-n", "1", "true"], rounds)
    yield from compare("8 processes", loop, [macprun, "-n", "8", "true"], rounds)
    bare, ours = [launcher(), "-n", "2", "true"], [macprun, "-n", "2", "--mpi", "true"]
    yield from compare("mpiexec of 2", bare, ours, rounds)


def main(argv: Sequence[str]) -> int:
    """Measure and print; return the exit status: 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=positive, default=20, metavar="N", help="default: 20")
    rounds = parser.parse_args(argv).rounds
    try:
        rows = list(_rows(rounds))
    except (JobError, OSError) as reason:
        print(f"launching.py: {reason}", file=sys.stderr)
        return 1
    print_environment(environment())
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
