"""Collectives that fold arrays and other buffers element by element.

Each function is a generator: it yields what is to be carried out and returns the result.
"""

from __future__ import annotations

from acp_mpi.comm.collectives import choice
from acp_mpi.comm.collectives.buffers import Buffer, apart, like, same_type, units_of
from acp_mpi.comm.collectives.plans import plan_of
from acp_mpi.comm.collectives.sizes import carry, counts_of, fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from acp_mpi.comm.collectives.choice import Paper, Part
    from acp_mpi.comm.collectives.operations import Operation
    from acp_mpi.comm.collectives.sizes import Flow
    from acp_mpi.comm.collectives.team import Team


class Folding:
    """How elements are folded: by `codes` of the engine, or by a `folder` of memory.

    `name` and `divides` (it may be done in parts, and in any order) are the same on all members.
    """

    __slots__ = ("codes", "divides", "folder", "name")

    def __init__(self, name: str, divides: bool, codes: Any, folder: Any) -> None:
        self.name, self.divides, self.codes, self.folder = name, divides, codes, folder


def carried(
    function: str,
    team: Team,
    kind: str,
    given: Buffer | None,
    wanted: Buffer | None,
    folding: Folding,
    top: int | None,
    taken: Sequence[int],
    context: int,
) -> Flow:
    """Fold the elements of `given` into `wanted`; `taken`: how many each gets of reduce_scatter.

    The root of another group's reduce gives nothing.
    """
    known = given or wanted
    assert known is not None
    count, width, divides = known.count, known.width, folding.divides
    units = units_of(function, given, wanted, in_place=kind != "reduce_scatter")

    def write() -> Sequence[Paper | Part]:
        n, r = team.n, team.me
        if team.other:
            sizes = taken if kind == "reduce_scatter" else [count]
            sides = team.own, team.other
            return [choice.between_groups(kind, sides, r, top or 0, [count], sizes)]
        if kind == "reduce_scatter":
            paper = choice.reduce_scatter(n, r, taken, width, divides)
            return choice.in_parts(n, paper, units is not None, width) if divides else [paper]
        most = n if units is None else max(n, 2)  # device memory goes in parts also at one alone
        parts = choice.windows(most, count, width, divides)
        if kind == "allreduce":
            return [choice.allreduce(n, r, part, width, divides) for part in parts]
        if kind == "reduce":
            return [choice.reduce(n, r, top or 0, part, width, divides) for part in parts]
        return [choice.scan(n, r, part, kind == "exscan") for part in parts]

    alike: Any = (known.kind, count, folding.name, divides)
    alone = None
    if top is not None:
        alike += (team.ranks[top],)
    if kind == "reduce_scatter":
        alone = tuple(taken)
        alike += () if team.other else (alone,)
    codes = folding.codes or (-1, 0)
    folder, code = folding.folder, known.code
    plan = plan_of(team, kind, alike, alone, write, width, codes, folder, code=code, units=units)
    yield from carry(function, plan, given, wanted, context, units)


def _folded(
    function: str,
    team: Team,
    kind: str,
    x: Any,
    op: Operation,
    out: Any,
    top: int | None,
    context: int,
    counts: Any = None,
) -> Flow:
    given = Buffer(x, function)
    takes = top is None or team.me == top
    wanted = None
    result = out
    taken = [given.count]
    if kind == "reduce_scatter":
        taken = counts_of(function, "counts", counts, team.n, given.count, None)
        if sum(taken) != given.count:
            raise ValueError(
                f"{function}: counts={taken} add up to {sum(taken)}, and x has {given.count} "
                "elements; both must be the same"
            )
    own = taken[team.me] if kind == "reduce_scatter" else given.count
    if takes:
        if out is None or isinstance(out, tuple):
            if given.array is None:
                raise TypeError(
                    f"{function}: the result of a {type(x).__name__} needs a place; give out="
                )
            result = like(given, _shape_of(given, kind, own, team.n))
        wanted = Buffer(result, function, writable=True)
        if result is out:
            same_type(function, given, wanted)
        fits(function, "out", wanted.size, own * given.width, given.width)
        given = apart(given, wanted, same=kind != "reduce_scatter")
        if kind == "exscan" and team.me == 0:
            wanted.back = wanted.device = None  # it stays as it is
    codes = op.native(given.kind)
    folder = None
    if codes is None:
        if given.array is None:
            raise TypeError(
                f"{function}: {op.name} of {type(x).__name__} needs NumPy; give a NumPy array"
            )
        shape = given.shape if own == given.count else (-1,)
        folder = op.folder(function, given.array.dtype, shape)
    folding = Folding(op.name, op.divides, codes, folder)
    yield from carried(function, team, kind, given, wanted, folding, top, taken, context)
    if kind == "exscan" and team.me == 0 and out is None:
        return None
    return result if takes else out


def _shape_of(given: Buffer, kind: str, own: int, n: int) -> tuple[int, ...] | None:
    if kind != "reduce_scatter":
        return None
    if len(given.shape) > 1 and given.shape[0] == n and own * n == given.count:
        return given.shape[1:]
    return (own,)


def reduce(
    function: str, team: Team, context: int, x: Any, op: Operation, root: Any, out: Any
) -> Flow:
    """Fold `x` of all ranks at the root; between two groups that of the other one."""
    top = team.place(root, function)
    if team.other and top < team.own and team.me != top:
        return out
    if team.other and team.me == top:
        return (yield from _taken_from_others(function, team, x, op, top, out, context))
    return (yield from _folded(function, team, "reduce", x, op, out, top, context))


def _taken_from_others(
    function: str, team: Team, x: Any, op: Operation, top: int, out: Any, context: int
) -> Flow:
    """Only receive: the root between two groups. What it gives says how long the result is."""
    place = like(Buffer(x, function)) if out is None or isinstance(out, tuple) else out
    wanted = Buffer(place, function, writable=True)
    folding = Folding(op.name, op.divides, None, None)
    yield from carried(function, team, "reduce", None, wanted, folding, top, (), context)
    return place


def allreduce(function: str, team: Team, context: int, x: Any, op: Operation, out: Any) -> Flow:
    """Fold `x` of all ranks on all; between two groups each gets what the other gives."""
    return _folded(function, team, "allreduce", x, op, out, None, context)


def scan(function: str, team: Team, context: int, x: Any, op: Operation, out: Any) -> Flow:
    """Fold `x` of the ranks up to each one."""
    return _folded(function, team, "scan", x, op, out, None, context)


def exscan(function: str, team: Team, context: int, x: Any, op: Operation, out: Any) -> Flow:
    """Fold `x` of the ranks before each one; the first one's `out` stays as it is."""
    return _folded(function, team, "exscan", x, op, out, None, context)


def reduce_scatter(
    function: str, team: Team, context: int, x: Any, op: Operation, out: Any, counts: Any
) -> Flow:
    """Fold `x` of all ranks, and give each its part."""
    return _folded(function, team, "reduce_scatter", x, op, out, None, context, counts)
