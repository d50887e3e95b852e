"""What tests share that start jobs on this host: a rendezvous, ACP-only processes."""

import contextlib
import os
import signal
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import launch
import pytest
from starting import Start

from acp_mpi.spawn import secret
from acp_mpi.spawn.rendezvous import Server


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave every other road of a test to the environment with the other MPI (run.py says which).

    Like the jobs of run.py, the pairs of test and road are shared like the fields of a chessboard.
    """
    share = os.environ.get("ACP_TEST_SHARE")
    roads = list(launch.ROADS)

    def elsewhere(item: pytest.Item) -> bool:
        road = item.callspec.params.get("road") if hasattr(item, "callspec") else None
        if share is None or road not in roads or item.path.parent != Path(__file__).parent:
            return False
        return (roads.index(road) + zlib.crc32(item.originalname.encode()) + int(share)) % 2 == 1

    left = [item for item in items if elsewhere(item)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


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
