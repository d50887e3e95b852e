"""What tests share that start jobs of their own: launchers, ACP-only processes, a rendezvous."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import launch
import pytest

from acp_mpi.spawn import secret
from acp_mpi.spawn.rendezvous import Server

Start = Callable[..., launch.Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start(command, env) starts a job; what is left of it at the end of the test is killed."""
    numbers = itertools.count()
    with contextlib.ExitStack() as stack:

        def begin(command: list[str], env: dict[str, str] | None = None) -> launch.Job:
            return stack.enter_context(
                launch.Job(command, tmp_path / f"job-{next(numbers)}", env)
            )  # fmt: skip

        yield begin


@pytest.fixture
def passes(start: Start) -> Callable[..., str]:
    """passes(command, env) runs a job to its end, checks that it went well, returns its output."""

    def run(command: list[str], env: dict[str, str] | None = None, limit: float = 40.0) -> str:
        job = start(command, env)
        status = job.wait(limit)
        assert status == 0, f"exit status {status}:\n{job.output}"
        return job.output

    return run


@pytest.fixture
def fails(start: Start) -> Callable[..., str]:
    """fails(command, env) runs a job that must end by itself, not well; returns its output."""

    def run(command: list[str], env: dict[str, str] | None = None, limit: float = 40.0) -> str:
        job = start(command, env)
        status = job.wait(limit)
        assert status != 0, f"exit status 0:\n{job.output}"
        return job.output

    return run


@pytest.fixture
def meeting(tmp_path: Path) -> Iterator[Callable[..., dict[str, str]]]:
    """meeting(groups) opens a rendezvous; returns the environment of those who go there."""
    with contextlib.ExitStack() as stack:

        def open_(groups: int | dict[str, int]) -> dict[str, str]:
            path = tmp_path / "secret"
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
