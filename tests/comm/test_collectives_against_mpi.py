"""The same body on mpi4py's collectives and on ours, blocking and started: equal results."""

from typing import Any

import numpy as np
import pytest
from filled import data

import acp_mpi as acp

pytestmark = pytest.mark.mpi

DTYPES = ["i1", "u2", "i4", "f4", "f8", "c16"]
COUNTS = [1, 5, 3000, 60_000]


class Theirs:
    """mpi4py's calls of a communicator, blocking or started."""

    def __init__(self, comm: Any, started: bool) -> None:
        self.comm, self.started = comm, started

    def __call__(self, name: str, x: Any, out: Any, root: int | None, *counts: Any) -> None:
        gives, takes = counts or (None, None)
        vector = name + "v" if counts else name
        sent = [x, gives] if gives is not None else x
        found = [out, takes] if takes is not None else out
        given = [found] if name == "Bcast" else [sent, found]
        named = {} if root is None else {"root": root}
        if not self.started:
            getattr(self.comm, vector)(*given, **named)
        else:
            getattr(self.comm, "I" + vector.lower())(*given, **named).Wait()


class Ours:
    """The same calls by acp_mpi."""

    def __init__(self, comm: Any, started: bool) -> None:
        self.started = started

    def __call__(self, name: str, x: Any, out: Any, root: int | None, *counts: Any) -> None:
        named: dict[str, Any] = {"out": () if out is None else out}
        if root is not None:
            named["root"] = root
        gives, takes = counts or (None, None)
        if name == "Alltoall":
            named |= {"counts": gives, "out_counts": takes}
        elif counts:
            named["counts"] = takes if name in ("Gather", "Allgather") else gives
        if not self.started:
            getattr(acp, name.lower())(x, **named)
        else:
            getattr(acp, "i" + name.lower())(x, **named).wait()


@pytest.fixture(params=["blocking", "started"])
def both(request: Any, world: Any) -> Any:
    """mpi4py's calls and ours over the same ranks, in the same order."""
    return [kind(world, request.param == "started") for kind in (Theirs, Ours)]


def same(both: Any, name: str, x: Any, out: Any, root: int | None = None, *counts: Any) -> None:
    """Make the call on both, into copies of `out`, and compare what is there then."""
    found = []
    for call in both:
        room = None if out is None else out.copy()
        call(name, x, room, root, *counts)
        found.append(room)
    assert out is None or np.array_equal(*found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", COUNTS)
def test_equal_parts_move_alike(both: Any, count: int, dtype: str) -> None:
    n, r = acp.procs(), acp.rank()
    x, whole = data(count, dtype), data(n * count, dtype, seed=3)
    one, all_ = np.zeros(count, dtype), np.zeros(n * count, dtype)
    for root in {0, n - 1}:
        here = r == root
        same(both, "Bcast", x if here else None, x if here else one, root)
        same(both, "Gather", x, all_ if here else None, root)
        same(both, "Scatter", whole if here else None, one, root)
    same(both, "Allgather", x, all_)
    same(both, "Alltoall", whole, all_)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", COUNTS)
def test_unequal_parts_move_alike(both: Any, count: int, dtype: str) -> None:
    n, r = acp.procs(), acp.rank()
    counts = [count * (k % 3) + k for k in range(n)]
    x, whole = data(counts[r], dtype), data(sum(counts), dtype, seed=3)
    one, all_ = np.zeros(counts[r], dtype), np.zeros(sum(counts), dtype)
    for root in {0, n - 1}:
        here = r == root
        same(both, "Gather", x, all_ if here else None, root, None, counts)
        same(both, "Scatter", whole if here else None, one, root, counts, None)
    same(both, "Allgather", x, all_, None, None, counts)
    takes = [counts[r]] * n
    same(both, "Alltoall", whole, np.zeros(sum(takes), dtype), None, counts, takes)


@pytest.mark.parametrize("dtype", ["i2", "i4", "u8", "f4", "f8", "c8"])
@pytest.mark.parametrize("count", COUNTS)
def test_folds_are_alike(both: Any, count: int, dtype: str) -> None:
    n, r = acp.procs(), acp.rank()
    x, out = data(count, dtype), np.zeros(count, dtype)
    for root in {0, n - 1}:
        same(both, "Reduce", x, out if r == root else None, root)
    for name in ("Allreduce", "Scan", "Exscan"):
        same(both, name, x, out)
