"""Run the tests of one environment, or with `--both` those of the environments of both MPIs.

    .venv/mpich/bin/python tests/run.py [--matrix | --all | --campaign] [--both] [-k EXPRESSION ...]

One line for each job; a job that fails shows all that its ranks printed. Without a mode these are
the tests of a newcomer: in-job tests at one number of ranks on one road for each MPI, those that
start nothing, and one for each kind of started job (marker `smoke`). `--matrix` is every number of
ranks with every road; the two MPIs share the combinations like the fields of a chessboard, so that
every pair of rank number, road and MPI is covered. Of the tests on several hosts, those without MPI
run in one environment. With `--both` the tests of the engine in C are in the list. Jobs run side by
side, those of one MPI beside those of the other, for one rank more than there are processors: most
of them wait for a part of their time.
"""

import argparse
import contextlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

import launch
from guard import PROCESSORS, Guard
from hosts.network import Network, why_not

RANKS = (1, 2, 3, 4)
LIMITS = {
    "test": 600.0,
    "matrix": 1800.0,
    "all": 3600.0,
    "campaign": 14400.0,
}  # quiet seconds
MARKERS = {
    "test": "not slow and not campaign",
    "matrix": "not slow and not campaign",
    "all": "not campaign",
    "campaign": "campaign",
}
ELSEWHERE = "this test failed on another rank"  # as tests/conftest.py says it
WITHOUT_RANKS = ("fmo", "hosts", "jobs", "spawn")  # no test there runs on all ranks of a job
NO_TESTS = 5  # pytest's exit status when nothing was selected
PLACES = PROCESSORS + 1  # whoever runs waits for a part of its time
PARTS = 2 * PROCESSORS  # of the tests that start their own jobs
C_TESTS = {
    "test": ["plain"],
    "matrix": ["trace"],
    "all": ["plain", "pages"],
    "campaign": ["fuzz", "crashes"],
}
NEWCOMER = {"mpich": (2, "any"), "openmpi": (3, "link")}  # what else there is, the matrix has


def _elsewhere(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return what there is in the folder of tests besides these folders."""
    names = {path.parent.name for path in launch.TESTS.glob("*/test_*.py")} - set(folders)
    return (*sorted(names), *(path.name for path in launch.TESTS.glob("test_*.py")))


class Kind(NamedTuple):
    """What one run of pytest is for: what it is called, the marker of its tests, where they are."""

    text: str
    marker: str = ""
    tests: tuple[str, ...] = (".",)


_OWN = ("hosts", "jobs")  # where tests start jobs
# Of those on several hosts: which MPI it is matters.
_BY_MPI = ("test_mpi.py", "test_slurm.py", "test_suite.py", "test_traffic.py")
IN_C = Kind("tests of the engine in C")
IN_JOB = Kind("{ranks} ranks, road {road}", "mpi")
ALONE = Kind("tests that start their own jobs", "not mpi and not hosts")
SMOKE = Kind("a test of each kind of started job", "smoke", _OWN)
IN_PROCESS = Kind("tests that start no jobs", "not mpi", _elsewhere(_OWN))
HOSTS = Kind("tests on several hosts", "hosts", ("hosts",))
HOSTS_BY_MPI = HOSTS._replace(tests=tuple(f"hosts/{name}" for name in _BY_MPI))


class Work(NamedTuple):
    """One run of pytest: under mpiexec on some ranks and a road, or alone for all other tests.

    With a `network` the ranks are on its hosts. `part`: of those tests only one of `PARTS` parts.
    `python`: of the environment.
    """

    kind: Kind
    ranks: int = 0
    road: str = "any"
    network: Network | None = None
    part: int | None = None
    python: str = sys.executable

    def __str__(self) -> str:
        text = self.kind.text.format(ranks=self.ranks, road=self.road)
        if self.kind is IN_C:
            return text
        part = "" if self.part is None else f", part {self.part + 1} of {PARTS}"
        return f"{launch.mpi_name(self.python)}, {text}{part}"


def selection(mode: str, python: str) -> list[Work]:
    """Return what to run in an environment."""
    colour = _colour(python)
    if mode == "test":
        own = [SMOKE] if colour else [SMOKE, IN_PROCESS]
        works = [Work(IN_JOB, *NEWCOMER[launch.mpi_name(python)]), *map(Work, own)]
    elif mode == "campaign":
        works = [Work(IN_JOB, ranks, road) for ranks in (2, 4) for road in launch.ROADS]
        works += [Work(HOSTS), Work(ALONE)]
    else:
        fields = itertools.product(RANKS, enumerate(launch.ROADS))
        works = [
            Work(IN_JOB, ranks, road)
            for ranks, (column, road) in fields
            if mode == "all" or (ranks + column + colour) % 2
        ]
        works += [Work(IN_JOB, 2, road) for road in launch.SEALED if mode == "all" or not colour]
        works.append(Work(HOSTS_BY_MPI if mode == "matrix" and colour else HOSTS))
        works += [Work(ALONE, part=part) for part in range(PARTS)]
    return [work._replace(python=python) for work in works]


def _colour(python: str) -> int:
    """Return which fields of the chessboard are those of an environment."""
    return 0 if launch.mpi_name(python) == "mpich" else 1


class Run(contextlib.ExitStack):
    """A work that has been started; `with` ends what is left of it."""

    def __init__(self, work: Work, mode: str, extra: Sequence[str]) -> None:
        super().__init__()
        self.work, self._began, self._guard = work, time.monotonic(), Guard(LIMITS[mode])
        folder = tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True)
        self._folder = Path(self.enter_context(folder))
        # In a folder of its own: the checkout's acp_mpi has no extension module and must not be
        # found.
        command, env = _command(work, mode, extra, self._folder), _environment(work, mode)
        self._job = self.enter_context(launch.Job(command, self._folder / "launcher", env))

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._began

    @property
    def over(self) -> bool:
        """Whether it has ended, or should have."""
        return not self._job.running or self._guard.over

    def outcome(self) -> tuple[bool, str]:
        """Return whether it passed, and its output or, if it passed, a summary."""
        hung = ""
        try:
            status = self._job.wait(0.0)
        except launch.Hang:
            status, hung = -1, f"no end within {self._guard.limit:g} s of a quiet machine\n"
        paths = sorted(self._folder.glob("rank-*"))
        logs = [(log.name, log.read_text(errors="replace")) for log in paths]
        if status in (0, NO_TESTS):
            said = logs[0][1] if logs else self._job.output
            return True, said.rstrip().rpartition("\n")[2].strip("= ") or "no tests"
        # The rank that failed comes first, or for which the others waited in vain: a reader may see
        # no more than the beginning.
        printed = [*logs, ("launcher", self._job.output)]
        texts = sorted(printed, key=lambda log: ("TimeoutError" in log[1], ELSEWHERE in log[1]))
        return False, hung + "\n".join(f"--- {name} ---\n{text}" for name, text in texts if text)


def _command(work: Work, mode: str, extra: Sequence[str], folder: Path) -> list[str]:
    if work.kind is IN_C:
        return ["make", "--no-print-directory", "-C", str(launch.TESTS / "engine"), *C_TESTS[mode]]
    marker = f"{work.kind.marker} and {MARKERS[mode]}"
    options = ["-q", "--no-header", "--color=no", "-p", "no:cacheprovider", "-m", marker]
    command = [work.python, __file__, "--rank", str(folder), *options]
    if work.ranks:
        launcher = launch.mpiexec(work.ranks, python=work.python, network=work.network)
        elsewhere = [f"--ignore={launch.TESTS / name}" for name in WITHOUT_RANKS]
        # Where each rank was must fit into what a reader of several logs gets to see.
        command = [*launcher, *command, "--with-mpi", "-x", "--tb=short", *elsewhere]
    return [*command, *extra, *(str(launch.TESTS / name) for name in work.kind.tests)]


def _environment(work: Work, mode: str) -> dict[str, str]:
    env = {**(launch.ROADS | launch.SEALED)[work.road], "TESTS_MODE": mode}
    if other := _other_python(work.python):
        env["OTHER_PYTHON"] = other
    if work.network:
        env["ACROSS_HOSTS"] = "1"
    if mode == "matrix":
        env["ACP_TEST_SHARE"] = str(_colour(work.python))
    if work.part is not None:
        env["ACP_TEST_PART"] = f"{work.part}/{PARTS}"
    return env


def run(work: Work, mode: str, extra: Sequence[str]) -> tuple[bool, str]:
    """Run one work to its end; return its outcome."""
    with Run(work, mode, extra) as started:
        while not started.over:
            time.sleep(0.05)
        return started.outcome()


def run_all(
    works: Sequence[Work], mode: str, extra: Sequence[str]
) -> Generator[tuple[Run, bool, str], None, None]:
    """Run works, the first that there are places for first; yield each that is over."""
    waiting, running = list(works), list[Run]()
    with contextlib.ExitStack() as stack:
        while waiting or running:
            free = PLACES - sum(_needs(each.work, mode) for each in running)
            if ready := [work for work in waiting if _needs(work, mode) <= free][:1]:
                waiting.remove(ready[0])
                running.append(stack.enter_context(Run(ready[0], mode, extra)))
                continue
            for each in [each for each in running if each.over]:
                running.remove(each)
                outcome = each.outcome()
                each.close()
                yield each, *outcome
            time.sleep(0.05)


def _needs(work: Work, mode: str) -> int:
    """Return how many of the places it takes; what seeks contention finds it by itself."""
    if mode == "campaign":
        return PLACES
    return PROCESSORS if work.kind is IN_C else min(work.ranks or 1, PROCESSORS)


def main(argv: Sequence[str]) -> int:
    """Run all jobs and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    mode = parser.add_mutually_exclusive_group()
    for name, text in (
        ("matrix", "every pair of rank number, road and MPI"),
        ("all", "every combination, slow tests too"),
        ("campaign", "only what is repeated until rare failures show"),
    ):
        mode.add_argument(f"--{name}", dest="mode", action="store_const", const=name, help=text)
    parser.set_defaults(mode="test")
    text = "in the environment with the other MPI as well, and the engine's tests in C"
    parser.add_argument("--both", action="store_true", help=text)
    options, extra = parser.parse_known_args(argv)
    launch.end_in_order()
    if reason := why_not():
        print(f"no tests on several hosts: {reason}", flush=True)
    began, failures = time.monotonic(), 0
    works = selection(options.mode, sys.executable)
    if options.both:
        if (other := _other_python(sys.executable)) is None:
            parser.error("no environment with the other MPI; ACP_TEST_OTHER_PYTHON names one")
        works += selection(options.mode, other)
        if options.mode in C_TESTS:
            works.insert(0, Work(IN_C))
    if options.mode != "campaign":  # the longest first: at the end all have something to do
        works.sort(key=lambda work: (work.ranks > 0, "hosts" not in work.kind.marker, -work.ranks))
    with (
        tempfile.TemporaryDirectory(prefix="shared-", ignore_cleanup_errors=True) as folder,
        contextlib.closing(run_all(works, options.mode, extra)) as all_of_them,
    ):
        # Each rank of each job would compile all tests, where nothing of it may be written, and
        # Hypothesis seek all characters that there are.
        os.environ["PYTHONPYCACHEPREFIX"] = os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for ended, good, text in all_of_them:
            launch.sweep()
            print(
                f"{ended.work}: {'passed' if good else 'FAILED'} in "
                f"{ended.seconds:.1f} s{f' ({text})' if good else ''}",
                flush=True,
            )
            if not good:
                failures += 1
                print(text, flush=True)
    print(
        f"{failures or 'no'} job{'s' * (failures != 1)} failed, "
        f"{time.monotonic() - began:.0f} s in all",
        flush=True,
    )
    return 1 if failures else 0


def _other_python(python: str) -> str | None:
    """Return the Python of the environment with the other MPI, if there is one beside this."""
    if python != sys.executable:
        return sys.executable
    if name := os.environ.get("ACP_TEST_OTHER_PYTHON"):
        return name
    name = "openmpi" if launch.mpi_name() == "mpich" else "mpich"
    beside = Path(sys.prefix).with_name(name) / "bin" / "python"
    return str(beside) if beside.exists() else None


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
