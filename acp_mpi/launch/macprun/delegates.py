"""Groups that `--delegates` adds: one process of a delegate on each node of the job."""

import sys
from collections.abc import Mapping

from acp_mpi.launch.macprun.nodes import Node, canonical
from acp_mpi.launch.macprun.plan import Group, Plan, UsageError, check

_COMMAND = (sys.executable, "-P", "-m", "acp_mpi.delegates")


def beside(
    plan: Plan, given: Mapping[str, tuple[Node, ...]]
) -> tuple[Plan, dict[str, tuple[Node, ...]]]:
    """Return a plan and its nodes with the delegates, which take no slots of the programs.

    Groups with different `ACP_NODE` are on different nodes of one host.
    """
    found: dict[tuple[str, str | None], str] = {}
    for group in plan.groups:
        if not given[group.name]:
            raise UsageError(
                f"--delegates: the launcher line of group {group.name!r} says where it runs, which "
                "macprun does not read: name its hosts by --hosts"
            )
        for node in given[group.name]:
            found.setdefault((canonical(node.host), group.env.get("ACP_NODE")), node.host)
    groups, where = [*plan.groups], dict(given)
    for number, ((_, apart), host) in enumerate(found.items()):
        env = {"ACP_SERVICE": "1"} | ({} if apart is None else {"ACP_NODE": apart})
        groups.append(Group(f"delegate-{number}", 1, _COMMAND, env=env, optional=True))
        where[groups[-1].name] = (Node(host, 1),)
    return check(plan._replace(groups=tuple(groups))), where
