"""What tests share that start jobs on this host: a rendezvous, ACP-only processes."""

import contextlib
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import launch
import pytest
from starting import Start

from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.server import Server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with nothing in it."""
    made = tmp_path / "files"
    made.mkdir()
    return made


@pytest.fixture
def meeting(tmp_path: Path) -> Iterator[Callable[..., dict[str, str]]]:
    """meeting(groups) opens a rendezvous; returns the environment of those who go there."""
    with contextlib.ExitStack() as stack:

        def open_(groups: int | dict[str, int]) -> dict[str, str]:
            path = Path(tempfile.mkdtemp(dir=tmp_path), "secret")
            server = stack.enter_context(Server(secret.create(path), groups))
            return {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(path)}

        yield open_


@pytest.fixture
def without_mpi(start: Start, meeting: Callable[..., dict[str, str]]) -> Callable[..., list]:
    """without_mpi(ranks, command, env) starts ACP-only processes of one group."""

    def run(ranks: int, command: list[str], env: dict[str, str] | None = None) -> list[launch.Job]:
        place = meeting({"alone": ranks}) | {
            "ACP_MPI": "0", "ACP_GROUP": "alone", "ACP_GROUP_SIZE": str(ranks),
        } | (env or {})  # fmt: skip
        return [start(command, place | {"ACP_GROUP_RANK": str(rank)}) for rank in range(ranks)]

    return run


@pytest.fixture
def groups(start: Start) -> Callable[..., dict[str, list[launch.Job]]]:
    """groups(sizes, function, arguments, env) starts groups that run a function of a test file.

    `sizes`: name -> (kind, ranks); the kind is "acp" for processes without MPI, "mpi", or "other"
    for the other MPI. Returns the jobs of each group, one for each process without MPI.
    """

    def begin(name: str, kind: str, ranks: int, command: list[str], env: dict) -> list[launch.Job]:
        place = env | {"ACP_GROUP": name}
        if kind == "acp":
            place |= {"ACP_MPI": "0", "ACP_GROUP_SIZE": str(ranks)}
            return [start(command, place | {"ACP_GROUP_RANK": str(r)}) for r in range(ranks)]
        return [start([*launch.mpiexec(ranks, python=command[0]), *command], place)]

    def run(
        sizes: dict[str, tuple[str, int]],
        function: object,
        *arguments: object,
        env: dict[str, str] | None = None,
    ) -> dict[str, list[launch.Job]]:
        jobs = {}
        for name, (kind, ranks) in sizes.items():
            python = launch.other_python() if kind == "other" else sys.executable
            if python is None:
                pytest.skip("no environment with the other MPI (OTHER_PYTHON)")
            command = launch.program(function, *arguments, python=python)
            jobs[name] = begin(name, kind, ranks, command, env or {})
        return jobs

    return run


@pytest.fixture
def all_pass() -> Callable[[dict[str, list[launch.Job]]], None]:
    """all_pass(jobs) waits until all have ended well and left no process."""

    def check(jobs: dict[str, list[launch.Job]]) -> None:
        flat = [job for group in jobs.values() for job in group]
        for job in flat:
            assert job.wait() == 0, "\n".join(job.output for job in flat)
        for job in flat:
            job.wait_for_all()  # a minder ends after it

    return check


@pytest.fixture
def two_survive(without_mpi: Callable[..., list], tmp_path: Path) -> Callable[..., None]:
    """two_survive(command, road) starts three ranks, of which the last is killed by SIGKILL.

    The others have each left a file "RANK survived" in the test's folder.
    """

    def run(command: list[str], road: str) -> None:
        jobs = without_mpi(3, command, launch.ROADS[road])
        statuses = [job.wait() for job in jobs]
        text = "\n".join(job.output for job in jobs)
        assert statuses == [0, 0, -signal.SIGKILL], text
        assert len(list(tmp_path.glob("* survived"))) == 2, text

    return run


@pytest.fixture
def shell(passes: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    """shell(block) runs it as a user would whose first `python` is this one; returns its output.

    Errors and warnings are left out, unless the block fails.
    """

    def run(block: str, folder: Path = tmp_path, limit: float = 40.0) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        errors = shlex.quote(str(tmp_path / "errors"))
        script = f"cd {shlex.quote(str(folder))} && {{\n{block}}} 2>{errors}"
        return passes(
            ["sh", "-c", f"{script} || {{ cat {errors}; exit 1; }}"], {"PATH": path}, limit
        )

    return run
