"""How tests start jobs of their own: fixtures for `jobs/` and `hosts/`."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import launch
import pytest

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


# Open MPI's mpiexec, now and then on a busy machine, before it has started any process.
LAUNCHER_FAILED = "The PMIx server's listener thread failed to start"


@pytest.fixture
def passes(start: Start) -> Callable[..., str]:
    """passes(command, env) runs a job to its end, checks that it went well, returns its output.

    All of its processes end by themselves.
    """

    def run(command: list[str], env: dict[str, str] | None = None, limit: float = 40.0) -> str:
        job = start(command, env)
        status = job.wait(limit)
        if status and LAUNCHER_FAILED in job.output:
            print("the launcher could not start, and is started again:", job.output, sep="\n")
            job = start(command, env)
            status = job.wait(limit)
        assert status == 0, f"exit status {status}:\n{job.output}"
        job.wait_for_all(limit)
        return job.output

    return run


@pytest.fixture
def fails(start: Start) -> Callable[..., str]:
    """fails(command, env) runs a job that must end by itself, not well; returns its output.

    A launcher that is ended by a signal has not ended by itself: its output may be missing.
    """

    def run(command: list[str], env: dict[str, str] | None = None, limit: float = 40.0) -> str:
        job = start(command, env)
        status = job.wait(limit)
        assert status > 0, f"exit status {status}:\n{job.output}"
        return job.output

    return run
