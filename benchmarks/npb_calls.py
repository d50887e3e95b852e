"""Name the system calls of NPB's kernels on each transport, by strace.

    python benchmarks/npb_calls.py [--kernel cg] [--class W] [--ranks 4]

Start it without mpiexec; it needs strace. Each transport runs in jobs of its own, with few and with
more runs of the kernel; what they differ by is what a run takes, without the start of Python and
the connections. MPI starts and ends in all of them, and spins there by epoll_wait and sched_yield
as long as it has to: of these two no difference is reliable but its own, and no sum is made. How
many there are when nothing slows them down, `npb_is.py` and `npb_cg.py` count beside the times.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import environment, positive, print_environment, progress
from jobs import LAUNCHER, launcher
from npb import TCP_ONLY

TRANSPORTS = ("acp", "select", "mpi")
FEW, MANY = 1, 4  # runs
TIMEOUT = 300.0
_CALL = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)


def take_part(which: str, kernel: str, name: str, runs: int) -> None:
    """Run the kernel as one rank of a job, that many times."""
    from mpi4py import MPI
    from npb.by_acp import ByAcp
    from npb.by_mpi import ByMpi
    from npb.by_select import BySelect
    from npb.conjugate_gradient import ConjugateGradient
    from npb.integer_sort import IntegerSort

    comm = MPI.COMM_WORLD
    by = {"acp": ByAcp, "select": BySelect, "mpi": ByMpi}[which](comm)
    made = IntegerSort if kernel == "is" else ConjugateGradient
    work: IntegerSort | ConjugateGradient = made(name, comm.rank, comm.size)
    for _ in range(runs):
        work.run(by)
    by.close()


def count(which: str, options: argparse.Namespace, runs: int) -> dict[str, int]:
    """Return how often all ranks of a job made each call."""
    with tempfile.TemporaryDirectory(prefix="acp-bench-") as folder:
        trace = ["sh", "-c", f'exec strace -f -c -o "{folder}/$$" "$@"', "sh"]
        program = [sys.executable, __file__, "--job", which, "--runs", str(runs)]
        program += ["--kernel", options.kernel, "--class", options.name]
        subprocess.run(
            [launcher(), "-n", str(options.ranks), *trace, *program],
            env=os.environ | LAUNCHER | TCP_ONLY,
            stdout=subprocess.DEVNULL,
            timeout=TIMEOUT,
            check=True,
        )
        total: dict[str, int] = {}
        for file in Path(folder).iterdir():
            for number, call in _CALL.findall(file.read_text()):
                if call != "total":
                    total[call] = total.get(call, 0) + int(number)
    return total


def main() -> int:
    """Count on all transports and print a table, or take part in a job."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", choices=["is", "cg"], default="is")
    parser.add_argument("--class", dest="name", choices=["S", "W", "A"], default="S")
    parser.add_argument("--ranks", type=positive, default=4)
    parser.add_argument("--job", choices=TRANSPORTS, help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        take_part(options.job, options.kernel, options.name, options.runs)
        return 0
    if not shutil.which("strace"):
        print("npb_calls.py: strace is not installed", file=sys.stderr)
        return 1
    print_environment(environment())
    print(f"{options.kernel.upper()} {options.name}, {options.ranks} ranks: calls of one run")
    for which in TRANSPORTS:
        progress(which)
        few, many = (count(which, options, runs) for runs in (FEW, MANY))
        each = {call: (many[call] - few.get(call, 0)) / (MANY - FEW) for call in many}
        most = sorted(each.items(), key=lambda item: -item[1])[:6]
        listed = ", ".join(f"{call} {number:,.0f}" for call, number in most if number >= 1)
        print(f"{which:<8}{listed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
