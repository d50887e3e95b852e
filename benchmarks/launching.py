"""Show what macprun adds to the start and end of a program.

    python benchmarks/launching.py [--rounds 20]

The same command alone and under macprun, in turn: wall time and, which others on the machine do
not disturb as much, processor time, of all processes together; medians and the least. The goal is
100 ms of its own.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

GOAL = 0.1  # s
PROGRAMS = Path(sys.executable).parent


def once(command: Sequence[str | Path]) -> tuple[float, float]:
    """Run a command; return wall and processor time in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(name: str, bare: Sequence[str | Path], ours: Sequence[str | Path], rounds: int) -> None:
    """Print one line: both sides, and what ours takes more."""
    pairs = [(once(bare), once(ours)) for _ in range(rounds)]
    line = f"{name:<22}"
    for kind in range(2):
        one = [pair[0][kind] for pair in pairs]
        other = [pair[1][kind] for pair in pairs]
        more = statistics.median(other) - statistics.median(one)
        least = min(other) - min(one)
        line += f"{statistics.median(one) * 1e3:>9.0f}{statistics.median(other) * 1e3:>9.0f}"
        line += f"{more * 1e3:>9.0f}{least * 1e3:>9.0f}"
    print(line, flush=True)


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, metavar="N")
    rounds = parser.parse_args(argv).rounds
    macprun, mpiexec = PROGRAMS / "macprun", PROGRAMS / "mpiexec"
    print(f"load {os.getloadavg()[0]:.1f}, goal {GOAL * 1e3:.0f} ms more; ms of wall and processor")
    print(f"{'':<22}" + 2 * f"{'alone':>9}{'macprun':>9}{'more':>9}{'at least':>9}")
    compare("a process", ["true"], [macprun, "-n", "1", "true"], rounds)
    loop = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do true & done; wait"]
    compare("8 processes", loop, [macprun, "-n", "8", "true"], rounds)
    compare(
        "mpiexec of 2", [mpiexec, "-n", "2", "true"], [macprun, "-n", "2", "--mpi", "true"], rounds
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
