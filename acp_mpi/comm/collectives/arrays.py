"""Collectives of arrays and other buffers: their bytes move, nothing is pickled.

Each function is a generator: it yields what is to be carried out and returns the result.
"""

from __future__ import annotations

from acp_mpi.comm.collectives import choice
from acp_mpi.comm.collectives.buffers import Buffer, apart, like
from acp_mpi.comm.collectives.plans import plan_of
from acp_mpi.engine import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import Any

    from acp_mpi.comm.collectives.choice import Paper
    from acp_mpi.comm.collectives.operations import Operation
    from acp_mpi.comm.collectives.team import Team

    Flow = Generator[_engine.Collective, None, Any]


def _fits(function: str, name: str, found: int, expected: int, width: int) -> None:
    if found != expected:
        raise ValueError(
            f"{function}: {name} has {found} bytes where {expected} are needed; give "
            f"{expected // width if width else 0} elements of {width} bytes"
        )


def _counts(
    function: str, name: str, counts: Any, n: int, whole: int | None, part: int | None
) -> list[int]:
    """Return how many elements each member has: as given, or all alike."""
    if counts is not None:
        given = [int(count) for count in counts]
        if len(given) != n or min(given) < 0:
            raise ValueError(
                f"{function}: {name}={given} must be {n} numbers from 0 on, one for each rank"
            )
        return given
    if part is not None:
        return [part] * n
    assert whole is not None
    if whole % n:
        raise ValueError(
            f"{function}: {whole} elements cannot be dealt out evenly to {n} ranks; give {name}="
        )
    return [whole // n] * n


def _carry(
    function: str,
    plan: _engine.Plan,
    given: Buffer | None,
    wanted: Buffer | None,
    context: int,
) -> Flow:
    yield _engine.Collective(
        function,
        plan,
        None if given is None else given.memory,
        None if wanted is None else wanted.memory,
        context,
    )
    if wanted is not None and wanted.back is not None:
        wanted.back()


def bcast(
    function: str,
    team: Team,
    x: Any,
    root: Any,
    out: Any,
    context: int | None = None,
) -> Flow:
    """Fill `out` of all ranks with `x` of the root; of the other group's, between two."""
    context = team.context() if context is None else context
    top = team.place(root, function)
    takes = team.me != top and (not team.other or top >= team.own)
    if team.other and not takes and team.me != top:
        return out
    if takes:
        data = Buffer(out, function, writable=True)
    elif isinstance(out, tuple) or out is x or team.other:
        data = Buffer(x, function)
    else:
        data = Buffer(out, function, writable=True)
        given = Buffer(x, function)
        _fits(function, "out", data.size, given.size, given.width)
        memoryview(data.memory).cast("B")[:] = memoryview(given.memory).cast("B")
    size = data.size

    def write() -> Paper:
        if team.other:
            return choice.between_groups(
                "bcast", (team.own, team.other), team.me, top, [size], [size]
            )
        return choice.bcast(team.n, team.me, top, size, 1)

    plan = plan_of(team, "bcast", (size, team.ranks[top]), None, write)
    yield _engine.Collective(function, plan, None, data.memory, context)
    if data.back is not None:
        data.back()
    return x if isinstance(out, tuple) else out


def _folded(
    function: str,
    team: Team,
    kind: str,
    x: Any,
    op: Operation,
    out: Any,
    top: int | None,
    counts: Any = None,
    context: int | None = None,
) -> Flow:
    context = team.context() if context is None else context
    given = Buffer(x, function)
    takes = top is None or team.me == top
    wanted = None
    result = out
    taken = [given.count]
    if kind == "reduce_scatter":
        taken = _counts(function, "counts", counts, team.n, given.count, None)
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
        _fits(function, "out", wanted.size, own * given.width, given.width)
        given = apart(given, wanted, same=kind != "reduce_scatter")
    codes = op.native(given.kind)
    folder = None
    if codes is None:
        if given.array is None:
            raise TypeError(
                f"{function}: {op.name} of {type(x).__name__} needs NumPy; give a NumPy array"
            )
        shape = given.shape if own == given.count else (-1,)
        folder = op.folder(function, given.array.dtype, shape)
    count, width = given.count, given.width

    def write() -> Paper:
        n, r = team.n, team.me
        if team.other:
            sizes = taken if kind == "reduce_scatter" else [count]
            return choice.between_groups(kind, (team.own, team.other), r, top or 0, [count], sizes)
        if kind == "allreduce":
            return choice.allreduce(n, r, count, width, op.divides)
        if kind == "reduce":
            return choice.reduce(n, r, top or 0, count, width, op.divides)
        if kind == "reduce_scatter":
            return choice.reduce_scatter(n, r, taken, width, op.divides)
        return choice.scan(n, r, count, kind == "exscan")

    alike: Any = (given.kind, count, op.name, op.divides)
    if top is not None:
        alike += (team.ranks[top],)
    if kind == "reduce_scatter" and not team.other:
        alike += (tuple(taken),)
    alone = tuple(taken) if kind == "reduce_scatter" else None
    plan = plan_of(team, kind, alike, alone, write, width, codes or (-1, 0), folder)
    yield from _carry(function, plan, given, wanted, context)
    if kind == "exscan" and team.me == 0 and out is None:
        return None
    return result if takes else out


def _shape_of(given: Buffer, kind: str, own: int, n: int) -> tuple[int, ...] | None:
    if kind != "reduce_scatter":
        return None
    if len(given.shape) > 1 and given.shape[0] == n and own * n == given.count:
        return given.shape[1:]
    return (own,)


def reduce(function: str, team: Team, x: Any, op: Operation, root: Any, out: Any) -> Flow:
    """Fold `x` of all ranks at the root; between two groups that of the other one."""
    context = team.context()
    top = team.place(root, function)
    if team.other and top < team.own and team.me != top:
        return out
    if team.other and team.me == top:
        return (yield from _taken_from_others(function, team, x, op, top, out, context))
    return (yield from _folded(function, team, "reduce", x, op, out, top, None, context))


def _taken_from_others(
    function: str, team: Team, x: Any, op: Operation, top: int, out: Any, context: int
) -> Flow:
    """Only receive: the root between two groups. What it gives says how long the result is."""
    place = like(Buffer(x, function)) if out is None or isinstance(out, tuple) else out
    wanted = Buffer(place, function, writable=True)
    alike = (wanted.kind, wanted.count, op.name, op.divides, team.ranks[top])

    def write() -> Paper:
        return choice.between_groups(
            "reduce", (team.own, team.other), team.me, top, [wanted.count], [wanted.count]
        )

    plan = plan_of(team, "reduce", alike, None, write, wanted.width)
    yield from _carry(function, plan, None, wanted, context)
    return place


def allreduce(function: str, team: Team, x: Any, op: Operation, out: Any) -> Flow:
    """Fold `x` of all ranks on all; between two groups each gets what the other gives."""
    return _folded(function, team, "allreduce", x, op, out, None)


def scan(function: str, team: Team, x: Any, op: Operation, out: Any) -> Flow:
    """Fold `x` of the ranks up to each one."""
    return _folded(function, team, "scan", x, op, out, None)


def exscan(function: str, team: Team, x: Any, op: Operation, out: Any) -> Flow:
    """Fold `x` of the ranks before each one; the first one's `out` stays as it is."""
    return _folded(function, team, "exscan", x, op, out, None)


def reduce_scatter(function: str, team: Team, x: Any, op: Operation, out: Any, counts: Any) -> Flow:
    """Fold `x` of all ranks, and give each its part."""
    return _folded(function, team, "reduce_scatter", x, op, out, None, counts)


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
) -> Flow:
    """Carry out what moves pieces of so many elements and folds nothing."""
    if given is not None and wanted is not None:
        given = apart(given, wanted, same=False)
    gives, takes = sizes

    def write() -> Paper:
        n, r = team.n, team.me
        if team.other:
            return choice.between_groups(kind, (team.own, team.other), r, top, gives, takes)
        if kind == "gather":
            return choice.gather(n, r, top, takes, width, even)
        if kind == "scatter":
            return choice.scatter(n, r, top, gives, width, even)
        if kind == "allgather":
            return choice.allgather(n, r, takes, width, even)
        return choice.alltoall(n, r, gives, takes, width, even)

    alone = (width, tuple(gives), tuple(takes), even)
    plan = plan_of(team, kind, alike, alone, write, width)
    yield from _carry(function, plan, given, wanted, context)


def gather(
    function: str,
    team: Team,
    x: Any,
    root: Any,
    out: Any,
    counts: Any,
    context: int | None = None,
) -> Flow:
    """Bring `x` of all ranks, or of the other group, to `out` of the root, one after the other."""
    context = team.context() if context is None else context
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
        per = _counts(function, "counts", counts, many, wanted.size // (width or 1), None)
    else:
        per = [mine] * many
    if wanted is not None:
        _fits(function, "out", wanted.size, sum(per) * width, width)
        if given is not None:
            _fits(function, "x", given.size, per[team.me] * width, width)
    if not team.other:
        per[team.me] = mine
    even = counts is None
    alike = (team.ranks[top], even, mine * width if even and not team.other else 0)
    pieces = ([mine], per) if wanted is not None or not team.other else ([mine], [])
    yield from _moved(
        function, team, "gather", given, wanted, pieces, width, alike, top, even, context
    )
    return out


def scatter(
    function: str,
    team: Team,
    x: Any,
    root: Any,
    out: Any,
    counts: Any,
    context: int | None = None,
) -> Flow:
    """Deal out `x` of the root to `out` of all ranks, or of the other group."""
    context = team.context() if context is None else context
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
        per = _counts(function, "counts", counts, many, given.count, None)
        _fits(function, "x", given.size, sum(per) * width, width)
        if wanted is not None:
            _fits(function, "out", wanted.size, per[team.me] * width, width)
    else:
        per = [mine] * many
    even = counts is None
    alike = (team.ranks[top], even, mine * width if even and not team.other else 0)
    pieces = (per, [mine]) if given is not None or not team.other else ([], [mine])
    yield from _moved(
        function, team, "scatter", given, wanted, pieces, width, alike, top, even, context
    )
    return out


def allgather(
    function: str,
    team: Team,
    x: Any,
    out: Any,
    counts: Any,
    context: int | None = None,
) -> Flow:
    """Bring `x` of all ranks, or of the other group, to `out` of all."""
    context = team.context() if context is None else context
    given, wanted = Buffer(x, function), Buffer(out, function, writable=True)
    width = given.width
    many = team.other or team.n
    part = None if team.other else given.count
    per = _counts(function, "counts", counts, many, wanted.size // (width or 1), part)
    _fits(function, "out", wanted.size, sum(per) * width, width)
    if not team.other:
        _fits(function, "x", given.size, per[team.me] * width, width)
    even = counts is None
    gives = [given.count] * team.own if team.other else [given.count]
    alike: Any = () if team.other else tuple(c * width for c in per)
    yield from _moved(
        function, team, "allgather", given, wanted, (gives, per), width, alike, 0, even, context
    )
    return out


def alltoall(
    function: str,
    team: Team,
    x: Any,
    out: Any,
    counts: Any,
    out_counts: Any,
    context: int | None = None,
) -> Flow:
    """Bring piece i of `x` to rank i, whose `out` has it at the place of the sender."""
    context = team.context() if context is None else context
    given, wanted = Buffer(x, function), Buffer(out, function, writable=True)
    width = given.width
    many = team.other or team.n
    gives = _counts(function, "counts", counts, many, given.count, None)
    takes = _counts(function, "out_counts", out_counts, many, wanted.size // (width or 1), None)
    _fits(function, "x", given.size, sum(gives) * width, width)
    _fits(function, "out", wanted.size, sum(takes) * width, width)
    even = counts is None and out_counts is None and not team.other
    alike = (even, gives[0] * width if even else 0)
    yield from _moved(
        function, team, "alltoall", given, wanted, (gives, takes), width, alike, 0, even, context
    )
    return out


def barrier(function: str, team: Team) -> Flow:
    """Let nobody go before all have come."""

    def write() -> Paper:
        if team.other:
            return choice.between_groups("barrier", (team.own, team.other), team.me, 0, [0], [0])
        return choice.barrier(team.n, team.me)

    plan = plan_of(team, "barrier", (), None, write)
    yield _engine.Collective(function, plan, None, None, team.context())
