"""What tests share that start jobs on this host: a rendezvous, ACP-only processes."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import launch
import pytest
from starting import Start

from acp_mpi.spawn import secret
from acp_mpi.spawn.rendezvous import Server


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
