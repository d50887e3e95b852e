"""Find the delegate of a node, or start it."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import acp_mpi as acp
from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job import membership
from acp_mpi.job.rendezvous.row import Process
from acp_mpi.job.rendezvous.secret import job_id

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOK = 0.01  # s


@contextlib.contextmanager
def _turn(name: str, end: float | None) -> Iterator[None]:
    """Keep the other ranks of the node out; what a killed one held is free."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as turn:
        while True:
            try:
                turn.bind(name)
                break
            except OSError:
                if end is not None and time.monotonic() > end:
                    raise TimeoutError(
                        "delegate: another rank of this node starts it, and has not come to an end"
                    ) from None
                time.sleep(_LOOK)
        yield


def spawn(command: Any, n: int, how: dict[str, Any]) -> str:
    """Start a group, at the delegate, and return its name."""
    return acp.spawn_group(command, n, **how).name


def _delegates(node: int) -> list[int]:
    services = set(_engine.services())
    ranks = [
        r
        for group in membership.groups()
        if group.name.startswith("delegate-")
        for r in group.ranks
    ]
    return [rank for rank in ranks if rank in services and node_of(rank) == node]


def node_of(rank: int) -> int:
    """Return the node of a rank."""
    return Process.of(_engine.row_of(_engine.slot_of(rank))).node


def living_delegate(node: int) -> int | None:
    """Return the rank of the delegate of a node, as far as this process knows the job."""
    for rank in _delegates(node):
        if _engine.doing(rank) >= 0 and _engine.is_alive(rank):
            return rank
    return None


def rank_of_delegate(start: bool, timeout: float | None) -> int:
    """Return the rank of the node's delegate; one rank at a time looks for it, and may start it."""
    end = None if timeout is None else time.monotonic() + timeout
    node = Process.of(_engine.row()).node
    job = job_id(membership.job().place.secret).hex()
    with _turn(f"\0acp_mpi.{job}.delegate-{node:x}", end):
        membership.learn_of_newcomers()
        rank = living_delegate(node)
        if rank is not None:
            return rank
        if not start:
            raise Error("delegate: there is none on this node; call it with start=True")
        started = acp.spawn_group(
            [sys.executable, "-P", "-m", "acp_mpi.delegates"],
            mpi=False,
            name=f"delegate-{node:x}-{len(_delegates(node))}",
            env={"ACP_SERVICE": "1", "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            timeout=None if end is None else max(end - time.monotonic(), 0.001),
        )
        return started.ranks[0]
