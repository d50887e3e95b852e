"""A rank dies in a collective: all that take part hear of it, whoever they wait for themselves."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import launch
import pytest
from dying import sync_before_the_end_of

import acp_mpi as acp

RANKS = 4
LIST = [*range(RANKS)]


def concatenated(a: Any, b: Any) -> Any:
    return a + b


def call_of(kind: str, request: bool) -> Callable[[], object]:
    """Return a collective: short, long, of objects, with what Python folds; or as a request."""
    import numpy as np

    n, root = RANKS, acp.rank() == 0
    short, long, parts = np.ones(1), np.ones(100_000), np.ones(n * 100_000)
    out, whole = np.empty(100_000), np.empty(n * 100_000)
    table: dict[str, tuple[Any, ...]] = {
        "bcast": (acp.bcast, acp.ibcast, (long, 0), () if root else out),
        "reduce": (acp.reduce, acp.ireduce, (long,), out if root else ()),
        "allreduce": (acp.allreduce, acp.iallreduce, (long,), out),
        "short allreduce": (acp.allreduce, acp.iallreduce, (short,), None),
        "scan": (acp.scan, acp.iscan, (long,), None),
        "exscan": (acp.exscan, acp.iexscan, (short, concatenated), None),
        "gather": (acp.gather, acp.igather, (long,), whole if root else ()),
        "scatter": (acp.scatter, acp.iscatter, (parts,), out),
        "allgather": (acp.allgather, acp.iallgather, (long,), whole),
        "alltoall": (acp.alltoall, acp.ialltoall, (parts,), whole),
        "reduce_scatter": (acp.reduce_scatter, acp.ireduce_scatter, (parts,), None),
        "objects": (acp.alltoall, acp.ialltoall, (["x" * 1000] * n,), None),
        "objects folded": (acp.allreduce, acp.iallreduce, ("x", concatenated), None),
    }
    if kind == "barrier":
        return (lambda: acp.ibarrier().wait()) if request else lambda: acp.barrier(LIST)
    blocking, starting, given, out = table[kind]
    if request:
        return lambda: starting(*given, out=out).wait()
    return lambda: blocking(*given, out=out)


def mourn(folder: str, victim: str, call: str, how: str) -> None:
    """Call until one dies, somewhere in the middle; then go on among the living."""
    acp.init()
    dead = int(victim)
    again = call_of(call, how == "request")
    go = threading.Event()

    def die() -> None:
        go.wait()
        os.kill(os.getpid(), signal.SIGKILL)

    if acp.rank() == dead:
        threading.Thread(target=die, daemon=True).start()
    try:
        count = 0
        while True:
            if count == 7:
                go.set()
            again()
            count += 1
    except acp.PeerLostError as error:
        assert error.rank == dead, error  # noqa: PT017
    while dead in acp.refresh():
        continue
    living = [rank for rank in range(RANKS) if rank != dead]
    assert acp.allreduce(acp.rank(), ranks=living) == sum(living)
    assert acp.allreduce(acp.rank()) == sum(living)
    request_of_all: Any = acp.iallgather(acp.rank())
    assert request_of_all.wait() == [None if r == dead else r for r in range(RANKS)]
    Path(folder, f"{acp.rank()} survived").touch()


KINDS = [
    "barrier", "bcast", "reduce", "allreduce", "short allreduce", "scan", "exscan", "gather",
    "scatter", "allgather", "alltoall", "reduce_scatter", "objects", "objects folded",
]  # fmt: skip
ROADS = [*launch.ROADS]


@pytest.mark.parametrize("how", ["blocking", "request"])
@pytest.mark.parametrize(
    ("call", "road"),
    [(call, ROADS[i % len(ROADS)]) for i, call in enumerate(KINDS)]
    + [("allreduce", road) for road in ROADS if KINDS.index("allreduce") % 5 != ROADS.index(road)],
)
def test_all_members_hear_of_a_death(
    without_mpi: Any, tmp_path: Path, road: str, call: str, how: str
) -> None:
    victim = 1 if how == "blocking" else RANKS - 1
    program = launch.program(mourn, tmp_path, victim, call, how)
    jobs = without_mpi(RANKS, program, launch.ROADS[road])
    statuses = [job.wait() for job in jobs]
    text = "\n".join(job.output for job in jobs)
    assert statuses == [-signal.SIGKILL if r == victim else 0 for r in range(RANKS)], text
    assert {r for r in range(RANKS) if (tmp_path / f"{r} survived").exists()} == set(
        range(RANKS)
    ) - {victim}, text


def hear_of_it_from_one_who_knows(folder: str, what: str) -> None:
    """The last of a tree was in touch with nobody when the others heard of it."""
    import numpy as np

    acp.init()
    out = None if what == "object" else np.empty(100_000)
    last, dead, between = 0, 1, RANKS - 1
    Path(folder, f"{acp.rank()} began").touch()
    if acp.rank() == dead:
        acp.wait_until(acp.query_starter_ga(dead), "==", between)
        os.kill(os.getpid(), signal.SIGKILL)
    if acp.rank() == between:
        while len(list(Path(folder).glob("* began"))) < RANKS:
            os.sched_yield()
        with contextlib.suppress(acp.PeerLostError):  # it may die before it answers
            acp.fetch_add8(acp.query_starter_ga(dead), between)
        while dead in acp.ranks():
            with contextlib.suppress(acp.PeerLostError):
                acp.get(acp.query_starter_ga(dead), bytearray(8))
    elif acp.rank() == last:
        while not Path(folder, f"{between} heard").exists():
            os.sched_yield()
    with pytest.raises(acp.PeerLostError, match=f"rank {dead}"):
        acp.bcast(None, root=dead, out=out)
    Path(folder, f"{acp.rank()} heard").touch()
    while dead in acp.refresh():
        continue
    assert acp.allgather(acp.rank()) == [r if r != dead else None for r in range(RANKS)]


@pytest.mark.parametrize("what", ["array", "object"])
@pytest.mark.parametrize("road", ROADS)
def test_who_hears_of_a_death_from_another_member_knows_of_it(
    without_mpi: Any, tmp_path: Path, road: str, what: str
) -> None:
    program = launch.program(hear_of_it_from_one_who_knows, tmp_path, what)
    jobs = without_mpi(RANKS, program, launch.ROADS[road])
    statuses = [job.wait() for job in jobs]
    text = "\n".join(job.output for job in jobs)
    assert statuses == [-signal.SIGKILL if r == 1 else 0 for r in range(RANKS)], text


def ask_again_and_again(folder: str) -> None:
    """Nobody waits, and nobody was in touch with the one that dies."""
    acp.init()
    dead = RANKS - 1
    if acp.rank() == dead:
        while len(list(Path(folder).glob("* began"))) < RANKS - 1:
            os.sched_yield()
        os.kill(os.getpid(), signal.SIGKILL)
    request = acp.ibcast(None, root=dead)
    Path(folder, f"{acp.rank()} began").touch()
    while not request.done:
        os.sched_yield()
    with pytest.raises(acp.PeerLostError, match=f"rank {dead}"):
        request.test()
    while dead in acp.refresh():
        continue
    assert acp.allreduce(1) == RANKS - 1


@pytest.mark.smoke("any")
@pytest.mark.parametrize("road", ROADS)
def test_who_only_asks_hears_of_a_death(without_mpi: Any, tmp_path: Path, road: str) -> None:
    program = launch.program(ask_again_and_again, tmp_path)
    jobs = without_mpi(RANKS, program, launch.ROADS[road])
    statuses = [job.wait() for job in jobs]
    text = "\n".join(job.output for job in jobs)
    assert statuses == [0] * (RANKS - 1) + [-signal.SIGKILL], text


def begin_after_a_death(folder: str) -> None:
    """The first collective comes after a death that nobody has accepted."""
    acp.init()
    dead = RANKS - 1
    sync_before_the_end_of(dead)
    if acp.rank() == dead:
        os.kill(os.getpid(), signal.SIGKILL)
    while dead in acp.ranks():
        with contextlib.suppress(acp.PeerLostError):
            acp.get(acp.query_starter_ga(dead), bytearray(8))
    with pytest.raises(acp.PeerLostError):
        acp.iallreduce(1.0).wait()
    Path(folder, f"{acp.rank()} survived").touch()
    os._exit(0)  # they have not agreed on who lives


@pytest.mark.parametrize("road", ROADS)
def test_a_loss_that_nobody_has_accepted_is_no_absence(
    without_mpi: Any, tmp_path: Path, road: str
) -> None:
    jobs = without_mpi(RANKS, launch.program(begin_after_a_death, tmp_path), launch.ROADS[road])
    statuses = [job.wait() for job in jobs]
    text = "\n".join(job.output for job in jobs)
    assert statuses == [0] * (RANKS - 1) + [-signal.SIGKILL], text
    assert len(list(tmp_path.glob("* survived"))) == RANKS - 1, text


def lists_after_a_death(folder: Path) -> None:
    import numpy as np

    acp.init()
    sync_before_the_end_of(1)
    if acp.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with contextlib.suppress(acp.PeerLostError):
        acp.sync()
    acp.refresh()
    acp.sync()
    r, living = acp.rank(), [0, 2, 3]
    whole = [0, None, 2, 3]
    assert acp.ranks() == living
    assert acp.allgather(r) == acp.iallgather(r).wait() == whole
    assert acp.gather(r, 2) == (whole if r == 2 else None)
    assert acp.alltoall([(r, i) for i in range(RANKS)]) == [
        None if i == 1 else (i, r) for i in range(RANKS)
    ]
    assert acp.scatter([10, None, 12, 13] if r == 0 else None) == 10 + r
    assert acp.reduce_scatter([1, 1, 1, 1]) == 3
    assert acp.allreduce((r,)) == (0, 2, 3)
    backwards = [3, 2, 0]
    assert acp.allgather(r, ranks=backwards) == backwards
    assert acp.alltoall([5, 6, 7], ranks=backwards) == [5 + backwards.index(r)] * 3
    rows = np.zeros((3, 2), int)
    acp.allgather(np.full(2, r), out=rows)
    assert rows[:, 0].tolist() == living
    with pytest.raises(ValueError, match="4 objects, one for each rank, those that have died, too"):
        acp.alltoall([1, 2, 3])
    Path(folder, f"{r} survived").touch()


def test_lists_of_objects_have_a_place_for_each_rank(without_mpi: Any, tmp_path: Path) -> None:
    jobs = without_mpi(RANKS, launch.program(lists_after_a_death, tmp_path))
    text = "\n".join(job.output for job in jobs if job.wait() not in (0, -signal.SIGKILL))
    assert len(list(tmp_path.glob("* survived"))) == RANKS - 1, text
