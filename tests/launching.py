"""What `macprun` would start, without starting it: for `spawn/`."""

from acp_mpi.launch.macprun import launchers, nodes
from acp_mpi.launch.macprun.meeting import Meeting
from acp_mpi.launch.macprun.plan import Group, Plan

MEETING = Meeting("host:7", bytes(range(32)))


def only(folder, environ=None, present=0, **options):
    """Return what starts a job of one group of four with MPI; its launcher is in `folder`."""
    group = Group("w", 4, ("prog", "arg"), True, **options)
    other = Group("m", 1, ("prog",), hosts=("elsewhere",))
    plan = Plan((group, other))
    env = {"PATH": str(folder), **(environ or {})}
    return launchers.starts(plan, nodes.assign(plan, env), MEETING, env, present=present)[0]
