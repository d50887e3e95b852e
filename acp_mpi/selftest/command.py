"""`python -m acp_mpi selftest`: start small jobs, and say what works here and what does not."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from acp_mpi.tools import stdout
from acp_mpi.util import usage

_LIMIT = 60.0  # s, for a job; all of them together take some ten
_GRACE = 5.0  # s, for a launcher to end its ranks
_LABEL = re.compile(r"^\[[\w.]+\] ")  # of macprun
_LINES = 6  # of a failed job's output
# Words of a failed job's output, and what helps.
_REMEDIES = (
    ("as root", "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"),
    ("slots", "export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe, or give a smaller -n"),
    (
        "in a job of 1",
        "use the mpiexec of the MPI that mpi4py loads: beside python, where pip put it",
    ),
    ("No module named", "install what is missing for the Python that runs the ranks"),
    ("did not end", "see how far the ranks come: the same launcher with python -m acp_mpi info"),
)
_OTHERWISE = "look for the message in docs/trouble.md"


class Job(NamedTuple):
    """A job to start, and the steps that it runs: the words for each."""

    command: list[str]
    settings: dict[str, str]
    steps: dict[str, str]


class Ended(NamedTuple):
    """How a job has ended: what its steps have found, and its other lines."""

    good: bool
    found: dict[str, str]
    output: list[str]


def _mpiexec() -> list[str]:
    """Return the launcher beside this Python, else that of PATH; nothing if there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    found = beside if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    return [found] if found else []


def _steps(job: str, processes: int) -> list[str]:
    return [sys.executable, "-P", "-m", "acp_mpi.selftest.steps", job, str(processes)]


def _jobs(launcher: list[str], count: int) -> list[Job]:
    macprun = [sys.executable, "-P", "-m", "acp_mpi.launch.macprun"]
    with_mpi = ["--launcher", shlex.join(launcher), "--mpi"] if launcher else []
    apart = [*macprun, "-n", "2", *_steps("groups", 2 + count)]
    apart += [":", "-n", str(count), *with_mpi, *_steps("groups", 2 + count)]
    dying = [*macprun, "-n", "2", *_steps("killed", 3)]
    dying += [":", "-n", "1", "--optional", *_steps("killed", 3)]
    jobs = [
        Job(apart, {}, {"groups": "groups started apart"}),
        Job(dying, {}, {"killed": "a rank that is killed"}),
    ]
    if launcher:
        ranks = [*launcher, "-n", str(count)]
        all_steps = {
            "started": "one job",
            "memory": "memory of other ranks",
            "atomics": "atomics",
            "heap": "heap",
            "containers": "containers",
            "messages": "messages",
            "collectives": "collectives",
        }
        jobs = [
            Job([*ranks, *_steps("job", count)], {}, all_steps),
            Job(
                [*ranks, *_steps("job", count)],
                {"ACP_PATH": "link"},
                {"memory": "as between hosts"},
            ),
            Job([*launcher, "-n", "1", *_steps("spawned", 1)], {}, {"spawned": "Comm.Spawn"}),
            *jobs,
        ]
    return jobs


def _run(job: Job) -> Ended:
    """Run a job to its end, or until it takes too long."""
    process = subprocess.Popen(
        job.command,
        env=os.environ | job.settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        text = f"{_end(process)}\nit did not end within {_LIMIT:.0f} s"
    except BaseException:  # Ctrl-C: the job has a session of its own
        _end(process)
        raise
    found: dict[str, str] = {}
    output = []
    for line in text.splitlines():
        said = _LABEL.sub("", line)
        name, tab, value = said.partition("\t")
        if tab:
            found[name] = value
        elif said.strip(" -") and not said.startswith(("Traceback ", " ")):
            output.append(said)
    return Ended(process.returncode == 0, found, output)


def _end(process: subprocess.Popen[str]) -> str:
    """End a job, its launcher first, which ends its ranks; return what it has said."""
    process.terminate()
    try:
        return process.communicate(timeout=_GRACE)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def _remedy(output: Sequence[str]) -> str:
    text = "\n".join(output)
    return next((remedy for words, remedy in _REMEDIES if words in text), _OTHERWISE)


def _report(job: Job, ended: Ended) -> int:
    """Print a line for each step that has worked, some for those that fail: their number."""
    missing = [words for name, words in job.steps.items() if name not in ended.found]
    if not ended.good:
        missing = missing or list(job.steps.values())
    for name, words in job.steps.items():
        if words not in missing:
            print(f"works  {words:24}{ended.found[name]}", flush=True)
    if missing:
        print("FAILS ", ", ".join(missing))
        print("       by:  ", " ".join(_shown(job)))
        for line in list(dict.fromkeys(ended.output))[:_LINES] or ["it said nothing"]:
            print("            ", line)
        print("       next:", _remedy(ended.output), flush=True)
    return len(missing)


def _shown(job: Job) -> list[str]:
    """Return the command line as a user would type it."""
    settings = [f"{name}={value}" for name, value in job.settings.items()]
    return [*settings, *job.command]


def _versions() -> Mapping[str, str]:
    from importlib import metadata

    found = {"Python": platform.python_version()}
    for name in ("acp-mpi", "numpy", "mpi4py"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _test(launcher: list[str], count: int) -> int:
    """Run all jobs; return how many steps fail."""
    started = time.monotonic()
    print(", ".join(f"{name} {version}" for name, version in _versions().items()))
    print(f"{platform.node()}, {len(os.sched_getaffinity(0))} processors, ", end="")
    print("launcher", shlex.join(launcher) if launcher else "none", end="\n\n")
    failed = 0
    if not launcher:
        failed += 1
        print("FAILS  mpiexec: there is none beside this Python, and none in PATH")
        print("       next: pip install mpich, or load the MPI module of this cluster")
    for job in _jobs(launcher, count):
        failed += _report(job, _run(job))
    print(f"\n{f'{failed} of the steps fail' if failed else 'all works'}", end=", ")
    print(f"{time.monotonic() - started:.0f} s")
    return failed


def main(argv: list[str]) -> int:
    """Run the command line; return 1 if anything fails."""
    parser = usage.Parser(
        prog="python -m acp_mpi selftest",
        description="Start small jobs, as programs are started, and show what works here.",
        epilog="Start it by itself, without mpiexec.",
    )
    parser.add_argument("-n", type=int, default=2, metavar="N", help="ranks of a job (default: 2)")
    parser.add_argument(
        "--launcher",
        metavar="LINE",
        type=shlex.split,
        help="the MPI launcher and options of it (default: mpiexec beside this Python, or of PATH)",
    )
    given = parser.parse_args(argv)
    if given.n < 2:
        parser.error(f"-n {given.n}: at least two ranks")
    launcher = given.launcher or _mpiexec()
    if given.launcher and not shutil.which(given.launcher[0]):
        parser.error(f"--launcher: there is no program {given.launcher[0]!r}")
    stdout.stand_in()
    try:
        return int(_test(launcher, given.n) > 0)
    except OSError as reason:
        return stdout.lost("selftest", reason)
