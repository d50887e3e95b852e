"""Times of put, get and an atomic for pairs of nodes: by the road, by link, by MPI's own window.

One pair at a time: the target and all other ranks wait. All functions are collective over the job.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, TypeAlias

from acp_mpi.comm.collectives import calls
from acp_mpi.engine import _engine
from acp_mpi.errors import HeapFullError
from acp_mpi.job import membership

Pair: TypeAlias = tuple[int, int]
Times: TypeAlias = list[float | None]  # seconds, in the order of COLUMNS; None: no memory for it
Found: TypeAlias = dict[Pair, tuple[str, Times]]  # by what, and how long it takes

SIZES = {8: "8 B", 65536: "64 KiB", 16 << 20: "16 MiB"}
COLUMNS = [*(f"{call} {size}" for call in ("put", "get") for size in SIZES.values()), "fetch_add8"]
BY_MPI = "MPI + Flush"
_CALLS = {8: 20, 65536: 5, 16 << 20: 1}  # that are timed together
_SECONDS = 0.1  # a figure takes, or three calls if these take longer; less where pairs are many
_MANY = 60
_MOST = 50  # measurements for a figure
_EVERY = 8  # nodes of which every pair is measured
_FAR = 600  # pairs of more nodes than that; or one for each node
_ALIKE = 2.0  # figures of pairs that are one line differ by less than this factor


def pairs(nodes: Iterable[list[int]]) -> list[Pair]:
    """Return the first two ranks of each node, and the first ranks of pairs of nodes.

    Of more than 8 nodes each is paired with those 1, 2, 4, 8... places further only: as many
    of these as make 600 pairs, and one at least.
    """
    everywhere = list(nodes)
    count = len(everywhere)
    steps = list(range(1, count))
    if count > _EVERY:
        steps = [1 << k for k in range((count - 1).bit_length())][: max(1, _FAR // count)]
    inside = [(ranks[0], ranks[1]) for ranks in everywhere if len(ranks) > 1]
    firsts = [ranks[0] for ranks in everywhere]
    return inside + [
        (first, firsts[(place + step) % count])
        for step in steps
        for place, first in enumerate(firsts)
    ]


def by_acp(wanted: list[Pair]) -> Found:
    """Measure by the road that each pair takes; return what all ranks have found."""
    with _Block(wanted) as block:
        found, seconds = {}, _seconds(wanted)
        for caller, target in wanted:
            if caller == _engine.rank():
                at, size = block.of[target]
                found[caller, target] = (_engine.road(target)[0], _by_acp(at, size, seconds))
            _engine.sync()
        return _everyone_s(found)


def by_mpi(wanted: list[Pair]) -> tuple[Found, str]:
    """Measure Put + Flush and so on in the group's window; or return why that cannot be.

    The other ranks wait inside MPI: where the network does not write memory by itself, the target
    has to help.
    """
    group = membership.group()
    if len(membership.groups()) > 1:
        return {}, "a job of several groups has no window over all ranks"
    if group.window is None:
        return {}, f"MPI window {membership.job().window_state}"
    with _Block(wanted) as block:
        starter = _engine.query_starter_ga
        ends = calls.allgather(starter(_engine.rank()) + _window_size(group.window))
        places = {rank: place for place, rank in enumerate(group.ranks)}
        found: Found = {}
        seconds = _seconds(wanted)
        for caller, target in wanted:
            if caller == _engine.rank():
                at, size = block.of[target]
                covered = size if at + size <= (ends[target] or 0) else 0
                found[caller, target] = _by_mpi(
                    group.window, places[target], at - starter(target), covered, seconds
                )
            group.comm.Barrier()
        return _everyone_s(found), ""


def rows(found: Found, names: Mapping[int, str]) -> Iterator[list[str]]:
    """Yield the rows of a table in microseconds, one for pairs that are alike: their medians."""
    for way in dict.fromkeys(way for way, _ in found.values()):
        classes: list[list[tuple[Pair, Times]]] = []
        for pair, (by, times) in found.items():
            if by == way:
                near = (one for one in classes if _are_alike(one[0], (pair, times), names))
                one = next(near, None)
                if one is None:
                    classes.append([(pair, times)])
                else:
                    one.append((pair, times))
        for one in classes:
            (caller, target), _ = one[0]
            said = f"{names[caller]} -> {names[target]}"
            if names[caller] == names[target]:
                said = f"within {names[caller]}"
            if len(one) > 1:
                said += f" and {len(one) - 1} more"
            columns = zip(*(times for _, times in one), strict=True)
            yield [said, way, *map(_in_microseconds, columns)]


def _are_alike(a: tuple[Pair, Times], b: tuple[Pair, Times], names: Mapping[int, str]) -> bool:
    inside = [names[caller] == names[target] for (caller, target), _ in (a, b)]
    return inside[0] == inside[1] and all(
        (x is None) == (y is None) and (x is None or y is None or max(x, y) < _ALIKE * min(x, y))
        for x, y in zip(a[1], b[1], strict=True)
    )


def _in_microseconds(times: tuple[float | None, ...]) -> str:
    known = [one for one in times if one is not None]
    return f"{statistics.median(known) * 1e6:.2f}" if known else "-"


def _seconds(wanted: list[Pair]) -> float:
    return _SECONDS * min(1.0, _MANY / max(1, len(wanted)))


def _everyone_s(mine: Found) -> Found:
    found: Found = {}
    for one in calls.allgather(mine):
        found.update(one or {})
    return found


class _Block:
    """Memory of the heap of each rank that is in a pair, the most that it has for one of SIZES.

    `of[rank]` says where, and how much. Collective.
    """

    def __init__(self, wanted: list[Pair]) -> None:
        self._mine, size = _engine.GA_NULL, 0
        if any(_engine.rank() in pair for pair in wanted):
            for size in reversed(SIZES):
                try:
                    self._mine = _engine.malloc(size)
                    break
                except HeapFullError:
                    size = 0
        self.of = [told or (_engine.GA_NULL, 0) for told in calls.allgather((self._mine, size))]

    def __enter__(self) -> _Block:
        return self

    def __exit__(self, *failed: object) -> None:
        if not any(failed):
            _engine.sync()
            if self._mine != _engine.GA_NULL:
                _engine.free(self._mine)


def _by_acp(at: int, size: int, seconds: float) -> Times:
    put, get, add = _engine.put, _engine.get, _engine.fetch_add8
    times = [
        _median(seconds, length, call, at, bytearray(b"1") * length) if length <= size else None
        for call in (put, get)
        for length in SIZES
    ]
    return [*times, _median(seconds, 8, add, at, 0) if size else None]


def _by_mpi(
    window: Any, target: int, displacement: int, size: int, seconds: float
) -> tuple[str, Times]:
    from mpi4py import MPI

    def flushed(call: Callable[..., object], *arguments: object) -> None:
        call(*arguments)
        window.Flush(target)

    times: Times = []
    try:
        for call in (window.Put, window.Get):
            for length in SIZES:
                origin = [bytearray(b"1") * length, MPI.BYTE]
                place = [displacement, length, MPI.BYTE]
                fits = length <= size
                times.append(
                    _median(seconds, length, flushed, call, origin, target, place) if fits else None
                )
        if size:
            zero, old = ([bytearray(8), 1, MPI.INT64_T] for _ in range(2))
            add = window.Fetch_and_op
            times.append(
                _median(seconds, 8, flushed, add, zero, old, target, displacement, MPI.SUM)
            )
    except MPI.Exception as error:
        return f"MPI: {error}", [None] * len(COLUMNS)
    return BY_MPI, times + [None] * (len(COLUMNS) - len(times))


def _median(seconds: float, length: int, call: Callable[..., object], *arguments: object) -> float:
    """Return the seconds of a call; the first, which may open what it needs, is not timed."""
    call(*arguments)
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or (len(times) < _MOST and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        for _ in repeat(None, _CALLS[length]):
            call(*arguments)
        times.append((time.perf_counter() - start) / _CALLS[length])
    return statistics.median(times)


def _window_size(window: Any) -> int:
    from mpi4py import MPI

    return int(window.Get_attr(MPI.WIN_SIZE))
