"""The members of a collective, and what they number alike: ranks, roots, contexts."""

from __future__ import annotations

import struct

from acp_mpi.engine import _engine
from acp_mpi.errors import RankError
from acp_mpi.job import membership
from acp_mpi.util.lifecycle import on_close, on_reset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_SECOND = 0x5851F42D4C957F2D

_teams: dict[Any, Team] = {}
_contexts: dict[Any, _engine.Contexts] = {}  # by the ranks: teams of the same ones count together


class Team:
    """The ranks of a collective in their order; between two groups the own one first.

    `me` is the caller's place, `own` how many its group has, `other` how many the other; 0: there
    is no other. All members count their calls, so that each call has a context of its own; teams
    of the same ranks have others if they are `of` something else.

    `pickler`: turns objects into bytes, and bytes into objects, if not `pickle`; as with mpi4py, a
    member that gives to all gets a copy then, too.
    """

    def __init__(
        self,
        function: str,
        own: tuple[int, ...],
        other: tuple[int, ...] = (),
        of: bytes = b"collective",
        pickler: Any = None,
    ) -> None:
        here = _engine.rank()
        self.ranks = own + other
        _check(function, own, other, here)
        self.me = own.index(here)
        self.own, self.other = len(own), len(other)
        first, second = sorted((own, other)) if other else (own, other)
        text = struct.pack(f"<{len(self.ranks) + 1}q", *first, -1, *second)
        self.contexts = _engine.Contexts(int.from_bytes(_engine.sha256(of + text)[:8], "little"))
        self.pickler = pickler
        self.plans: dict[Any, _engine.Plan] = {}
        self.span = 0  # places of lists of objects, for each rank; 0: one for each member
        self.over = False  # after a reset others have its contexts

    @property
    def n(self) -> int:
        """How many members there are on the caller's side."""
        return self.own

    def context(self) -> int:
        """Return the context of this call, the same on all members.

        All take one for each call, whatever it moves, those too that have nothing to do in it or
        refuse it.
        """
        return self.contexts.next()

    def place(self, root: Any, function: str) -> int:
        """Return which member rank `root` is; None: the first."""
        if root is None:
            return 0 if not self.other or self.ranks[0] < self.ranks[self.own] else self.own
        rank = _engine.existing_rank(root, function)
        try:
            return self.ranks.index(rank)
        except ValueError:
            raise RankError(
                f"{function}: the root {rank} is not among the ranks {_shown(self.ranks)}; name "
                "one of them"
            ) from None


def second(context: int) -> int:
    """Return the context of the second part of the call that has this one."""
    return context ^ _SECOND


def _shown(ranks: Sequence[int]) -> str:
    return str(list(ranks)) if len(ranks) <= 16 else f"[{ranks[0]}, {ranks[1]}, ... {ranks[-1]}]"


def _check(function: str, own: tuple[int, ...], other: tuple[int, ...], here: int) -> None:
    seen: set[int] = set()
    for rank in own + other:
        _engine.existing_rank(rank, function)
        if rank in seen:
            raise RankError(
                f"{function}: rank {rank} is named twice in {_shown(own + other)}; name each once"
            )
        seen.add(rank)
    if here not in own:
        raise RankError(
            f"{function}: the calling rank {here} is not among {_shown(own + other)}; only "
            "they call"
        )


def _ranks_of(x: Any, function: str) -> tuple[int, ...]:
    if isinstance(x, str):
        x = membership.group(x)
    ranks = getattr(x, "ranks", x)
    if not hasattr(ranks, "__iter__"):
        raise TypeError(f"{function}: {ranks!r:.60} is not a list of ranks; use [{ranks!r:.60}]")
    return tuple(_engine.existing_rank(rank, function) for rank in ranks)


def team_of(function: str, ranks: Any, group: Any, between: Any) -> Team:
    """Return the team that the keywords of a call mean; all of them None: all that live.

    `ranks`: a list; `group`: a group, or its name; `between`: two of either, the caller in one.
    """
    _engine.demand(function)
    key: Any
    if ranks is None and group is None and between is None:
        key = ("all", *_engine.membership())
    elif sum(x is not None for x in (ranks, group, between)) > 1:
        raise ValueError(
            f"{function}: ranks=, group= and between= say the same thing; give one of them"
        )
    elif between is not None:
        given = between if hasattr(between, "__iter__") else ()
        sides = [_ranks_of(side, function) for side in given]
        if len(sides) != 2 or not all(sides):
            raise ValueError(
                f"{function}: between= is two lists of ranks, or two groups, none of them empty"
            )
        key = tuple(sides if _engine.rank() in sides[0] else reversed(sides))
    else:
        key = _ranks_of(ranks if group is None else group, function)
    team = _teams.get(key)
    if team is None:
        team = _made(function, key, ranks is None and group is None)
        team.contexts = _contexts.setdefault((team.ranks, team.own), team.contexts)
        team = _teams.setdefault(key, team)  # another thread's, if it was faster
    return team


def _made(function: str, key: Any, special: bool) -> Team:
    if not special:
        return Team(function, key)
    if isinstance(key[0], tuple):
        return Team(function, *key)
    lost = _engine.lost_ranks(accepted=True)  # ranks lost since then are missed
    everybody = _engine.together()
    team = Team(function, tuple(r for r in everybody if r not in lost))
    team.span = everybody[-1] + 1
    return team


@on_reset
@on_close
def _forget() -> None:
    for team in _teams.values():
        team.over = True
        for plan in team.plans.values():
            plan.forget()
    _teams.clear()
    _contexts.clear()
    _engine.forget_collectives()
