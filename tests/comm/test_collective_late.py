"""A rank that only gives may be through before others find that the calls do not belong together.

It hears of that where all meet, in sync, barrier or finalize: each rank has one error, in the call
or there, and what is called in between goes well on all.
"""

from typing import Any

import numpy as np
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.mpi
EARLIER = "an earlier call was over here before this was found: "


def tried(heard: list[Any], call: Any) -> None:
    try:
        call()
    except acp.Error as error:
        heard.append(error)


def all_have_heard(heard: list[Any], meet: Any = acp.sync) -> Any:
    """Meet once; each rank has one error then, which is returned, and goes on in step."""
    before = len(heard)
    tried(heard, meet)
    assert len(heard) == 1, heard
    error = heard[0]
    assert "; " in str(error)
    assert (EARLIER in str(error)) == (before == 0)
    goes_on()
    return error


def goes_on() -> None:
    n, r = acp.procs(), acp.rank()
    assert acp.allgather(r) == list(range(n))
    word = np.full(2, r)
    assert (acp.bcast(word, n - 1, out=word) == n - 1).all()
    acp.ibarrier().wait()
    acp.sync()


def mismatch(name: str, count: int, heard: list[Any]) -> bool:
    """Make a call in which one rank takes, or is one of those that do, another type; is it this?"""
    n, r = acp.procs(), acp.rank()
    x, mine, rows = np.zeros(count), np.full(count, 7), np.zeros((n, count))
    calls: dict[str, Any] = {
        "bcast": (lambda: acp.bcast(None, out=mine), lambda: acp.bcast(x, out=x)),
        "scatter": (lambda: acp.scatter(None, out=mine), lambda: acp.scatter(rows, out=x)),
        "gather": (
            lambda: acp.gather(mine, out=np.full((n, count), 7)),
            lambda: acp.gather(x, out=()),
        ),
        "reduce": (lambda: acp.reduce(mine, out=mine), lambda: acp.reduce(x, out=())),
    }
    finds = r == (n - 1 if name in ("bcast", "scatter") else 0)
    tried(heard, calls[name][not finds])
    assert heard or not finds
    return finds


@pytest.mark.parametrize("count", [2, 40, 3000])
@pytest.mark.parametrize("name", ["bcast", "scatter", "gather", "reduce"])
def test_each_rank_has_one_error(name: str, count: int) -> None:
    if acp.procs() == 1:
        return
    heard: list[Any] = []
    mismatch(name, count, heard)
    error = all_have_heard(heard)
    assert isinstance(error, TypeError)
    assert f"in {name} rank" in str(error)


@pytest.mark.parametrize("name", ["bcast", "scatter", "gather", "reduce"])
def test_what_is_called_in_between_goes_well_on_all(name: str) -> None:
    if acp.procs() == 1:
        return
    heard: list[Any] = []
    mismatch(name, 3, heard)
    n, r = acp.procs(), acp.rank()
    total, rows = np.zeros(1, int), np.zeros((n, 1), int)
    for turn in range(20):  # long enough for any word of it to come
        assert acp.allgather(r) == list(range(n))
        assert acp.allreduce(np.array([r + turn]), out=total)[0] == n * turn + n * (n - 1) // 2
        acp.gather(np.array([r]), turn % n, out=rows if turn % n == r else ())
        acp.barrier(range(n))
    assert (rows[:, 0] == range(n)).all()
    all_have_heard(heard, acp.barrier)


def test_the_same_call_as_ever_finds_it() -> None:
    """Those that take have called the same before; what the root gives is of another type now."""
    if acp.procs() == 1:
        return
    given, other = np.ones(3), np.ones(3, "i8")
    for _ in range(3):
        acp.bcast(given, out=given)
    heard: list[Any] = []
    x = other if acp.rank() == 0 else given
    tried(heard, lambda: acp.bcast(x, out=x))
    assert heard or acp.rank() == 0 or acp.procs() > 2
    all_have_heard(heard)


def test_who_finds_it_when_all_have_met_is_heard_of_then_or_next() -> None:
    n, r = acp.procs(), acp.rank()
    if n == 1:
        return
    heard: list[Any] = []
    if r:
        tried(heard, acp.igather(np.zeros(2), out=()).wait)
    else:
        request = acp.igather(np.zeros(2, "i8"), out=np.zeros((n, 2), "i8"))
    tried(heard, acp.sync)
    if r == 0:
        tried(heard, request.wait)
    tried(heard, acp.sync)
    assert len(heard) == 1, heard
    goes_on()


def test_two_ranks_call_something_else() -> None:
    n, r = acp.procs(), acp.rank()
    if n != 2:
        return
    out = np.zeros(3)
    heard: list[Any] = []
    if r == 0:
        tried(heard, lambda: acp.bcast(out, out=out))
    else:
        tried(heard, lambda: acp.scatter(None, out=out))
    error = all_have_heard(heard)
    assert "in bcast, and rank" in str(error) or "in scatter, and rank" in str(error)


def test_one_error_for_all_calls_until_they_meet() -> None:
    if acp.procs() == 1:
        return
    heard: list[Any] = []
    finds = False
    for name in ("bcast", "bcast", "scatter"):
        finds = mismatch(name, 3, heard)
    before = len(heard)
    tried(heard, acp.sync)
    assert before == 3 if finds else len(heard) <= before + 1
    assert heard
    goes_on()


def test_other_ranks_have_nothing_to_do_with_it() -> None:
    n, r = acp.procs(), acp.rank()
    if n < 3:
        return
    heard: list[Any] = []
    if r < 2:
        given = np.zeros(3, "f8" if r == 0 else "i8")
        tried(heard, lambda: acp.bcast(given, out=given, ranks=[0, 1]))
    if r != 1:
        others = [0, *range(2, n)]
        assert acp.allgather(r, ranks=others) == others
    tried(heard, acp.sync)
    assert len(heard) == (r < 2)
    goes_on()
