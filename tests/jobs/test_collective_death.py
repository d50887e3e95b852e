"""A rank dies in a collective: all that take part hear of it, whoever they wait for themselves."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import launch
import pytest

import acp_mpi as acp

RANKS = 4


def large(request: bool) -> None:
    import numpy as np

    x = np.ones(300_000)
    acp.iallreduce(x).wait() if request else acp.allreduce(x)


def small(request: bool) -> None:
    import numpy as np

    x = np.ones(1)
    acp.iallreduce(x).wait() if request else acp.allreduce(x)


def objects(request: bool) -> None:
    x = "x" * 1000
    acp.iallgather(x).wait() if request else acp.allgather(x, ranks=range(acp.procs()))


def chained(request: bool) -> None:
    acp.iscan("x").wait() if request else acp.scan("x")


CALLS: dict[str, Callable[[bool], None]] = {
    "large": large,
    "small": small,
    "objects": objects,
    "chained": chained,
}


def mourn(folder: str, victim: str, call: str, request: str) -> None:
    """Call until one dies in between; then go on among the living."""
    acp.init()
    dead = int(victim)
    try:
        for i in range(1000):
            if acp.rank() == dead and i == 7:
                os.kill(os.getpid(), signal.SIGKILL)
            CALLS[call](request == "request")
        raise AssertionError("it went on without the dead")
    except acp.PeerLostError as error:
        assert error.rank == dead, error  # noqa: PT017
    while dead in acp.refresh():
        continue
    living = [rank for rank in range(RANKS) if rank != dead]
    assert acp.allreduce(acp.rank(), ranks=living) == sum(living)
    assert acp.allreduce(acp.rank()) == sum(living)
    request_of_all: Any = acp.iallgather(acp.rank())
    assert request_of_all.wait() == [None if r == dead else r for r in range(RANKS)]
    Path(folder, f"{acp.rank()} survived").touch()


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize(
    ("call", "how"),
    [("large", "blocking"), ("small", "request"), ("objects", "blocking"), ("chained", "request")],
)
def test_all_members_hear_of_a_death(
    without_mpi: Any, tmp_path: Path, road: str, call: str, how: str
) -> None:
    victim = 1 if how == "blocking" else RANKS - 1
    program = launch.program(mourn, tmp_path, victim, call, how)
    jobs = without_mpi(RANKS, program, launch.ROADS[road])
    statuses = [job.wait() for job in jobs]
    text = "\n".join(job.output for job in jobs)
    assert statuses == [-signal.SIGKILL if r == victim else 0 for r in range(RANKS)], text
    assert {r for r in range(RANKS) if (tmp_path / f"{r} survived").exists()} == set(
        range(RANKS)
    ) - {victim}, text
