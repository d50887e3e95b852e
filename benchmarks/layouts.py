"""A master and 32 workers in groups, started in four ways, and what their processes took."""

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jobs import JobError

from acp_mpi.job.rendezvous import secret

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import launch

PROCESS = Path(__file__).with_name("memory_process.py")
STAGES = ("start", "import", "MPI", "joined", "sent", "end")
LIMIT = 300.0  # seconds for one job: MPICH takes half a minute to spawn 32 groups


class Layout(NamedTuple):
    """How many groups of how many workers each."""

    groups: int
    size: int

    def __str__(self) -> str:
        return f"({self.groups},{self.size})"


class Memory(NamedTuple):
    """What a process took at a stage, in bytes."""

    heap: int
    pss: int
    uss: int


class Helpers(NamedTuple):
    """Processes of one kind that our Spawn has started beside the children, and what they took."""

    number: int
    pss: int
    uss: int


Course = Mapping[str, Memory]  # by stage


@dataclass(frozen=True, slots=True)
class Outcome:
    """What master and first process of each group took; seconds until all were at each stage."""

    master: Course
    roots: Sequence[Course]
    seconds: Mapping[str, float]
    helpers: Mapping[str, Helpers]
    """By kind, when all was sent."""

    @property
    def joined(self) -> float:
        """Seconds from the start until all had joined."""
        return self.seconds["joined"]


def most(courses: Iterable[Course], quantity: str) -> int:
    """Return the most that any of these processes took at any stage."""
    return max(int(getattr(memory, quantity)) for course in courses for memory in course.values())


def median(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome whose start took the median time of them."""
    middle = statistics.median_low(outcome.joined for outcome in outcomes)
    return next(outcome for outcome in outcomes if outcome.joined == middle)


def run(way: str, layout: Layout, python: str) -> Outcome:
    """Run a job in one way, "ours", "plain", "spawn", "own" or "split", with the MPI of `python`.

    "own" is the program of "spawn" with our Spawn in place of MPI's. All processes of a job are
    there at once, and gone when this returns.
    """
    with tempfile.TemporaryDirectory(prefix="acp-bench-") as name, contextlib.ExitStack() as stack:
        folder, seen = Path(name), Path(name, "seen")
        seen.mkdir()

        def start(command: Sequence[str], env: Mapping[str, str] | None = None) -> launch.Job:
            log = folder / f"log-{len(jobs)}"
            jobs.append(stack.enter_context(launch.Job(command, log, env)))
            return jobs[-1]

        jobs: list[launch.Job] = []
        program = "spawn" if way == "own" else way
        arguments = [python, str(PROCESS), program, str(seen), *map(str, layout)]
        place = _rendezvous(folder, layout, start) if way == "ours" else {}
        began = time.monotonic()
        if way in ("ours", "plain"):
            start(arguments, place | {"ACP_MPI": "0", "ACP_GROUP": "master"})
            for group in range(layout.groups):
                command = [*launch.mpiexec(layout.size, python=python), *arguments, str(group)]
                start(command, place | {"ACP_MPI": "1", "ACP_GROUP": f"g{group}"})
        else:
            ranks = 1 if program == "spawn" else 1 + layout.groups * layout.size
            env = {"ACP_SPAWN": "1"} if way == "own" else None
            start([*launch.mpiexec(ranks, python=python), *arguments], env)
        for job in jobs:
            try:
                status = job.wait(LIMIT)
            except launch.Hang as reason:
                raise JobError(f"{way} {layout}: {str(reason)[:2000]}") from None
            if status:
                raise JobError(f"{way} {layout}: exit status {status}\n{job.output[-2000:]}")
        return _read(seen, layout, began)


def _rendezvous(folder: Path, layout: Layout, start: Callable[..., launch.Job]) -> dict[str, str]:
    """Start a rendezvous and return the environment of those who meet there."""
    path = folder / "secret"
    secret.create(path)
    groups = {"master": 1} | {f"g{group}": layout.size for group in range(layout.groups)}
    sizes = ",".join(f"{name}={size}" for name, size in groups.items())
    serve = [sys.executable, "-m", "acp_mpi.launch.macprun", "serve", "--groups", sizes]
    job = start([*serve, "--secret-file", str(path)])
    while "\n" not in job.output:
        if not job.running:
            raise JobError(f"no rendezvous: {job.output}")
        time.sleep(0.01)
    variable, _, address = job.output.strip().partition("=")
    return {variable: address, "ACP_SECRET_FILE": str(path)}


def _read(seen: Path, layout: Layout, began: float) -> Outcome:
    """Return what the processes wrote down."""
    courses: dict[str, dict[str, Memory]] = {}
    last: dict[str, float] = {}
    helpers: dict[str, Helpers] = {}
    for path in seen.iterdir():
        if path.name == "helpers":
            for line in path.read_text().splitlines():
                kind, *numbers = line.split()
                helpers[kind] = Helpers(*map(int, numbers))
            continue
        courses[path.name] = {}
        for line in path.read_text().splitlines():
            stage, seconds, *memory = line.split()
            if memory:
                courses[path.name][stage] = Memory(*map(int, memory))
            last[stage] = max(last.get(stage, 0.0), float(seconds) - began)
    expected = 1 + layout.groups * layout.size
    if len(courses) != expected:
        raise JobError(f"{layout}: {len(courses)} processes of {expected} have written")
    roots = [courses[f"{group}.0"] for group in range(layout.groups)]
    return Outcome(courses["master"], roots, last, helpers)
