"""Run the tests of one environment: every number of ranks with every road, every pair covered.

    .venv/mpich/bin/python tests/run.py [--all | --campaign] [-k EXPRESSION ...]

One line for each job; a job that fails shows all that its ranks printed. The two MPIs share the
combinations like the fields of a chessboard, so that `make test` covers every pair of rank number,
road and MPI; of the tests on several hosts, those without MPI run in one environment.
"""

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import launch
from hosts.network import Network, why_not

RANKS = (1, 2, 3, 4)
LIMITS = {"test": 900.0, "all": 1800.0, "campaign": 7200.0}  # seconds for one job
MARKERS = {"test": "not slow and not campaign", "all": "not campaign", "campaign": "campaign"}
ELSEWHERE = "this test failed on another rank"  # as tests/conftest.py says it
WITHOUT_RANKS = ("fmo", "hosts", "jobs", "spawn")  # no test there runs on all ranks of a job
NO_TESTS = 5  # pytest's exit status when nothing was selected


class Work(NamedTuple):
    """One run of pytest: under mpiexec on some ranks and a road, or alone for all other tests.

    With a `network` the ranks are on its hosts.
    """

    ranks: int
    road: str
    tests: Sequence[str] = (str(launch.TESTS),)
    network: Network | None = None

    def __str__(self) -> str:
        if self in (HOSTS, HOSTS_BY_MPI):
            return "tests on several hosts"
        if not self.ranks:
            return "tests that start their own jobs"
        return f"{self.ranks} rank{'s' * (self.ranks > 1)}, road {self.road}"


ALONE = Work(0, "any")
HOSTS = Work(0, "any", (str(launch.TESTS / "hosts"),))
# Those in which it matters which MPI it is.
_BY_MPI = ("test_mpi.py", "test_suite.py", "test_traffic.py")
HOSTS_BY_MPI = Work(0, "any", tuple(str(launch.TESTS / "hosts" / name) for name in _BY_MPI))


def selection(mode: str, mpi: str) -> list[Work]:
    """Return what to run in this environment."""
    colour = 0 if mpi == "mpich" else 1
    combinations = itertools.product(RANKS, enumerate(launch.ROADS))
    works = [
        Work(ranks, road)
        for ranks, (column, road) in combinations
        if mode == "all" or (ranks + column + colour) % 2
    ]
    if mode == "campaign":
        works = [Work(ranks, road) for ranks in (2, 4) for road in launch.ROADS]
    own = [ALONE]
    if not why_not():
        own.append(HOSTS_BY_MPI if mode == "test" and colour else HOSTS)
    return [*own, *works]


def run(work: Work, mode: str, extra: Sequence[str], folder: Path) -> tuple[bool, str]:
    """Run one job; return whether it passed, and its output or, if it passed, a summary."""
    on_hosts = work in (HOSTS, HOSTS_BY_MPI)
    kind = "mpi" if work.ranks else "hosts" if on_hosts else "not mpi and not hosts"
    marker = f"{kind} and {MARKERS[mode]}"
    options = ["-q", "--no-header", "--color=no", "-p", "no:cacheprovider", "-m", marker]
    if mode == "campaign":  # long by intent, and a dump of running threads can crash Python
        options += ["-o", "faulthandler_timeout=0"]
    command = [sys.executable, __file__, "--rank", str(folder), *options]
    if work.ranks:
        launcher = launch.mpiexec(work.ranks, network=work.network)
        elsewhere = [f"--ignore={launch.TESTS / name}" for name in WITHOUT_RANKS]
        command = [*launcher, *command, "--with-mpi", "-x", *elsewhere]
    command += [*extra, *work.tests]
    env = launch.ROADS[work.road] | _other_python()
    if work.network:
        env["ACROSS_HOSTS"] = "1"
    if mode == "all":
        env["TESTS_THOROUGH"] = "1"
    if mode == "test":
        env["ACP_TEST_SHARE"] = "0" if launch.mpi_name() == "mpich" else "1"
    hung = ""
    # In a folder of its own: the checkout's acp_mpi has no extension module and must not be found.
    with launch.Job(command, folder / "launcher", env) as job:
        try:
            status = job.wait(LIMITS[mode])
        except launch.Hang as reason:
            status, hung = -1, f"{str(reason).partition(';')[0]}\n"
    logs = [(log.name, log.read_text(errors="replace")) for log in sorted(folder.glob("rank-*"))]
    if status in (0, NO_TESTS):
        return True, logs[0][1].rstrip().rpartition("\n")[2].strip("= ") if logs else "no tests"
    # The rank that failed comes first: a reader may see no more than the beginning.
    texts = sorted([*logs, ("launcher", job.output)], key=lambda log: ELSEWHERE in log[1])
    return False, hung + "\n".join(f"--- {name} ---\n{text}" for name, text in texts if text)


def main(argv: Sequence[str]) -> int:
    """Run all jobs and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    mode = parser.add_mutually_exclusive_group()
    for name, text in (
        ("all", "every combination, slow tests too"),
        ("campaign", "only what is repeated until rare failures show"),
    ):
        mode.add_argument(f"--{name}", dest="mode", action="store_const", const=name, help=text)
    parser.set_defaults(mode="test")
    options, extra = parser.parse_known_args(argv)
    # Tests press Ctrl-C; a shell that runs this in the background has all processes ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if reason := why_not():
        print(f"no tests on several hosts: {reason}", flush=True)
    mpi, began, failures = launch.mpi_name(), time.monotonic(), 0
    for work in selection(options.mode, mpi):
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as folder:
            good, text = run(work, options.mode, extra, Path(folder))
        launch.sweep()
        print(
            f"{mpi}, {work}: {'passed' if good else 'FAILED'} in "
            f"{time.monotonic() - start:.1f} s{f' ({text})' if good else ''}",
            flush=True,
        )
        if not good:
            failures += 1
            print(text, flush=True)
    print(
        f"{mpi}: {failures or 'no'} job{'s' * (failures != 1)} failed, "
        f"{time.monotonic() - began:.0f} s in all",
        flush=True,
    )
    return 1 if failures else 0


def _other_python() -> dict[str, str]:
    """Say where the environment with the other MPI is, if there is one beside this."""
    if name := os.environ.get("ACP_TEST_OTHER_PYTHON"):
        return {"OTHER_PYTHON": name}
    name = "openmpi" if launch.mpi_name() == "mpich" else "mpich"
    beside = Path(sys.prefix).with_name(name) / "bin" / "python"
    return {"OTHER_PYTHON": str(beside)} if beside.exists() else {}


def _be_rank(folder: Path, argv: list[str]) -> int:
    """Be one rank of a job: keep its output apart from that of the others, run pytest."""
    rank = launch.group_rank()
    log = os.open(folder / f"rank-{rank}", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    import pytest

    return int(pytest.main([f"--basetemp={folder / f'tmp-{rank}'}", *argv]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        sys.exit(_be_rank(Path(sys.argv[2]), sys.argv[3:]))
    sys.exit(main(sys.argv[1:]))
