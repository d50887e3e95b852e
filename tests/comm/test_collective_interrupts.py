"""Ctrl-C ends a collective on one rank: the others go on or hear of it, and the next goes well."""

import contextlib
from collections.abc import Iterator
from typing import Any

import alarm
import pytest

import acp_mpi as acp
from acp_mpi.comm.collectives import moves

pytestmark = pytest.mark.mpi

LONG = "x" * 1000


class InterruptedHere(BaseException):
    pass


@contextlib.contextmanager
def interrupted_soon() -> Iterator[None]:
    """Have a signal handler raise what is not caught on its way."""

    def handler() -> None:
        raise InterruptedHere

    with alarm.in_wait(handler), pytest.raises(InterruptedHere):
        yield


@pytest.mark.parametrize("call", [acp.bcast, acp.allgather])
def test_an_interrupted_call_with_a_small_object_is_one_call(call: Any) -> None:
    n, r = acp.procs(), acp.rank()
    if n < 2:
        return
    expected = "second" if call is acp.bcast else ["second"] * n
    for guilty in (0, n - 1):
        acp.sync()
        if r == guilty:
            with interrupted_soon():
                call("first")
        acp.sync()  # the others come when it has left
        if r != guilty:
            with contextlib.suppress(acp.Error):  # they may have all that they need
                call("first")
        assert call("second") == expected


def test_an_object_that_is_not_pickled_in_time_is_told_of() -> None:
    class Slow:
        def __reduce__(self) -> Any:
            raise InterruptedHere

    n, r = acp.procs(), acp.rank()
    if r == 0:
        with pytest.raises(InterruptedHere):
            acp.bcast(Slow())
    else:
        with pytest.raises(acp.Error, match="rank 0 has left"):
            acp.bcast(None)
    assert acp.bcast(r) == 0
    assert acp.allgather(r) == [*range(n)]


@pytest.mark.parametrize("name", ["bcast", "gather", "scatter", "allgather", "alltoall"])
def test_all_hear_of_an_interrupt_between_the_two_parts_of_objects(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, r = acp.procs(), acp.rank()
    if n < 2:
        return
    root = name in ("bcast", "scatter")
    guilty = 0 if root else n - 1
    x: Any = [LONG] * n if name in ("scatter", "alltoall") else LONG
    plans = moves.plan_of
    asked = iter(range(2))

    def second_time(*given: Any, **named: Any) -> Any:
        if next(asked):
            raise InterruptedHere
        return plans(*given, **named)

    if r == guilty:
        monkeypatch.setattr(moves, "plan_of", second_time)
        with pytest.raises(InterruptedHere):
            getattr(acp, name)(x, ranks=range(n))
        monkeypatch.undo()
    elif name != "gather" or r == 0:  # the others only give
        with pytest.raises(acp.Error, match=f"rank {guilty} has left"):
            getattr(acp, name)(x, ranks=range(n))
    else:
        acp.gather(x, ranks=range(n))
    assert acp.allreduce(1) == n


def test_all_hear_of_an_interrupt_that_comes_when_a_part_is_over() -> None:
    """Where Python looks for signals: as the first part returns."""
    from acp_mpi.comm.collectives import counted, kinds

    n, r = acp.procs(), acp.rank()
    if n < 2:
        return

    def run(current: Any) -> None:
        current.run()
        if r == n - 1:
            raise InterruptedHere

    flow = kinds.rooted("gather", "gather", LONG, 0, None, None, (None, None, None))
    if r == n - 1:
        with pytest.raises(InterruptedHere):
            counted.carried_out(flow, run)
    elif r == 0:
        with pytest.raises(acp.Error, match=f"rank {n - 1} has left"):
            counted.carried_out(flow, run)
    else:
        counted.carried_out(flow, run)
    assert acp.allreduce(1) == n
