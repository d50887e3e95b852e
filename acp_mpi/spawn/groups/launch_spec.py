"""The orders of a supervisor: command lines and environments of the groups of one call."""

from __future__ import annotations

import os
from _thread import allocate_lock

from acp_mpi.engine import _engine
from acp_mpi.launch.macprun import secret_file
from acp_mpi.launch.macprun.launchers import starts
from acp_mpi.launch.macprun.nodes import HERE, Node
from acp_mpi.launch.macprun.plan import Group, Plan, check
from acp_mpi.util import lifecycle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from acp_mpi.launch.macprun.meeting import Meeting
    from acp_mpi.spawn.groups.groups import Request


_lock = allocate_lock()
_file: secret_file.SecretFile | None = None


def planned(requests: Iterable[Request], patience: float) -> Plan:
    """Return the groups of a call; raise UsageError for what no job can have.

    `patience`: s for which their processes wait for each other, without another setting.
    """
    env = {"ACP_JOIN_TIMEOUT": str(float(patience))}
    return check(Plan(tuple(_group(request, env) for request in requests)))


def made(plan: Plan, meeting: Meeting) -> list[list[dict[str, Any]]]:
    """Return what to start for each group; raise Error where there is no launcher."""
    given = {
        group.name: () if group.finds_hosts else (Node(HERE, group.size),) for group in plan.groups
    }
    found: dict[str, list[dict[str, Any]]] = {group.name: [] for group in plan.groups}
    living = _engine.procs() - len(_engine.lost_ranks())
    present = min(_engine.mates(), living)
    for start in starts(
        plan, given, meeting, os.environ, marked=False, single=True, present=present
    ):
        directory = _directory(start.directory)
        order: dict[str, Any] = {"command": start.command, "directory": directory}
        order["env"] = dict(start.env)
        order["mpi"] = start.env["ACP_MPI"] == "1"
        found[start.group].append(order)
    path = secret_file.named(order["env"] for orders in found.values() for order in orders)
    if path is not None:
        _keep_secret(path, meeting.secret)
    return list(found.values())


def _keep_secret(path: str, secret: bytes) -> None:
    """Have the secret in a file, for processes on other hosts, until this job ends."""
    global _file
    with _lock:
        if _file is None:
            _file = secret_file.SecretFile(path, secret)


@lifecycle.on_close
def _remove_secret() -> None:
    global _file
    with _lock:
        if _file is not None:
            _file.remove()
            _file = None


def _group(request: Request, env: Mapping[str, str]) -> Group:
    here = (f"{HERE}:{request.n}",)
    return Group(
        request.name, request.n, request.command, request.mpi, here, {**env, **request.env},
        request.wdir, request.launcher,
    )  # fmt: skip


def _directory(wanted: str | None) -> str:
    """Return a directory as another process finds it."""
    return os.path.join(os.getcwd(), wanted or "")
