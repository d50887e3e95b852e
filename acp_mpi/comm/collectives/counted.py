"""A call and its number: all members count it, whatever becomes of it on one of them."""

from __future__ import annotations

from acp_mpi.comm.collectives.farewell import Farewell
from acp_mpi.comm.collectives.team import second

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from acp_mpi.comm.collectives.sizes import Flow
    from acp_mpi.comm.collectives.team import Team
    from acp_mpi.engine import _engine


def counted(function: str, team: Team, of: Callable[[int], Flow]) -> Flow:
    """Yield what `of` makes of the context of this call.

    Failures before the first message, arguments that are refused or an object that cannot be
    pickled, are told to all members: only the others know which of them wait.
    """
    context = team.context()
    call = team.contexts.begin()
    try:
        with Farewell(function, team, context, second(context)):
            flow = begun(of(context))
        return (yield from flow)
    except BaseException as error:
        if not team.over:
            team.contexts.fail(call, error, team.ranks)
        raise
    finally:
        team.contexts.end(call)


def begun(flow: Flow) -> Flow:
    """Return a flow that is before its first message; what goes wrong until then is raised here."""
    try:
        first = next(flow)
    except StopIteration as nothing:
        return _over(nothing.value)
    return _from(first, flow)


def carried_out(flow: Flow, run: Callable[[_engine.Collective], object]) -> Any:
    """Carry out a flow in this thread, by `run` of each of its collectives; return its result.

    An error that ends it, Ctrl-C between two of them, too, is told to those that wait for this
    rank.
    """
    current = None
    try:
        while True:
            try:
                current = next(flow)
            except StopIteration as end:
                return end.value
            run(current)
    except BaseException as error:
        if current is not None and not current.done:  # it has not run
            current.farewell(None, 0)
        flow.throw(error)
        raise


def _over(result: object) -> Flow:
    yield from ()
    return result


def _from(first: _engine.Collective, flow: Flow) -> Flow:
    try:
        yield first
    except BaseException as error:
        flow.throw(error)
    return (yield from flow)
