"""A barrier after which its members may end at any time."""

from __future__ import annotations

from acp_mpi.comm.collectives import tree
from acp_mpi.comm.collectives.plans import compiled, note_of
from acp_mpi.comm.collectives.schedule import TMP, without_bytes
from acp_mpi.engine import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.comm.collectives.choice import Paper
    from acp_mpi.comm.collectives.sizes import Flow
    from acp_mpi.comm.collectives.team import Team


def part(function: str, team: Team) -> Flow:
    """Keep all members until all have come.

    Until all have come a death ends it for all. From then on members end, and a death matters only
    to members that still wait for a message by way of the dead.
    """
    come, go = team.context(), team.context()
    ways = (
        (tree.reduce(team.n, team.me, 0, False), come, team.ranks),
        (tree.bcast(team.n, team.me, 0), go, ()),
    )
    for rounds, context, watched in ways:
        paper: Paper = without_bytes(rounds), {TMP: [0]}
        note = note_of("barrier", "parting")
        plan = compiled(team.ranks, [paper], 1, (-1, 0), None, note, watched)
        yield _engine.Collective(function, plan, None, None, context)
