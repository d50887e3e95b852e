"""A rank that only gives may be through before others find that the calls do not belong together.

It hears of that in its next collective of these ranks, in sync, or in finalize.
"""

import contextlib
from typing import Any

import numpy as np
import pytest
from support import shared, told_by

import acp_mpi as acp

pytestmark = pytest.mark.mpi
EARLIER = "of an earlier call, which was over here before this was found: "


def tried(heard: list[Any], call: Any) -> None:
    try:
        call()
    except acp.Error as error:
        heard.append(error)


def all_hear(heard: list[Any], words: Any) -> Any:
    """Meet until all ranks have heard of a mismatch, once each, and return what this one has."""
    array, places = words
    word, n = bytearray(1), 0
    while n < acp.procs():
        array[0] = len(heard)
        tried(heard, acp.sync)
        n = 0
        for place in places:
            acp.get(place, word)
            n += word[0]
        tried(heard, acp.sync)  # the words stay until all have read them
    [error] = heard
    assert "; " in str(error)
    acp.sync()
    assert acp.allgather(acp.rank()) == list(range(acp.procs()))
    return error


def arrays(count: int) -> dict[str, tuple[Any, Any, Any]]:
    """Return, of each call, how the root makes it, another rank, and one that is wrong."""
    n, x, other = acp.procs(), np.zeros(count), np.full(count, 7)
    whole, wrong = np.zeros((n, count)), np.full((n, count), 7)
    return {
        "bcast": (
            lambda: acp.bcast(x, out=x),
            lambda: acp.bcast(None, out=x),
            (other, lambda: acp.bcast(None, out=other)),
        ),
        "scatter": (
            lambda: acp.scatter(whole, out=x),
            lambda: acp.scatter(None, out=x),
            (other, lambda: acp.scatter(None, out=other)),
        ),
        "gather": (
            lambda: acp.gather(other, out=wrong),
            lambda: acp.gather(x, out=()),
            (wrong, lambda: acp.gather(other, out=wrong)),
        ),
        "reduce": (
            lambda: acp.reduce(other, out=other),
            lambda: acp.reduce(x, out=()),
            (other, lambda: acp.reduce(other, out=other)),
        ),
    }


@pytest.mark.parametrize("count", [2, 40, 3000])
@pytest.mark.parametrize("name", ["bcast", "scatter", "gather", "reduce"])
def test_who_has_given_hears_of_other_types(name: str, count: int) -> None:
    """Rank 0 takes, or one of those that take does, what is of another type there."""
    words = shared(1, "u1")
    root, each, (place, wrong) = arrays(count)[name]
    last = acp.procs() - 1
    if not last:
        return
    finder = last if name in ("bcast", "scatter") else 0
    call = wrong if acp.rank() == finder else root if acp.rank() == 0 else each
    heard: list[Any] = []
    tried(heard, call)
    error = all_hear(heard, words)
    assert isinstance(error, TypeError)
    assert f"in {name} rank" in str(error)
    if acp.rank() == finder:
        assert EARLIER not in str(error)
        assert (place == 7).all()  # nothing was written there
    elif acp.rank() == (0 if finder else last) and acp.procs() == 2:
        assert str(error).startswith((f"sync: {EARLIER}", f"{name}: "))


def mismatch() -> bool:
    """Call a bcast whose type differs on the last rank; return whether this one has heard of it."""
    heard: list[Any] = []
    last = acp.procs() - 1
    given = np.zeros(3, "f8" if acp.rank() < last else "i8")
    tried(heard, lambda: acp.bcast(given, out=given))
    assert heard or acp.rank() != last
    return bool(heard)


@pytest.mark.parametrize("own", ["allgather", "bcast", "ibarrier"])
def test_the_next_call_of_these_ranks_fails_everywhere(own: str) -> None:
    """Who was told before it tells the others in it."""
    if acp.procs() == 1:
        return
    calls: dict[str, Any] = {
        "allgather": lambda: acp.allgather(acp.rank()),
        "bcast": lambda: acp.bcast("x"),
        "ibarrier": lambda: acp.ibarrier().wait(),
    }
    mismatch()
    told_by(acp.procs() - 1)
    with pytest.raises(TypeError, match=rf"^{own}: {EARLIER}in bcast rank \d gives elements of "):
        calls[own]()
    calls[own]()
    acp.sync()


def test_who_waits_in_the_next_call_hears_of_it_there() -> None:
    """The finder does not come to it: it has had an error."""
    if acp.procs() == 1:
        return
    finds = acp.rank() == acp.procs() - 1
    for turn in range(2):
        mismatch()
        if turn:
            told_by(acp.procs() - 1)
        if not finds:
            with pytest.raises(acp.Error, match="in bcast rank"):
                acp.ibarrier().wait()
        acp.sync()
        if finds:
            with contextlib.suppress(acp.Error):  # some had come before they heard of it
                acp.ibarrier().wait()
        acp.sync()


@pytest.mark.parametrize("count", [2, 40, 3000])
def test_two_roots_that_both_only_give(count: int) -> None:
    words = shared(1, "u1")
    n, r = acp.procs(), acp.rank()
    if n not in (2, 3):  # among more not everybody is given something in vain
        return
    out = np.zeros(count)
    heard: list[Any] = []
    tried(heard, lambda: acp.bcast(out, r if r < 2 else 0, out=out))
    error = all_hear(heard, words)
    assert "gives another size, type, operation or root than rank" in str(error)


def test_another_call_is_named() -> None:
    words = shared(1, "u1")
    n, r = acp.procs(), acp.rank()
    if n != 2:
        return
    out = np.zeros(3)
    heard: list[Any] = []
    if r == 0:
        tried(heard, lambda: acp.bcast(out, out=out))
    else:
        tried(heard, lambda: acp.scatter(None, out=out))
    error = all_hear(heard, words)
    assert "rank 0 is in bcast, and rank 1 in scatter meanwhile; " in str(error)


def test_other_teams_have_nothing_to_do_with_it() -> None:
    n, r = acp.procs(), acp.rank()
    if n < 3:
        return
    heard: list[Any] = []
    if r < 2:
        given = np.zeros(3, "f8" if r == 0 else "i8")
        tried(heard, lambda: acp.bcast(given, out=given, ranks=[0, 1]))
    told_by(1)
    if r != 1:
        others = [0, *range(2, n)]
        assert acp.allgather(r, ranks=others) == others
    tried(heard, acp.sync)
    assert len(heard) == (r < 2)
