"""Collectives that move long device memory: a few parts at a time are in host memory."""

from itertools import accumulate

import far
import numpy as np
import pytest
from far import array_of

import acp_mpi as acp
from acp_mpi.comm.collectives import units
from acp_mpi.rma import device_rooms

pytestmark = pytest.mark.mpi

WINDOW = 8000  # bytes
COUNT = 5003  # elements of a piece: many parts of odd lengths


@pytest.fixture(autouse=True)
def moved(monkeypatch):
    """Bytes of each copy between a device and its place in host memory."""
    far.short_windows(monkeypatch, WINDOW)
    yield far.count_moved(monkeypatch)
    acp.sync()


@pytest.fixture(params=["all", "direct", "even", "odd", "x", "out", "none"])
def place(request, monkeypatch):
    """Return a function that puts values where `x`, or `out`, of this rank is to be."""
    there = {
        "all": (True, True),
        "direct": (True, True),
        "even": (acp.rank() % 2 == 0,) * 2,
        "odd": (acp.rank() % 2 == 1,) * 2,
        "x": (True, False),
        "out": (False, True),
        "none": (False, False),
    }[request.param]

    if request.param == "direct":
        monkeypatch.setattr(units, "_DIRECT", 1)

    def put(values, is_out=False):
        return array_of(values) if there[is_out] else np.array(values)

    return put


def values_of(array):
    return array.get() if isinstance(array, acp.DeviceArray) else array


def check(call, x, out, result, moved, started):
    """Carry out a call, or its request; the result is in `out`, and nothing went as a whole."""
    before = None if x is None else values_of(x).copy()
    moved.clear()
    done = getattr(acp, f"i{call.__name__}" if started else call.__name__)
    return_value = call_with(done, call, x, out)
    if started:
        return_value = return_value.wait()
    assert return_value is out
    if not isinstance(out, tuple):
        assert (values_of(out) == result).all()
    if x is not None:
        assert (values_of(x) == before).all()
    there = [each for each in (x, out) if isinstance(each, acp.DeviceArray)]
    both = sum(each.nbytes for each in there)
    assert sum(moved) == both or (both // 2 <= sum(moved) < both and units._DIRECT == 1)
    assert units._DIRECT == 1 or not moved or max(moved) < 2 * WINDOW + 64 * 100


def call_with(done, call, x, out):
    return done(x, **call.keywords, out=out)


class Call:
    def __init__(self, name, **keywords):
        self.__name__, self.keywords = name, keywords


def piece(giver, taker, count=COUNT):
    return np.arange(count) * 3 + 1000 * giver + 77 * taker


def lengths(giver):
    """How many elements a rank gives to each: of several parts, of one, and none."""
    return [(COUNT, 0, 3, 2 * COUNT + 1)[(giver + 2 * taker) % 4] for taker in range(acp.procs())]


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_all_to_all(place, moved, counted, started):
    n, me = acp.procs(), acp.rank()
    gives = lengths(me) if counted else [COUNT] * n
    takes = [lengths(r)[me] for r in range(n)] if counted else [COUNT] * n
    x = place(np.concatenate([piece(me, i, c) for i, c in enumerate(gives)]))
    out = place(np.full(sum(takes), -1), True)
    expected = np.concatenate([piece(i, me, c) for i, c in enumerate(takes)])
    how = {"counts": gives, "out_counts": takes} if counted else {}
    check(Call("alltoall", **how), x, out, expected, moved, started)


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_gathers_and_scatters(place, moved, counted, started):
    n, me, root = acp.procs(), acp.rank(), acp.procs() - 1
    counts = lengths(1) if counted else [COUNT] * n
    pieces = [piece(r, 0, c) for r, c in enumerate(counts)]
    whole, mine = np.concatenate(pieces), pieces[me]
    how = {"counts": counts} if counted else {}
    check(
        Call("allgather", **how),
        place(mine),
        place(np.full(len(whole), -1), True),
        whole,
        moved,
        started,
    )
    out = place(np.full(len(whole), -1), True) if me == root else ()
    check(Call("gather", root=root, **how), place(mine), out, whole, moved, started)
    x = place(whole) if me == root else None
    out = place(np.full(len(mine), -1), True)
    check(Call("scatter", root=root, **how), x, out, mine, moved, started)


@pytest.mark.parametrize("op", ["sum", np.add, lambda a, b: a + b])
@pytest.mark.parametrize("counted", [False, True])
def test_a_fold_of_which_each_gets_a_part(place, moved, counted, op):
    n, me = acp.procs(), acp.rank()
    counts = lengths(0) if counted else [COUNT] * n
    total = sum(piece(r, 0, sum(counts)) for r in range(n))
    at = [0, *accumulate(counts)]
    how = {"counts": counts} if counted else {}
    call = Call("reduce_scatter", op=op, commutative=True, **how)
    out = place(np.full(counts[me], -1), True)
    check(call, place(piece(me, 0, sum(counts))), out, total[at[me] : at[me + 1]], moved, False)


@pytest.mark.parametrize("started", [False, True])
def test_a_broadcast_from_one_array_into_others(place, moved, started):
    for root in {0, acp.procs() - 1}:
        x = place(piece(root, 0)) if acp.rank() == root else None
        out = place(np.full(COUNT, -1), True)
        check(Call("bcast", root=root), x, out, piece(root, 0), moved, started)


def test_x_that_lies_over_out_is_taken_as_it_was():
    n, me = acp.procs(), acp.rank()
    array = array_of(np.concatenate([piece(me, i) for i in range(n)]))
    assert acp.alltoall(array, out=array) is array
    assert (array.get() == np.concatenate([piece(i, me) for i in range(n)])).all()


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_other_lengths_at_the_other_end_are_an_error_on_both(parts):
    """Also where what is there are all parts of the one, or of the other."""
    if acp.procs() == 1:
        pytest.skip("nobody else gives")
    if acp.rank() < 2:
        most = WINDOW // 2
        counts = [0, 0]
        counts[1 - acp.rank()] = 4 * most
        taken = [size * parts // 4 if acp.rank() == 0 else size for size in counts]
        x, out = array_of(np.zeros(sum(counts), "u1")), array_of(np.zeros(sum(taken), "u1"))

        def call():
            acp.alltoall(x, out=out, counts=counts, out_counts=taken, ranks=[0, 1])

        if parts == 4:
            call()
        else:
            with pytest.raises(acp.Error):
                call()
    acp.sync()


def test_requests_start_behind_the_stream_and_go_on_by_themselves():
    tensor, out = far.Tensor(np.zeros(COUNT, int)), np.zeros(acp.procs() * COUNT, int)
    far.library().far_fill(0, 0, tensor.address, 1, 8 * COUNT, 3_000_000)
    request = acp.iallgather(tensor, out=out)
    other = acp.iallreduce(array_of(piece(0, 0)), out=np.zeros(COUNT, int))
    requests = [request, other]
    while requests:
        requests.pop(acp.waitany(requests)[0])
    assert (out == 0x0101010101010101).all()
    assert request.done
    tensor.free()


def test_a_request_of_a_device_that_fails_raises_on_all(monkeypatch):
    if acp.procs() == 1:
        pytest.skip("nobody else waits")
    n = acp.procs()
    x, out = array_of(np.arange(COUNT * n)), array_of(np.zeros(COUNT * n, int))
    start, begun = units._engine.device_start, []

    def fail(*given):
        begun.append(given)
        if len(begun) > 4:
            raise acp.DeviceError("a device that fails")
        return start(*given)

    with monkeypatch.context() as patch:
        if acp.rank() == 0:
            patch.setattr(units._engine, "device_start", fail)
        with pytest.raises(acp.DeviceError if acp.rank() == 0 else acp.Error):
            acp.ialltoall(x, out=out).wait()
    acp.sync()
    assert acp.ialltoall(x, out=out).wait() is out


def test_its_host_memory_is_a_few_parts(monkeypatch):
    taken, sizes = device_rooms.take_any, []

    def take(function, size):
        sizes.append(size)
        return taken(function, size)

    monkeypatch.setattr(device_rooms, "take_any", take)
    n = acp.procs()
    x, out = array_of(np.zeros(100 * COUNT * n, "u1")), array_of(np.zeros(100 * COUNT * n, "u1"))
    acp.alltoall(x, out=out)
    assert len(sizes) == 2
    assert max(sizes) < 2 * (max(WINDOW, n * WINDOW // 4) + n * 64 * 300)
