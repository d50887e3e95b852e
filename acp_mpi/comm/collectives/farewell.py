"""The last message of a rank that cannot go on to those that will wait for its later parts."""

from __future__ import annotations

from acp_mpi.comm.collectives.plans import plan_of
from acp_mpi.comm.collectives.schedule import TMP, place, send
from acp_mpi.engine import _engine
from acp_mpi.errors import PeerLostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.comm.collectives.choice import Paper
    from acp_mpi.comm.collectives.team import Team


class Farewell:
    """With it, an error in the block is told to all members, in parts that have not begun.

    A collective of objects has two parts. A rank that fails in the first cannot know the lengths
    and the senders of the messages of the second.
    """

    def __init__(self, function: str, team: Team, *contexts: int) -> None:
        self._function, self._team, self._contexts = function, team, contexts

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # A dropped request is not an error: a reset, or the end of the program.
        team = self._team
        if error is None or isinstance(error, GeneratorExit) or team.over:
            return

        def write() -> list[Paper]:
            others = range(len(team.ranks))
            return [([[send(i, place(TMP, 0, 0)) for i in others if i != team.me]], {})]

        plan = plan_of(team, "barrier", "farewell", None, write)
        lost = error.rank if isinstance(error, PeerLostError) else None
        why = getattr(error, "why", 0)
        for context in self._contexts:
            _engine.Collective(self._function, plan, None, None, context).farewell(lost, why)
