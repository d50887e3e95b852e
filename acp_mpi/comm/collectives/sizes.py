"""Sizes of the buffers of a collective, and the one collective that is made of them."""

from __future__ import annotations

from operator import index

from acp_mpi.comm.collectives.schedule import IN, OUT
from acp_mpi.engine import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from acp_mpi.comm.collectives.buffers import Buffer
    from acp_mpi.comm.collectives.units import Units

    Flow = Generator[_engine.Collective, None, Any]


def fits(function: str, name: str, found: int, expected: int, width: int) -> None:
    """Raise ValueError for a buffer of another size."""
    if found != expected:
        raise ValueError(
            f"{function}: {name} has {found} bytes where {expected} are needed; give "
            f"{expected // width if width else 0} elements of {width} bytes"
        )


def counts_of(
    function: str, name: str, counts: Any, n: int, whole: int | None, part: int | None
) -> list[int]:
    """Return how many elements each member has: as given, or all alike."""
    if counts is not None:
        try:
            given = [index(count) for count in counts]
        except TypeError:
            raise TypeError(
                f"{function}: {name}={counts!r:.60} must be {n} whole numbers, one for each rank"
            ) from None
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


def carry(
    function: str,
    plan: _engine.Plan,
    given: Buffer | None,
    wanted: Buffer | None,
    context: int,
    units: Units | None = None,
) -> Flow:
    """Yield the one collective that the plan makes of these buffers; `units`: of device memory."""
    if units is None:
        mine = None if given is None else given.memory
        theirs = None if wanted is None else wanted.memory
        yield _engine.Collective(function, plan, mine, theirs, context)
    else:
        try:
            units.begin(plan.layout)
            mine, theirs = units.memory(IN, given), units.memory(OUT, wanted)
            yield _engine.Collective(function, plan, mine, theirs, context, units)
            units.finish()
        finally:
            units.end()
    if wanted is not None and wanted.back is not None:
        wanted.back()
