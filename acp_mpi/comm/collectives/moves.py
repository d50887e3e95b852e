"""Collectives that move arrays and other buffers: their bytes, nothing is pickled.

Each function is a generator: it yields what is to be carried out and returns the result. `pickled`:
what is called, if these bytes are a part of objects.
"""

from __future__ import annotations

from acp_mpi.comm.collectives import choice
from acp_mpi.comm.collectives.buffers import Buffer, apart, same_type, units_of
from acp_mpi.comm.collectives.plans import plan_of
from acp_mpi.comm.collectives.sizes import carry, counts_of, fits
from acp_mpi.engine import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from acp_mpi.comm.collectives.choice import Paper, Part
    from acp_mpi.comm.collectives.sizes import Flow
    from acp_mpi.comm.collectives.team import Team


def bcast(
    function: str,
    team: Team,
    x: Any,
    root: Any,
    out: Any,
    context: int,
    pickled: str | None = None,
    meets: bool = False,
) -> Flow:
    """Fill `out` of all ranks with `x` of the root; of the other group's, between two.

    `meets`: no member goes on before all have come.
    """
    top = team.place(root, function)
    takes = team.me != top and (not team.other or top >= team.own)
    if team.other and not takes and team.me != top:
        return out
    given = None
    if takes:
        data = Buffer(out, function, writable=True)
    elif isinstance(out, tuple) or out is x or team.other:
        data = Buffer(x, function)
    else:
        data = Buffer(out, function, writable=True)
        given = Buffer(x, function)
        same_type(function, given, data, moves=True)
        fits(function, "out", data.size, given.size, given.width)
        given = apart(given, data, same=True)
    size, chain = data.size, not team.other and choice.is_chain(team.n, data.size, 1)
    units = units_of(function, given, data, reads=given is None and not takes)

    def write() -> Sequence[Paper | Part]:
        if team.other:
            sides = team.own, team.other
            return [choice.between_groups("bcast", sides, team.me, top, [size], [size])]
        paper = choice.bcast(team.n, team.me, top, size, 1)
        if given is not None:
            paper = choice.copied(paper, chain)
        if meets:
            return [choice.met(team.n, team.me, top, paper)]
        return choice.in_parts(team.n, paper, units is not None) if team.n <= 2 else [paper]

    alone, alike = (meets, given is not None), (size, team.ranks[top])
    plan = plan_of(
        team,
        "bcast",
        alike,
        alone,
        write,
        pickled=pickled,
        code=data.code,
        units=units,
        by_piece=chain,
    )
    yield from carry(function, plan, given, data, context, units)
    return x if isinstance(out, tuple) else out


def _moved(
    function: str,
    team: Team,
    kind: str,
    given: Buffer | None,
    wanted: Buffer | None,
    sizes: tuple[Sequence[int], Sequence[int]],
    width: int,
    alike: Any,
    top: int,
    even: bool,
    context: int,
    pickled: str | None,
) -> Flow:
    """Carry out a plan that moves pieces of equal sizes and folds nothing."""
    if given is not None and wanted is not None:
        same_type(function, given, wanted, moves=True)
        given = apart(given, wanted, same=False)
    units = units_of(function, given, wanted)
    codes = [each.code for each in (given, wanted) if each is not None]
    gives, takes = ([count * width for count in counts] for counts in sizes)

    def paper() -> Paper:
        n, r = team.n, team.me
        if team.other:
            return choice.between_groups(kind, (team.own, team.other), r, top, gives, takes)
        if kind == "gather":
            return choice.gather(n, r, top, takes, 1, even)
        if kind == "scatter":
            return choice.scatter(n, r, top, gives, 1, even)
        if kind == "allgather":
            return choice.allgather(n, r, takes, 1, even)
        return choice.alltoall(n, r, gives, takes, 1, even)

    def write() -> Sequence[Paper | Part]:
        return [paper()] if team.other else choice.in_parts(team.n, paper(), units is not None)

    alone = (tuple(gives), tuple(takes), even)
    code = max(codes)
    plan = plan_of(team, kind, alike, alone, write, pickled=pickled, code=code, units=units)
    yield from carry(function, plan, given, wanted, context, units)


def gather(
    function: str,
    team: Team,
    x: Any,
    root: Any,
    out: Any,
    counts: Any,
    context: int,
    pickled: str | None = None,
) -> Flow:
    """Bring `x` of all ranks, or of the other group, to `out` of the root, one after the other."""
    top = team.place(root, function)
    gives = top >= team.own if team.other else True
    takes = team.me == top
    if not (gives or takes):
        return out
    given = Buffer(x, function) if gives else None
    wanted = Buffer(out, function, writable=True) if takes else None
    many = team.other or team.n
    width = given.width if given is not None else wanted.width if wanted is not None else 1
    mine = given.count if given is not None else 0
    if wanted is not None and (counts is not None or given is None):
        per = counts_of(function, "counts", counts, many, wanted.size // (width or 1), None)
    else:
        per = [mine] * many
    if wanted is not None:
        fits(function, "out", wanted.size, sum(per) * width, width)
        if given is not None:
            fits(function, "x", given.size, per[team.me] * width, width)
    if not team.other:
        per[team.me] = mine
    even = counts is None
    alike = (team.ranks[top], even, mine * width if even and not team.other else 0)
    pieces = ([mine], per) if wanted is not None or not team.other else ([mine], [])
    yield from _moved(
        function, team, "gather", given, wanted, pieces, width, alike, top, even, context, pickled
    )
    return out


def scatter(
    function: str,
    team: Team,
    x: Any,
    root: Any,
    out: Any,
    counts: Any,
    context: int,
    pickled: str | None = None,
) -> Flow:
    """Deal out `x` of the root to `out` of all ranks, or of the other group."""
    top = team.place(root, function)
    gives = team.me == top
    takes = top >= team.own if team.other else True
    if not (gives or takes):
        return out
    given = Buffer(x, function) if gives else None
    wanted = Buffer(out, function, writable=True) if takes else None
    many = team.other or team.n
    width = given.width if given is not None else wanted.width if wanted is not None else 1
    mine = wanted.size // (width or 1) if wanted is not None else 0
    if given is not None:
        per = counts_of(function, "counts", counts, many, given.count, None)
        fits(function, "x", given.size, sum(per) * width, width)
        if wanted is not None:
            fits(function, "out", wanted.size, per[team.me] * width, width)
    else:
        per = [mine] * many
    even = counts is None
    alike = (team.ranks[top], even, mine * width if even and not team.other else 0)
    pieces = (per, [mine]) if given is not None or not team.other else ([], [mine])
    yield from _moved(
        function, team, "scatter", given, wanted, pieces, width, alike, top, even, context, pickled
    )
    return out


def allgather(
    function: str,
    team: Team,
    x: Any,
    out: Any,
    counts: Any,
    context: int,
    gives: Sequence[int] | None = None,
    pickled: str | None = None,
) -> Flow:
    """Bring `x` of all ranks, or of the other group, to `out` of all.

    `gives`: how many elements each of the own group gives to the other, if not all as many.
    """
    given, wanted = Buffer(x, function), Buffer(out, function, writable=True)
    width = given.width
    many = team.other or team.n
    part = None if team.other else given.count
    per = counts_of(function, "counts", counts, many, wanted.size // (width or 1), part)
    fits(function, "out", wanted.size, sum(per) * width, width)
    if not team.other:
        fits(function, "x", given.size, per[team.me] * width, width)
    even = counts is None
    if not team.other:
        gives = [given.count]
    elif gives is None:
        gives = [given.count] * team.own
    alike: Any = () if team.other else tuple(c * width for c in per)
    yield from _moved(
        function,
        team,
        "allgather",
        given,
        wanted,
        (gives, per),
        width,
        alike,
        0,
        even,
        context,
        pickled,
    )
    return out


def alltoall(
    function: str,
    team: Team,
    x: Any,
    out: Any,
    counts: Any,
    out_counts: Any,
    context: int,
    pickled: str | None = None,
) -> Flow:
    """Bring piece i of `x` to rank i, which gets it in `out` at the place of the sender."""
    given, wanted = Buffer(x, function), Buffer(out, function, writable=True)
    width = given.width
    many = team.other or team.n
    gives = counts_of(function, "counts", counts, many, given.count, None)
    takes = counts_of(function, "out_counts", out_counts, many, wanted.size // (width or 1), None)
    fits(function, "x", given.size, sum(gives) * width, width)
    fits(function, "out", wanted.size, sum(takes) * width, width)
    even = counts is None and out_counts is None and not team.other
    alike = (even, gives[0] * width if even else 0)
    yield from _moved(
        function,
        team,
        "alltoall",
        given,
        wanted,
        (gives, takes),
        width,
        alike,
        0,
        even,
        context,
        pickled,
    )
    return out


def barrier(function: str, team: Team, context: int) -> Flow:
    """Keep all members until all have come."""

    def write() -> list[Paper]:
        if team.other:
            sides = team.own, team.other
            return [choice.between_groups("barrier", sides, team.me, 0, [0], [0])]
        return [choice.barrier(team.n, team.me)]

    plan = plan_of(team, "barrier", (), None, write)
    yield _engine.Collective(function, plan, None, None, context)
