"""Calls of containers, one after the other, against calls that do the same elsewhere."""

from collections.abc import Callable, Iterable
from itertools import repeat
from time import perf_counter
from typing import Any

from harness import US, Body, Effort, Goal, Row, interleave, singles
from mpi4py import MPI

import acp_mpi as acp

Contest = tuple[str, Body, str, Body, Goal]
"""What, our loop, what it is measured against, the loop of that, the goal."""


def calls(function: Callable[..., Any], *arguments: Any) -> Body:
    """Return a loop that calls a function as a program does: arguments are not unpacked."""

    def without(count: int) -> None:
        for _ in repeat(None, count):
            function()

    def with_one(count: int) -> None:
        (x,) = arguments
        for _ in repeat(None, count):
            function(x)

    def with_two(count: int) -> None:
        x, y = arguments
        for _ in repeat(None, count):
            function(x, y)

    return (without, with_one, with_two)[len(arguments)]


def reads(container: Any, key: Any) -> Body:
    """Return a loop that reads by the operator; a bound `__getitem__` costs a tuple more."""

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            container[key]

    return loop


def writes(container: Any, key: Any, value: Any) -> Body:
    """Return a loop that writes by the operator."""

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            container[key] = value

    return loop


def filled(fill: Callable[[int], Any], empty: Callable[[], Any]) -> Body:
    """Return a loop that empties what another function has filled, which does not count."""

    def loop(count: int) -> float:
        fill(count)
        start = perf_counter()
        for _ in repeat(None, count):
            empty()
        return perf_counter() - start

    return loop


def one_by_one(effort: Effort, contests: Iterable[Contest]) -> list[Row]:
    """Return the time of single calls."""
    rows = []
    for what, ours, against, theirs, goal in contests:
        a, b = interleave(effort, ours, theirs)
        rows.append(Row(what, "µs", a.median / US, against, b.median / US, goal))
    return rows


def many_at_once(effort: Effort, elements: int, contests: Iterable[Contest]) -> list[Row]:
    """Return how many elements go in a second, of calls with so many each."""
    rows = []
    for what, ours, against, theirs, goal in contests:
        a, b = (elements / 1e6 / s.median for s in interleave(effort, ours, theirs))
        rows.append(Row(f"{what} of {elements:,}", "M/s", a, against, b, goal, rate=True))
    return rows


def against_a_round_trip(effort: Effort, ours: Iterable[tuple[str, Body]]) -> list[Row]:
    """Return the time of calls by link, with that of one round trip to rank 1."""
    trip, rows = calls(acp.fetch_add8, acp.query_starter_ga(1), 1), []
    for what, body in ours:
        a, b = singles(effort, body, trip, in_a_row=10)
        goal = Goal(speed=1 / 1.3)
        rows.append(Row(what, "µs", a.median / US, "fetch_add8", b.median / US, goal))
    return rows


def by_rank_0(quick: bool, *parts: Callable[[Effort], list[Row]]) -> list[Row]:
    """Let rank 0 of the job measure, which returns the rows of all parts."""
    rows: list[Row] = []
    with acp.init(MPI.COMM_WORLD):
        if acp.rank() == 0:
            for part in parts:
                rows += part(Effort.of(quick))
        acp.sync()
    return rows
