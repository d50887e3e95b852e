"""Calls that do not belong together are an error on every member, which names calls and ranks."""

import contextlib
import re
from typing import Any

import numpy as np
import pytest
from support import hear_late

import acp_mpi as acp

pytestmark = pytest.mark.mpi

CALLS: dict[str, Any] = {
    "bcast": lambda **how: acp.bcast(("x", acp.rank()), **how),
    "allgather": lambda **how: acp.allgather(("x", acp.rank()), **how),
    "allreduce": lambda **how: acp.allreduce((acp.rank(),), **how),
}


def all_fail(call: Any, *texts: str, error: type[Exception] = acp.Error) -> None:
    """Expect an error of every rank with one of these texts, and that the next call goes well."""
    if acp.procs() == 1:
        call()
        return
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert any(re.search(each, text) for each in texts), text
    assert "; " in text
    acp.sync()
    assert acp.allgather(acp.rank()) == list(range(acp.procs()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bcast", "allgather"),
        ("allgather", "bcast"),
        ("bcast", "allreduce"),
        ("allreduce", "allgather"),
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_another_call_with_small_objects(one: str, other: str, last: bool) -> None:
    guilty = acp.procs() - 1 if last else 0
    mine = other if acp.rank() == guilty else one
    all_fail(
        CALLS[mine],
        rf"^{mine}: rank {guilty} is in {other}, and rank \d in {one} meanwhile; ",
        rf"^{mine}: rank \d is in {one}, and rank {guilty} in {other} meanwhile; ",
    )


@pytest.mark.parametrize("name", CALLS)
def test_a_timeout_on_one_rank_changes_nothing(name: str) -> None:
    without = CALLS[name]()
    how = {"timeout": 60} if acp.rank() == 0 else {}
    assert CALLS[name](**how) == without
    assert CALLS[name](ranks=list(range(acp.procs())), **how) == without


def test_a_timeout_on_one_rank_changes_nothing_for_buffers() -> None:
    out, parts = np.full(3, acp.rank()), np.zeros((acp.procs(), 3), int)
    for i in range(3):
        how = {"timeout": 60} if acp.rank() == i % acp.procs() else {}
        acp.bcast(out, out=out, **how)
        assert not out.any()
        acp.allgather(out + acp.rank(), out=parts, **how)
        assert (parts[:, 0] == range(acp.procs())).all()


def test_the_root_s_call_is_over_when_all_have_come() -> None:
    """Else it could not know that another rank calls something else."""
    if acp.procs() > 1:
        if acp.rank() == 0:
            with pytest.raises(TimeoutError):
                acp.bcast("x", timeout=0.05)
        acp.sync()
        if acp.rank() != 0:
            with contextlib.suppress(acp.Error):  # they may have what they need
                acp.bcast("x")
    assert acp.bcast("y") == "y"


@pytest.mark.parametrize("last", [False, True])
def test_objects_on_one_rank_and_buffers_on_another(last: bool) -> None:
    guilty = acp.procs() - 1 if last else 0
    x, out = np.zeros(2), np.zeros((acp.procs(), 2))
    with_out = {"out": out} if acp.rank() == guilty else {}
    all_fail(lambda: acp.allgather(x, **with_out), "is in allgather of (buffers|objects), and rank")


def different_types(own: Any) -> dict[str, Any]:
    n = acp.procs()
    x = np.zeros(2 * n, own)
    return {
        "allgather": lambda: acp.allgather(x[:2], out=np.zeros(2 * n, own)),
        "iallgather": lambda: acp.iallgather(x[:2], out=np.zeros(2 * n, own)).wait(),
        "alltoall": lambda: acp.alltoall(x, out=np.zeros(2 * n, own)),
        "allreduce": lambda: acp.allreduce(x, out=np.zeros(2 * n, own)),
        "reduce_scatter": lambda: acp.reduce_scatter(x, out=np.zeros(2, own)),
    }


@pytest.mark.parametrize(
    "name", ["allgather", "iallgather", "alltoall", "allreduce", "reduce_scatter"]
)
@pytest.mark.parametrize("types", [("i8", "f8"), ("f8", ">f8"), ("f8", "M8[s]"), ("f8", "f4,i4")],
                         ids=str)  # fmt: skip
def test_elements_of_another_type_on_one_rank(name: str, types: tuple[str, str]) -> None:
    if acp.procs() == 1 or (name in ("allreduce", "reduce_scatter") and types[1] != ">f8"):
        return
    own = types[acp.rank() == acp.procs() - 1]
    call = different_types(own)[name]
    all_fail(call, rf"^{name}: in .* gives elements of ", error=TypeError)


def test_those_that_find_it_name_both_types() -> None:
    n, r = acp.procs(), acp.rank()
    if n != 2:
        return
    own = ("f8", ">i8")[r]
    with pytest.raises(TypeError) as caught:
        acp.allgather(np.zeros(2, own), out=np.zeros(4, own))
    assert isinstance(caught.value, acp.Error)
    mine, theirs = ("float64", "int64 of the other byte order")[:: 1 - 2 * r]
    found = f"rank {1 - r} gives elements of type {theirs} and rank {r} of type {mine}; "
    told = f"rank {r} gives elements of one type and rank {1 - r} of another; "
    assert found in str(caught.value) or told in str(caught.value)
    assert any(acp.allgather(found in str(caught.value)))


def test_a_receiver_of_another_type_is_told() -> None:
    if acp.procs() == 1:
        return
    out = np.zeros(3, "f4" if acp.rank() == 1 else "i4")
    x = np.arange(3, dtype="i4") if acp.rank() == 0 else None
    if acp.rank() == 1:
        with pytest.raises(TypeError, match="type int32 and rank 1 of type float32"):
            acp.bcast(x, out=out)
    else:
        with contextlib.suppress(acp.Error):  # who needs nothing of rank 1 hears of it in sync
            acp.bcast(x, out=out)
    hear_late()


@pytest.mark.parametrize("count", [2, 40, 3000])
@pytest.mark.parametrize("name", ["bcast", "scatter", "gather", "reduce"])
def test_what_comes_with_another_type_is_not_written(name: str, count: int) -> None:
    """One rank takes, or is one of those that do, with a type of its own."""
    n, r = acp.procs(), acp.rank()
    if n == 1:
        return
    x, mine, rows = np.zeros(count), np.full(count, 7), np.zeros((n, count))
    taken = np.full((n, count), 7) if name == "gather" else mine
    calls: dict[str, Any] = {  # of the one that finds it, and of the others
        "bcast": (lambda: acp.bcast(None, out=mine), lambda: acp.bcast(x, out=x)),
        "scatter": (lambda: acp.scatter(None, out=mine), lambda: acp.scatter(rows, out=x)),
        "gather": (lambda: acp.gather(mine, out=taken), lambda: acp.gather(x, out=())),
        "reduce": (lambda: acp.reduce(mine, out=mine), lambda: acp.reduce(x, out=())),
    }
    finds, other = calls[name]
    if r == (n - 1 if name in ("bcast", "scatter") else 0):
        with pytest.raises(TypeError, match=f"in {name} rank .* elements of "):
            finds()
        assert (taken == 7).all()
    else:
        with contextlib.suppress(acp.Error):  # who needs nothing of that rank hears of it in sync
            other()
    hear_late()
    assert acp.allgather(r) == list(range(n))


@pytest.mark.parametrize("wild", [np.uint8, bytearray])
def test_bytes_go_with_any_type(wild: Any) -> None:
    n, r = acp.procs(), acp.rank()
    own = r % 2 == 1
    out: Any = (
        np.zeros(n * 2)
        if not own
        else wild(16 * n)
        if wild is bytearray
        else np.zeros(16 * n, wild)
    )
    x: Any = np.full(2, float(r))
    if own:
        x = bytes(x) if wild is bytearray else x.view(np.uint8)
    acp.allgather(x, out=out)
    assert (np.frombuffer(out, "f8").reshape(n, 2)[:, 0] == range(n)).all()
    acp.bcast(x, out=out[:16] if not isinstance(out, np.ndarray) or own else out[:2])


@pytest.mark.parametrize(
    ("one", "same"), [("q", "l"), ("f8", "=f8"), ("f4,i4", "f4,i4"), ("?", "b1")]
)
def test_equal_types_by_other_names_are_one(one: str, same: str) -> None:
    own = np.dtype(same if acp.rank() else one)
    acp.allgather(np.zeros(1, own), out=np.zeros(acp.procs(), own))
