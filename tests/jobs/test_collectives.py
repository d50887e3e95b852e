"""Collectives of whole jobs: of all groups and between two, of what is long, interrupted, ended."""

import array
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import launch
import pytest

import acp_mpi as acp
from acp_mpi.engine import _engine
from acp_mpi.job.membership import DOING

MIB = 1 << 20


def words(rank: int, count: int) -> "array.array[int]":
    return array.array("q", [rank * 1000 + i for i in range(count)])


def together() -> None:
    """All groups as one, then every two of them; without NumPy."""
    acp.init()
    n, r = acp.procs(), acp.rank()
    every = range(n)
    for count in (1, 3000):
        out = words(0, count)
        acp.allreduce(words(r, count), out=out)
        assert out[count - 1] == sum(every) * 1000 + n * (count - 1)
        everyone = words(0, count * n)
        acp.iallgather(words(r, count), out=everyone).wait()
        assert everyone == sum((words(i, count) for i in every), array.array("q"))
        acp.bcast(words(r, count), n - 1, out=out if r < n - 1 else ())
        assert r == n - 1 or out == words(n - 1, count)
    assert acp.alltoall([(r, i) for i in every]) == [(i, r) for i in every]
    assert acp.gather(r, n - 1) == ([*every] if r == n - 1 else None)
    assert acp.scan(str(r)) == "".join(map(str, range(r + 1)))
    own = acp.group()
    assert acp.allreduce(r, "max", group=own) == max(own.ranks)
    for number, one in enumerate(acp.groups()):
        for other in acp.groups()[:number]:
            if own.name in (one.name, other.name):
                two_sides([one, other], other if own.name == one.name else one)
    acp.sync()
    import sys

    assert "numpy" not in sys.modules
    acp.finalize()


def two_sides(sides: list[Any], theirs: Any) -> None:
    """What one group gives the other gets, by each name that groups have."""
    r = acp.rank()
    ranks = list(theirs.ranks)
    for between in (sides, [each.name for each in sides], [each.ranks for each in sides]):
        assert acp.allgather((r, "x" * 5000), between=between) == [(i, "x" * 5000) for i in ranks]
        assert acp.allreduce(r + 1, between=between) == sum(i + 1 for i in ranks)
    out = words(0, 3000)
    acp.iallreduce(words(r, 3000), out=out, between=sides).wait()
    assert out == array.array("q", [sum(i * 1000 + k for i in ranks) for k in range(3000)])
    assert acp.alltoall([(r, i) for i in ranks], between=sides) == [(i, r) for i in ranks]
    root = sides[0].ranks[-1]
    got = acp.bcast("from it", root, between=sides)
    assert got == ("from it" if r == root or root in ranks else None)
    got = acp.gather(r, root, between=sides)
    assert got == (ranks if r == root else None)
    request: Any = acp.ibarrier(between=sides)
    request.wait()


@pytest.mark.parametrize("road", ["any", "link"])
@pytest.mark.parametrize("mixture", launch.MIXTURES)
def test_between_groups_of_each_kind(
    groups: Any, meeting: Any, all_pass: Any, mixture: str, road: str
) -> None:
    sizes = launch.MIXTURES[mixture]
    place = meeting({name: ranks for name, (_, ranks) in sizes.items()})
    all_pass(groups(sizes, together, env=place | launch.ROADS[road]))


def long_ones() -> None:
    """Of 64 MiB each, as arrays; a list of ranks and requests, too."""
    import numpy as np

    acp.init()
    n, r = acp.procs(), acp.rank()
    count = 64 * MIB // 8
    x = np.arange(count, dtype="f8") + r
    first = np.arange(count, dtype="f8")
    out = np.empty_like(x)
    acp.allreduce(x, out=out)
    assert np.array_equal(out, first * n + n * (n - 1) / 2)
    out[:] = 0
    acp.ireduce(x, "max", 1, out=out if r == 1 else ()).wait()
    assert r != 1 or np.array_equal(out, first + n - 1)
    acp.bcast(x, 1, out=() if r == 1 else out)
    assert r == 1 or np.array_equal(out, first + 1)
    acp.iscan(x, ranks=[*range(n)][::-1], out=out).wait()
    assert np.array_equal(out, sum(first + i for i in range(r, n)))
    part = count // n
    assert np.array_equal(
        acp.reduce_scatter(x[: part * n]),
        (first * n + n * (n - 1) / 2)[r * part : (r + 1) * part],
    )
    every = np.empty(n * count) if r == 0 else ()
    acp.gather(x, 0, out=every)
    if r == 0:
        assert all(np.array_equal(every[i * count : (i + 1) * count], first + i) for i in range(n))
    acp.scatter(every if r == 0 else None, 0, out=out)
    assert np.array_equal(out, x)
    whole = np.empty(part * n)
    acp.allgather(x[:part], out=whole)
    assert all(np.array_equal(whole[i * part : (i + 1) * part], first[:part] + i) for i in range(n))
    acp.alltoall(x[: part * n], out=whole)
    assert all(
        np.array_equal(whole[i * part : (i + 1) * part], first[r * part : (r + 1) * part] + i)
        for i in range(n)
    )
    assert acp.bcast(x.tobytes() if r == 0 else None, 0) == first.tobytes()
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_what_is_long_goes_by_each_road(passes: Any, road: str) -> None:
    passes([*launch.mpiexec(2), *launch.program(long_ones)], launch.ROADS[road], limit=120.0)


def beside_messages() -> None:
    """One rank waits for messages of those that have ended a collective past the bound."""
    acp.init()
    n, r = acp.procs(), acp.rank()
    out = words(0, 100_000)
    for turn in range(6 * n):
        acp.sync()
        request = acp.iallreduce(words(r, len(out)), out=out)
        late = turn % n
        if r == late:
            for other in set(range(n)) - {r}:
                assert acp.recv(source=other, tag=turn, timeout=600) == other
        request.wait()
        if r != late:
            acp.send(r, late, turn)
        assert out[-1] == sum(range(n)) * 1000 + n * (len(out) - 1)
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_past_the_bound_they_go_on_while_their_caller_waits_for_something_else(
    passes: Any, road: str
) -> None:
    env = launch.ROADS[road] | {"ACP_UNEXPECTED_MAX": "20000"}
    passes([*launch.mpiexec(3), *launch.program(beside_messages)], env)


def again_without_room() -> None:
    """A call as the one before, for which one rank has no room any more."""
    import numpy as np

    acp.init(heap_size=200 << 20)
    x = np.ones(acp.procs() * (5 << 20))
    out = np.empty(5 << 20)
    for _ in range(2):
        acp.reduce_scatter(x, out=out)
    blocks = []
    for size in (16 << 20, 1 << 20, 4096) if acp.rank() == 0 else ():
        with contextlib.suppress(acp.HeapFullError):
            while True:
                blocks.append(acp.malloc(size, 0))
    acp.sync()
    expected = (acp.HeapFullError, "empty") if blocks else (acp.Error, "rank 0 has left it")
    with pytest.raises(expected[0], match=expected[1]):
        acp.reduce_scatter(x, out=out)
    for block in blocks:
        acp.free(block)
    acp.reduce_scatter(x, out=out)
    assert (out == acp.procs()).all()
    acp.finalize()


def test_who_has_no_room_for_the_same_call_again_says_so_to_the_others(passes: Any) -> None:
    passes([*launch.mpiexec(3), *launch.program(again_without_room)])


class Interruption:
    """A Ctrl-C that comes while this process sleeps in a call, once."""

    def __init__(self) -> None:
        self._heard = False
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _press(self) -> None:
        """Press when this process waits in a collective, or has heard that another one has left.

        Before, it would not take part.
        """
        here = acp.rank()
        launch.until(
            lambda: self._heard or DOING[_engine.doing(here)] == "is in a collective", limit=20.0
        )
        launch.until(lambda: self._heard or launch.stat(os.getpid())[0] == "S")
        os.kill(os.getpid(), signal.SIGINT)

    def of(self, call: Callable[[], object]) -> None:
        """Have it in a call, or after this has heard of another rank that it has left."""
        self._heard = False
        threading.Thread(target=self._press).start()
        with pytest.raises(KeyboardInterrupt):
            self._wait_in(call)

    def _wait_in(self, call: Callable[[], object]) -> None:
        try:
            call()
        except acp.Error as error:
            assert "has left it" in str(error), error  # noqa: PT017
            self._heard = True
        threading.Event().wait(20.0)


def calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield blocking collectives that no rank can end before all others have called them."""
    for size in (1, 40_000):
        yield from calls_of(size)


def calls_of(size: int) -> Iterator[tuple[str, Callable[[], object]]]:
    import numpy as np

    n = acp.procs()
    x, parts = np.ones(size), np.ones(n * size)
    out, whole = np.empty(size), np.empty(n * size)
    yield "allreduce", lambda: acp.allreduce(x, out=out)
    yield "allgather", lambda: acp.allgather(x, out=whole)
    yield "alltoall", lambda: acp.alltoall(parts, out=whole)
    yield "reduce_scatter", lambda: acp.reduce_scatter(parts)
    yield "a function", lambda: acp.allreduce(x, lambda a, b: a + b)
    yield "objects", lambda: acp.allreduce("x" * size)


def interrupted() -> None:
    """One rank after the other is interrupted while it waits; who needs it hears of it.

    What it has sent already may be all that the others need.
    """
    acp.init()
    n, r = acp.procs(), acp.rank()
    ctrl_c = Interruption()
    heard = 0
    for victim in range(n):
        late = (victim + 1) % n
        for what, call in calls():
            if r == victim:
                ctrl_c.of(call)
                acp.send(what, late, 5)
            else:
                if r == late:
                    assert acp.recv(source=victim, tag=5) == what
                try:
                    call()
                except acp.Error as error:
                    assert f"rank {victim} has left" in str(error), (what, error)  # noqa: PT017
                    heard += 1
            acp.sync()
            assert acp.allreduce(1) == n
    assert acp.allreduce(heard) >= 2 * n
    acp.finalize()


def all_interrupted() -> None:
    """A Ctrl-C of the terminal: all ranks that wait for the last one have it at the same time."""
    acp.init()
    n, r = acp.procs(), acp.rank()
    ctrl_c = Interruption()
    for what, call in calls():
        if r < n - 1:
            ctrl_c.of(call)
            acp.send(what, n - 1, 5)
        else:
            for other in range(n - 1):
                assert acp.recv(source=other, tag=5) == what
            try:
                call()
            except acp.Error as error:
                assert "has left" in str(error), (what, error)  # noqa: PT017
        acp.sync()
        assert acp.allreduce(1) == n
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_ctrl_c_on_one_rank_is_heard_of_and_the_job_goes_on(without_mpi: Any, road: str) -> None:
    jobs = without_mpi(3, launch.program(interrupted), launch.ROADS[road])
    statuses = [job.wait() for job in jobs]
    assert statuses == [0, 0, 0], "\n".join(job.output for job in jobs)


@pytest.mark.parametrize("road", ["any", "link"])
def test_ctrl_c_on_all_ranks_at_once(without_mpi: Any, road: str) -> None:
    jobs = without_mpi(3, launch.program(all_interrupted), launch.ROADS[road])
    statuses = [job.wait() for job in jobs]
    assert statuses == [0, 0, 0], "\n".join(job.output for job in jobs)


def begun() -> list[Any]:
    """Return requests that the last rank does not call, so that nobody can end them."""
    import numpy as np

    n = acp.procs()
    if acp.rank() == n - 1:
        return []
    x = np.ones(50_000)
    return [
        acp.iallreduce(x),
        acp.iallreduce(x, lambda a, b: a + b),
        acp.iallgather("x" * 10_000),
        acp.ialltoall(np.ones(n), out=np.empty(n)),
        acp.ibarrier(),
        acp.ireduce_scatter(np.ones(n * 3000)),
    ]


def ended_all(requests: list[Any], why: str) -> None:
    """All of them are done, and say what ended them."""
    for request in requests:
        assert request.done
        try:
            request.wait(5.0)
        except acp.Error as error:
            assert not isinstance(error, acp.PeerLostError), error  # noqa: PT017
            assert why in str(error), error  # noqa: PT017
        else:
            raise AssertionError(f"{request} has a result without the last rank")


def reset_beside() -> None:
    acp.init()
    n = acp.procs()
    for _ in range(3):
        requests = begun()
        acp.reset((acp.rank() + 1) % n)
        ended_all(requests, "reset came before it was done")
        assert acp.allreduce(1) == n
        assert acp.iallgather(acp.rank()).wait() == [*range(n)]
    begun()  # nobody asks for these
    acp.reset(acp.rank())
    acp.finalize()


def finalize_beside() -> None:
    for _ in range(2):
        acp.init()
        assert acp.allreduce(1) == acp.procs()
        requests = begun()
        acp.finalize()
        ended_all(requests, "finalize")


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("function", [reset_beside, finalize_beside])
def test_reset_and_finalize_end_what_is_under_way(passes: Any, road: str, function: Any) -> None:
    passes([*launch.mpiexec(3), *launch.program(function)], launch.ROADS[road])


def finalize_after_a_mismatch() -> None:
    """The root gives, and is through before the others find that its type is another one."""
    acp.init()
    r = acp.rank()
    given = array.array("d" if r == 0 else "q", range(3))
    errors: list[str] = []
    for call in (lambda: acp.bcast(given, out=given), acp.finalize):
        try:
            call()
        except TypeError as error:
            errors.append(str(error))
    assert len(errors) == 1, errors
    assert "in bcast rank" in errors[0]
    assert not acp.is_initialized()


@pytest.mark.parametrize("road", ["any", "link"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_finalize_raises_for_a_call_that_was_over_here(passes: Any, ranks: int, road: str) -> None:
    passes([*launch.mpiexec(ranks), *launch.program(finalize_after_a_mismatch)], launch.ROADS[road])
