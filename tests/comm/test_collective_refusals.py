"""Collectives that are called wrongly, or fail on one rank: all that depend on it hear of it."""

import contextlib
import pickle
import re
from typing import Any

import numpy as np
import pytest
from support import hear_late, refused

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def test_what_a_rank_can_know_is_refused_at_once() -> None:
    r, n = acp.rank(), acp.procs()
    x = np.arange(3.0)
    with refused(ValueError, "allreduce", "'mean'"):
        acp.allreduce(x, "mean")
    with refused(TypeError, "allreduce", "17"):
        acp.allreduce(x, 17)
    with pytest.raises(acp.RankError, match=f"bcast: there is no rank {n + 5}"):
        acp.bcast(1, n + 5)
    with refused(acp.RankError, "allreduce", r):
        acp.allreduce(1, ranks=[r, r])
    if n > 1:
        with refused(acp.RankError, "allreduce", r):
            acp.allreduce(1, ranks=[(r + 1) % n])
    with refused(ValueError, "allreduce", 24):
        acp.allreduce(x, out=np.zeros(2))
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with refused(ValueError, "allreduce"):
        acp.allreduce(x, out=frozen)
    with refused(ValueError, "scatter|alltoall", n):
        acp.alltoall([0] * (n + 1))
    with refused(ValueError, "alltoall", "out= takes a part of an array"):
        acp.alltoall(np.zeros(n + 1))
    with refused(ValueError, "allreduce"):
        acp.allreduce(x, ranks=[r], group=acp.group())
    if n > 1:
        with refused(ValueError, "scan"):
            acp.scan(1, between=([r], [(r + 1) % n]))
    acp.sync()


def test_calls_that_do_not_belong_together_are_told() -> None:
    n, r = acp.procs(), acp.rank()
    if n != 2:
        return
    with pytest.raises(acp.Error, match="size, type, operation or root"):
        acp.allreduce(np.zeros(3 + r))
    acp.sync()
    with pytest.raises(acp.Error, match="meanwhile"):
        (acp.allreduce if r else acp.scan)(np.zeros(3))
    acp.sync()
    assert acp.allreduce(1) == 2


@pytest.mark.parametrize("call", [acp.iallgather, acp.iallreduce, acp.ibcast, acp.igather])
def test_all_hear_of_an_object_that_cannot_be_pickled(call: Any) -> None:
    n, r = acp.procs(), acp.rank()
    guilty = 0 if call is acp.ibcast else n - 1
    x = (lambda: None) if r == guilty else None
    if r == guilty:
        with pytest.raises((pickle.PicklingError, AttributeError)):
            call(x)
    elif call is not acp.igather or r == 0:  # the others only give
        with pytest.raises(acp.Error, match=f"rank {guilty} has left"):
            call(x).wait()
    else:
        call(x).wait()
    acp.sync()
    assert acp.allreduce(1) == n


def test_a_timeout_ends_it_on_all_that_wait() -> None:
    n, r = acp.procs(), acp.rank()
    if n < 2:
        return
    if r == 0:
        with pytest.raises(TimeoutError):
            acp.allreduce(np.zeros(100_000), timeout=0.05)
        acp.sync()
    else:
        acp.sync()
        with pytest.raises(acp.Error, match="rank 0 has left"):
            acp.allreduce(np.zeros(100_000))
    acp.sync()
    assert acp.allreduce(1) == n


def heard(failing: bool, call: Any, error: Any, match: str, guilty: int) -> None:
    """Have one rank refuse a call, all others hear of it, and the next call go as ever."""
    if failing:
        with pytest.raises(error, match=match):
            call()
    else:
        with pytest.raises(acp.Error, match=f"rank {guilty} has left"):
            call()
    assert acp.allreduce(1) == acp.procs()
    assert acp.allreduce(np.ones(2)).tolist() == [acp.procs()] * 2


def test_a_call_that_one_rank_refuses_is_counted() -> None:
    r = acp.rank()
    for x in (10, np.full(3, 10.0)):
        heard(
            r == 0, lambda x=x: acp.allreduce(x, "sum" if r else "nosuch"), ValueError, "nosuch", 0
        )
        heard(r == 0, lambda x=x: acp.iallreduce(x, "sum" if r else 5).wait(), TypeError, "5", 0)


def test_all_hear_of_arguments_that_are_wrong_on_one_rank() -> None:
    r, n = acp.rank(), acp.procs()
    out = np.zeros(3 if r else 2)
    heard(r == 0, lambda: acp.bcast(np.ones(3), out=out), ValueError, "bcast: out has 16", 0)
    heard(r == 0, lambda: acp.allreduce(np.ones(3), out=out), ValueError, "allreduce: out", 0)
    heard(r == 0, lambda: acp.bcast(1, root=0 if r else 99), acp.RankError, "no rank 99", 0)
    heard(r == 0, lambda: acp.allgather(1 if r else lambda: None), Exception, "lambda", 0)
    heard(r == 0, lambda: acp.bcast(1 if r else lambda: None), Exception, "lambda", 0)
    whole = np.array([1]) if r else np.array([1.5])
    heard(r == 0, lambda: acp.allreduce(whole, "or"), TypeError, "no or of float64", 0)
    if n > 1:
        x = None if r else np.arange(n + 1)
        place = np.zeros(1, int)
        heard(r == 0, lambda: acp.scatter(x, out=place), ValueError, "dealt out evenly", 0)


def test_a_timeout_that_is_none_is_refused_and_told() -> None:
    r = acp.rank()
    for x in (1, np.ones(3)):
        late = None if r else -1
        heard(
            r == 0,
            lambda x=x, late=late: acp.allreduce(x, timeout=late),
            ValueError,
            "timeout -1",
            0,
        )
        with pytest.raises(ValueError, match="allreduce: the timeout -1"):
            acp.allreduce(x, timeout=-1)
    assert acp.allreduce(1) == acp.procs()


def test_all_hear_of_calls_that_do_not_belong_together() -> None:
    n, r = acp.procs(), acp.rank()
    if n < 2:
        return
    for x in (np.zeros(3), 1):
        told = ""
        try:
            (acp.scan if r else acp.allreduce)(x)
        except acp.Error as error:
            told = str(error)
        heard = acp.allgather(told)
        assert any("meanwhile" in each for each in heard)
        assert all(re.search(r"^$|meanwhile|has left", each) for each in heard)
        assert acp.allreduce(1) == n
    hear_late()


def test_nobody_waits_for_ever_where_each_calls_something_else() -> None:
    n, r = acp.procs(), acp.rank()
    if n < 3:
        return
    x = np.zeros(n)
    for trio in (
        (acp.reduce, acp.allreduce, acp.alltoall),
        (acp.allreduce, lambda x: acp.bcast(x, n - 1, out=x), lambda x: acp.bcast(x, out=x)),
        (acp.scan, lambda x: acp.iallreduce(x).wait(), acp.reduce),
    ):
        for turn in range(3):
            told = ""
            try:
                trio[(r + turn) % 3](x)
            except acp.Error as error:
                told = str(error)
            heard = acp.allgather(told)
            assert any(heard)
            assert all(re.search(r"^$|meanwhile|size, type|has left", each) for each in heard)
            assert acp.allreduce(1) == n
    hear_late()


def test_buffers_on_one_rank_and_objects_on_others_are_told_by_their_name() -> None:
    n, r = acp.procs(), acp.rank()
    if n < 2:
        return
    with pytest.raises(acp.Error, match=r"in allreduce of (buffers|objects), |has left") as told:
        acp.allreduce(1 if r else np.ones(1))
    assert "allgather" not in str(told.value)
    assert acp.allreduce(1) == n
    out = None if r else np.zeros(n)
    if r == 0:  # the others only give
        with pytest.raises(acp.Error, match=r"in gather of objects, .*out=\(\)"):
            acp.gather(np.ones(1), out=out)
    else:
        with contextlib.suppress(acp.Error):
            acp.gather(np.ones(1), out=out)
    hear_late()
    assert acp.allreduce(1) == n


def test_a_result_of_another_type_is_refused() -> None:
    x, n, r = np.ones(acp.procs()), acp.procs(), acp.rank()
    out = np.zeros(n, int)
    for call in (acp.allreduce, acp.scan, acp.exscan):
        with refused(TypeError, call.__name__, "float64", "int64"):
            call(x, out=out)
    with refused(TypeError, "reduce_scatter", "float64", "int64"):
        acp.reduce_scatter(x, out=out[:1])
    with refused(TypeError, "allgather", "float64", "int64"):
        acp.allgather(x[:1], out=out)
    with refused(TypeError, "alltoall", "float64", "int64"):
        acp.alltoall(x, out=out)
    with refused(TypeError, "allreduce", "float64", "f"):
        acp.allreduce(x, out=memoryview(np.zeros(n, "f4")))
    with pytest.raises(TypeError) if r == 0 else contextlib.nullcontext():
        acp.reduce(x, out=() if r else out)  # the others only give
    raw = bytearray(8 * n)
    acp.allgather(x[:1], out=raw)  # bytes are of any type
    assert np.frombuffer(raw).tolist() == [1.0] * n
    assert acp.allreduce(1) == n


def test_small_objects_go_by_memory_and_by_messages_in_turn() -> None:
    n, r = acp.procs(), acp.rank()
    for i in range(5):
        limit = 60 if i % 2 else None
        assert acp.bcast((i, r), timeout=limit) == (i, 0)
        assert acp.bcast((i, r), i % n, ranks=range(n) if limit else None) == (i, i % n)
        assert acp.allgather((i, r), timeout=limit) == [(i, each) for each in range(n)]


def test_arguments_that_are_none_say_what_to_give() -> None:
    for wrong in ("x", -1, float("nan")):
        request = acp.iallreduce(1)
        with pytest.raises(ValueError, match=f"wait: the timeout {wrong!r}"):
            request.wait(wrong)
        assert request.wait(float("inf")) == acp.procs()
    with refused(TypeError, "bcast", 3, "list of ranks"):
        acp.bcast(1, ranks=3)
    with pytest.raises(ValueError, match="bcast: between="):
        acp.bcast(1, between=3)
    x = np.ones(1)
    with pytest.raises(TypeError, match=r"allgather: counts=.*whole numbers"):
        acp.allgather(x, out=np.zeros(acp.procs()), counts=[1.5] * acp.procs())
    acp.sync()


def test_roots_that_are_not_the_same_are_told_to_whoever_waits() -> None:
    n, r = acp.procs(), acp.rank()
    if n < 3:
        return
    root = 1 if r == n - 1 else 0  # who waits for rank 1, which is no root
    for x, out in ((("from", r), None), (np.full(3, r), np.zeros(3, int))):
        told = ""
        try:
            acp.bcast(x, root, out=out)
        except acp.Error as error:
            told = str(error)
        heard = acp.allgather(told)
        assert re.search(
            r"another size, type, operation or root|has left|offers nothing", heard[n - 1]
        )
        assert acp.allreduce(1) == n
    hear_late()
