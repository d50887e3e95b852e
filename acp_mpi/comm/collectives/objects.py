"""Collectives of Python objects, pickled.

How long a pickle is only its rank knows. So each travels as a head, which says how long it is and
has as much of it as fits, and as the rest, if any head said that there is one. A rank that fails
before the second part has begun, for Ctrl-C comes in between, says so in that. `call` is what is
called, if objects travel as those of another collective do.
"""

from __future__ import annotations

import _pickle as pickle  # all that `pickle` adds takes 0.2 MB and 5 ms
import struct

from acp_mpi.comm.collectives import moves
from acp_mpi.comm.collectives.counted import begun
from acp_mpi.comm.collectives.farewell import Farewell
from acp_mpi.comm.collectives.team import second
from acp_mpi.engine import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from typing import Any

    from acp_mpi.comm.collectives.operations import Operation
    from acp_mpi.comm.collectives.team import Team

    Flow = Generator[_engine.Collective, None, Any]

_PROTOCOL = 5
_LENGTH = struct.Struct("<Q")
_HEAD = 256
_ROOM = _HEAD - _LENGTH.size


def _pickled(team: Team, x: Any) -> bytes:
    if team.pickler is None:
        return pickle.dumps(x, _PROTOCOL)
    data: bytes = team.pickler.dumps(x)
    return data


def _head(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data[:_ROOM].ljust(_ROOM, b"\0")


def _length(heads: bytearray, i: int) -> int:
    length: int = _LENGTH.unpack_from(heads, i * _HEAD)[0]
    return length


def _rest(heads: bytearray, count: int) -> list[int]:
    """Return how many bytes of each are not in its head."""
    return [max(_length(heads, i) - _ROOM, 0) for i in range(count)]


def _joined(team: Team, heads: bytearray, rest: Any, lengths: Sequence[int]) -> list[Any]:
    loads = (team.pickler or pickle).loads
    result = []
    at = 0
    for i, more in enumerate(lengths):
        begin = i * _HEAD + _LENGTH.size
        first = heads[begin : begin + min(_length(heads, i), _ROOM)]
        result.append(loads(b"".join((first, memoryview(rest)[at : at + more])) if more else first))
        at += more
    return result


def bcast(function: str, team: Team, context: int, x: Any, root: Any) -> Flow:
    """Return the object of the root on all ranks, or on those of the other group."""
    later = second(context)
    top = team.place(root, function)
    gives = team.me == top
    if team.other and top < team.own and not gives:
        return None
    rank = team.ranks[top]
    data = _pickled(team, x) if gives else b""
    with Farewell(function, team, later):
        head = bytearray(_head(data) if gives else _HEAD)
        place: Any = () if gives else head
        meets = team.pickler is None and not team.other
        yield from moves.bcast(function, team, head, rank, place, context, "bcast", meets)
        [more] = _rest(head, 1)
        rest: Any = memoryview(data)[_ROOM:] if gives else bytearray(more)
        place = () if gives else rest
        if more:
            go_on = begun(moves.bcast(function, team, rest, rank, place, later, "bcast"))
    if more:
        yield from go_on
    as_it_is = gives and team.pickler is None
    return x if as_it_is else _joined(team, head, rest, [more])[0]


def gather(
    function: str, team: Team, context: int, x: Any, root: Any, call: str = "gather"
) -> Flow:
    """Return the list of all objects, or of those of the other group, at the root."""
    later = second(context)
    top = team.place(root, function)
    takes = team.me == top
    gives = top >= team.own if team.other else True
    if not (takes or gives):
        return None
    rank = team.ranks[top]
    many = team.other or team.n
    data = _pickled(team, x) if gives else b""
    heads: Any = bytearray(many * _HEAD) if takes else ()
    with Farewell(function, team, later):
        head = _head(data) if gives else None
        yield from moves.gather(function, team, head, rank, heads, None, context, call)
        lengths = _rest(heads, many) if takes else []
        # All give their rest, which may be nothing: only the root knows which of them have one.
        rest: Any = bytearray(sum(lengths)) if takes else ()
        given = data[_ROOM:] if gives else None
        counts = lengths or [0] * many
        go_on = begun(moves.gather(function, team, given, rank, rest, counts, later, call))
    yield from go_on
    return _by_rank(team, _joined(team, heads, rest, lengths)) if takes else None


def scatter(function: str, team: Team, context: int, x: Any, root: Any) -> Flow:
    """Return the object that the root has for each rank in its list `x`."""
    later = second(context)
    top = team.place(root, function)
    gives = team.me == top
    takes = top >= team.own if team.other else True
    if not (takes or gives):
        return None
    rank = team.ranks[top]
    many = team.other or team.n
    data = [_pickled(team, each) for each in _listed(function, team, x, many)] if gives else []
    head: Any = bytearray(_HEAD) if takes else ()
    with Farewell(function, team, later):
        heads = b"".join(map(_head, data))
        yield from moves.scatter(function, team, heads, rank, head, None, context, "scatter")
        more = _rest(head, 1) if takes else [0]
        rest: Any = bytearray(more[0]) if takes else ()
        rests = [each[_ROOM:] for each in data]
        counts = [len(each) for each in rests] or [0] * many
        given = b"".join(rests)
        go_on = begun(moves.scatter(function, team, given, rank, rest, counts, later, "scatter"))
    yield from go_on
    return _joined(team, head, rest, more)[0] if takes else None


def allgather(function: str, team: Team, context: int, x: Any, call: str = "allgather") -> Flow:
    """Return the list of all objects, or of those of the other group, on all ranks."""
    later = second(context)
    many = team.other or team.n
    heads = bytearray(many * _HEAD)
    if not team.other:
        data = _pickled(team, x)
        with Farewell(function, team, later):
            head = _head(data)
            yield from moves.allgather(function, team, head, heads, None, context, None, call)
            lengths = _rest(heads, many)
            rest = bytearray(sum(lengths))
            given = data[_ROOM:]
            if rest:
                go_on = begun(
                    moves.allgather(function, team, given, rest, lengths, later, None, call)
                )
        if rest:
            yield from go_on
        return _by_rank(team, _joined(team, heads, rest, lengths))
    # Between two groups no member knows the lengths of its own: each gives all others its rest.
    return (yield from alltoall(function, team, context, [x] * many, call))


def alltoall(function: str, team: Team, context: int, x: Any, call: str = "alltoall") -> Flow:
    """Return the list of what all ranks have for this one in their lists `x`."""
    later = second(context)
    many = team.other or team.n
    data = [_pickled(team, each) for each in _listed(function, team, x, many)]
    heads = bytearray(many * _HEAD)
    with Farewell(function, team, later):
        given = b"".join(map(_head, data))
        yield from moves.alltoall(function, team, given, heads, None, None, context, call)
        lengths = _rest(heads, many)
        rest = bytearray(sum(lengths))
        rests = [each[_ROOM:] for each in data]
        given, counts = b"".join(rests), [len(each) for each in rests]
        go_on = begun(moves.alltoall(function, team, given, rest, counts, lengths, later, call))
    yield from go_on
    return _by_rank(team, _joined(team, heads, rest, lengths))


def _by_rank(team: Team, those: list[Any]) -> list[Any]:
    """Return what members gave at the places of their ranks, None at all others, if so meant."""
    if not team.span:
        return those
    placed: list[Any] = [None] * team.span
    for rank, each in zip(team.ranks, those, strict=True):
        placed[rank] = each
    return placed


def _listed(function: str, team: Team, x: Any, many: int) -> list[Any]:
    """Return what a list has for each member."""
    try:
        listed = list(x)
    except TypeError:
        listed = []
    count = team.span or many
    if len(listed) != count:
        those = ", those that have died, too" if team.span > many else ""
        parts = "; out= takes a part of an array" if hasattr(x, "dtype") else ""
        raise ValueError(
            f"{function}: x is {x!r:.60}; give a list of {count} objects, one for each rank"
            f"{those}{parts}"
        )
    return [listed[rank] for rank in team.ranks] if team.span else listed


def _fold(op: Operation, those: Iterable[Any]) -> Any:
    rest = iter(those)
    result = next(rest)
    for each in rest:
        result = op.on_objects(result, each)
    return result


def reduce(function: str, team: Team, context: int, x: Any, op: Operation, root: Any) -> Flow:
    """Fold the objects of all ranks, in their order, at the root."""
    those = yield from gather(function, team, context, x, root, "reduce")
    return None if those is None else _fold(op, _of(team, those))


def allreduce(function: str, team: Team, context: int, x: Any, op: Operation) -> Flow:
    """Fold the objects of all ranks, in their order, on all."""
    return _fold(op, (yield from _of_members(function, team, context, x, "allreduce")))


def _of_members(function: str, team: Team, context: int, x: Any, call: str) -> Flow:
    return _of(team, (yield from allgather(function, team, context, x, call)))


def _of(team: Team, those: list[Any]) -> list[Any]:
    """Return those of the members, in their order."""
    return [those[rank] for rank in team.ranks] if team.span else those


def scan(function: str, team: Team, context: int, x: Any, op: Operation) -> Flow:
    """Fold the objects of the ranks up to each one."""
    those = yield from _of_members(function, team, context, x, "scan")
    return _fold(op, those[: team.me + 1])


def exscan(function: str, team: Team, context: int, x: Any, op: Operation) -> Flow:
    """Fold the objects of the ranks before each one; None on the first."""
    those = yield from _of_members(function, team, context, x, "exscan")
    return _fold(op, those[: team.me]) if team.me else None


def reduce_scatter(function: str, team: Team, context: int, x: Any, op: Operation) -> Flow:
    """Fold what all ranks have for each one in their lists `x`."""
    return _fold(op, _of(team, (yield from alltoall(function, team, context, x, "reduce_scatter"))))
