"""Show how long it takes from Spawn to the first message of the last child: ours and MPI's.

    python benchmarks/spawning.py [--rounds 3] [--quick]

The same unmodified program, with MPI's dynamic processes and with groups that join the job, in
turn: one group of so many children, and 32 groups of one. Children are workers: they say who they
are and wait for work, while others are still started. Medians of the wall time inside the parent;
its own start is not counted. Run it with the Python beside each MPI.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

CASES = [(1, 1), (1, 4), (1, 16), (1, 32), (32, 1)]  # groups, children of each
QUICK = [(1, 1), (1, 4), (4, 1)]
LIMIT = 120.0  # s for one run
CHILD = (
    "from mpi4py import MPI; parent = MPI.Comm.Get_parent();"
    "parent.send(MPI.COMM_WORLD.Get_rank(), 0); parent.recv(); parent.Disconnect()"
)


def parent(groups: int, children: int) -> None:
    """Spawn the groups one after the other, hear of all children, print the seconds."""
    from mpi4py import MPI

    began = time.perf_counter()
    comms = [MPI.COMM_SELF.Spawn(sys.executable, ["-c", CHILD], children) for _ in range(groups)]
    for comm in comms:
        heard = sorted(comm.recv() for _ in range(children))
        assert heard == list(range(children)), heard
    print(time.perf_counter() - began, flush=True)
    for comm in comms:
        for child in range(children):
            comm.send("done", child)
        comm.Disconnect()


def once(groups: int, children: int, by_us: bool) -> float | None:
    """Return the seconds of one run, None if it did not come to its end."""
    env = dict(os.environ, ACP_SPAWN="1") if by_us else dict(os.environ)
    launcher = str(Path(sys.executable).with_name("mpiexec"))
    command = [launcher, "-n", "1", sys.executable, __file__, "--parent"]
    try:
        done = subprocess.run(
            [*command, str(groups), str(children)],
            env=env,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=True,
        )
        return float(done.stdout.split()[0])
    except (subprocess.SubprocessError, IndexError, ValueError):
        return None


def shown(times: Sequence[float | None]) -> tuple[str, float | None]:
    """Return the median as text and number; a run that failed fails the case."""
    good = [each for each in times if each is not None]
    if len(good) < len(times):
        return f"{len(times) - len(good)} of {len(times)} failed", None
    median = statistics.median(good)
    return f"{median:.2f} s", median


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--quick", action="store_true", help="few children, one round")
    parser.add_argument("--parent", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.parent:
        parent(*options.parent)
        return 0
    rounds = 1 if options.quick else options.rounds
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, medians of {rounds}")
    print(f"{'groups x children':<20}{'MPI':>16}{'ours':>16}{'MPI / ours':>12}")
    for groups, children in QUICK if options.quick else CASES:
        pairs = [
            (once(groups, children, False), once(groups, children, True)) for _ in range(rounds)
        ]
        texts = [shown([pair[side] for pair in pairs]) for side in range(2)]
        (theirs, one), (ours, other) = texts
        ratio = f"{one / other:.2f}" if one and other else "-"
        print(f"{f'{groups} x {children}':<20}{theirs:>16}{ours:>16}{ratio:>12}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
