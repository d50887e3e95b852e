"""A workspace's part on another rank, against plain memory of the same rank."""

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import US, Effort, Row, interleave

import acp_mpi as acp
from rows.calling import by_rank_0, calls

SIZE = 16 << 20


def _rows(effort: Effort) -> list[Row]:
    space, ga = acp.Workspace(SIZE, start_rank=1, default_size=SIZE), acp.malloc(SIZE, 1)
    one, many = np.ones(1), np.ones(SIZE // 8)
    rows = []
    calls_of: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
        ("read", space.read, acp.get),
        ("write", space.write, acp.put),
        ("accumulate", space.accumulate, acp.put),
    ]
    for what, ours, theirs in calls_of:
        a, b = interleave(effort, calls(ours, one, 0), calls(theirs, ga, one))
        against = f"{theirs.__name__} of them"
        rows.append(
            Row(f"Workspace.{what} of 8 bytes", "µs", a.median / US, against, b.median / US)
        )
        a, b = interleave(effort, calls(ours, many, 0), calls(theirs, ga, many))
        size = SIZE / 1e9
        rows.append(
            Row(f"Workspace.{what} of 16 MiB", "GB/s", size / a.median, against, size / b.median,
                rate=True)
        )  # fmt: skip
    space.destroy()
    acp.free(ga)
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    return by_rank_0(quick, _rows)
