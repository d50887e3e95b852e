"""Collectives of a delegate: ranks bring together what they have, and go on meanwhile."""

import functools
import operator
import os
import pickle
import re

import launch
import pytest
from growing import PATIENCE, half_and

import acp_mpi as acp

KINDS = ("f8", "f4", "i8", "i2", "u1", "c16", "?")
LENGTHS = (0, 1, 5, 9, 1000, 70_000)  # bytes in the command, or an address; several pieces
OPERATIONS = ("sum", "prod", "min", "max", "and", "or", "xor", "land", "lor", "lxor")


def given(rank, length, kind):
    import numpy as np

    drawn = np.random.default_rng(rank).integers(-9, 10, length)
    return drawn.astype(kind) / 7 if kind[0] in "fc" else drawn.astype(kind)


def folded(op, arrays):
    import numpy as np

    names = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}
    names |= {"land": "logical_and", "lor": "logical_or", "lxor": "logical_xor"}
    combine = getattr(np, names.get(op) or f"bitwise_{op}")
    return functools.reduce(lambda a, b: combine(a, b).astype(a.dtype), arrays)


def same(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def compare(local):
    """All of a delegate are what the ranks have by folding in their order."""
    import numpy as np

    acp.init()
    d = acp.delegate(local=local == "True", timeout=PATIENCE)
    here, ranks = acp.rank(), acp.ranks()
    root = ranks[-1]
    for kind in KINDS:
        for length in LENGTHS:
            arrays = [given(rank, length, kind) for rank in ranks]
            mine = given(here, length, kind)
            global_one = acp.empty(length, kind)
            global_one[...] = mine
            unfit = {"f": OPERATIONS[4:7], "c": OPERATIONS[2:7]}.get(kind[0], ())
            for op in OPERATIONS if length < 1000 else ("sum", "min"):
                if op in unfit:
                    continue
                expected = folded(op, arrays)
                same(d.allreduce(mine, op).wait(PATIENCE), expected)
                out = np.zeros_like(mine)
                assert d.allreduce(global_one, op, out=out).wait(PATIENCE) is out
                same(out, expected)
                out = acp.empty(length, kind)
                d.allreduce(mine, op, out=out).wait(PATIENCE)
                same(out, expected)
                result = d.reduce(mine, op, root).wait(PATIENCE)
                assert (result is None) == (here != root)
                if here == root:
                    same(result, expected)
            for array in (mine.copy(), global_one):  # in place
                d.reduce(array, root=root, out=array if here == root else ()).wait(PATIENCE)
                if here == root:
                    same(array, folded("sum", arrays))
            rows = d.gather(mine, root).wait(PATIENCE)
            if here == root:
                same(rows, np.array(arrays))
            d.bcast(global_one, root).wait(PATIENCE)
            same(np.asarray(global_one), folded("sum", arrays))
            assert d.bcast(mine).wait(PATIENCE) is mine
            same(mine, arrays[0])
    rows = np.arange(40.0).reshape(5, 8) + here
    for array in (rows.T, rows[:2, :3].T):
        same(d.allreduce(array).wait(PATIENCE), sum(array - here + rank for rank in ranks))
    same(d.allreduce(2.5).wait(PATIENCE), np.array(2.5 * len(ranks)))
    whole = np.arange(100.0) + here
    d.allreduce(whole[:-1], out=whole[1:]).wait(PATIENCE)  # they overlap
    same(whole[1:], sum(np.arange(99.0) + rank for rank in ranks))
    same(d.allreduce(mine, np.fmax).wait(PATIENCE), mine)
    order = d.allreduce(np.full(20, here + 1.0), half_and).wait(PATIENCE)
    assert order[0] == functools.reduce(half_and, [rank + 1.0 for rank in ranks])
    key = acp.register_memory(bytearray(b"%d" % here * 100))
    remote = acp.RemoteArray(acp.query_ga(key), 100, "u1")
    total = np.zeros(100, "u1")
    d.allreduce(remote, out=total).wait(PATIENCE)
    assert (total == sum(48 + rank for rank in ranks)).all()
    d.bcast(key, root).wait(PATIENCE)
    assert acp.get(acp.query_ga(key), bytearray(100)) == b"%d" % root * 100
    acp.sync()
    acp.finalize()


@pytest.mark.parametrize(("n", "road"), [(1, "any"), (2, "link"), (3, "any"), (4, "any")])
def test_results_are_those_of_the_ranks_in_their_order(passes, n, road):
    passes([*launch.mpiexec(n), *launch.program(compare, n == 1)], launch.ROADS[road])


def come_in_any_order():
    """Calls of one group of ranks meet in their order; those of several do not wait for others."""
    import numpy as np

    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    here, ranks = acp.rank(), acp.ranks()
    lower, upper = ranks[:2], ranks[1:]
    mine = [group for group in (lower, upper, ranks) if here in group]
    requests = {tuple(group): [] for group in mine}
    for group in mine if here % 2 else reversed(mine):
        how = {} if group == ranks else {"ranks": group}  # without, it is planned
        for k in range(500):  # so a thousand are under way
            length = (1, 100)[k % 3 == 2]
            requests[tuple(group)].append(d.allreduce(np.full(length, k + here), **how))
    acp.waitall([one for some in requests.values() for one in some], timeout=PATIENCE)
    for group, some in requests.items():
        for k, request in enumerate(some):
            assert (request.wait(PATIENCE) == sum(k + rank for rank in group)).all()
    array = np.full(100, 1.0)
    last = d.allreduce(array, out=array)
    last = d.allreduce(array, out=array, after=last)
    d.allreduce(array, out=array, after=last).wait(PATIENCE)
    assert (array == len(ranks) ** 3).all()
    came = d.barrier()
    if here == 0:
        acp.sync()
        came.wait(PATIENCE)
    else:
        came.wait(PATIENCE)
        acp.sync()
    assert d.statistics().pending == 0
    acp.sync()
    acp.finalize()


def test_many_are_under_way_at_once(passes):
    passes([*launch.mpiexec(3), *launch.program(come_in_any_order)])


def disagree():
    import numpy as np

    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    here = acp.rank()
    one, two = np.ones(1), np.ones(2)
    for calls, kind, words in (
        ((lambda: d.allreduce(one), lambda: d.allreduce(two)), acp.Error, ("8 bytes", "16 bytes")),
        ((lambda: d.allreduce(one), lambda: d.allreduce(one, "max")), acp.Error, ("sum", "max")),
        (
            (lambda: d.allreduce(one), lambda: d.allreduce(np.ones(1, int))),
            TypeError,
            ("float64", "int64"),
        ),
        ((lambda: d.bcast(one, 0), lambda: d.bcast(one, 1)), acp.Error, ("root 0", "root 1")),
        ((lambda: d.gather(one), d.barrier), acp.Error, ("gather", "barrier", "meanwhile")),
    ):
        with pytest.raises(kind) as caught:
            calls[here]().wait(PATIENCE)
        for word in (*words, "rank 0", "rank 1"):
            assert word in str(caught.value)
        acp.sync()
    if here == 0:
        with pytest.raises(TypeError, match="no and of float64"):
            d.allreduce(one, "and")
        with pytest.raises(ValueError, match="out has 16 bytes where 8 are needed"):
            d.allreduce(one, out=two)
        with pytest.raises(ValueError, match="no operation 'mean'"):
            d.allreduce(one, "mean")
        with pytest.raises((AttributeError, pickle.PicklingError), match="pickle"):
            d.allreduce(one, lambda a, b: a)
        fixed, memory = np.ones(1), acp.register_memory(bytearray(8))
        fixed.flags.writeable = False
        with pytest.raises(ValueError, match="the destination is read-only"):
            d.allreduce(one, out=fixed)
        with pytest.raises(TypeError, match="elements of type float64 and out of int64"):
            d.allreduce(one, out=np.ones(1, int))
        with pytest.raises(TypeError, match="sum of bytes; give an array"):
            d.allreduce(memory)
        with pytest.raises(TypeError, match="the result of bytes needs a place"):
            d.gather(memory)
    else:
        for _ in range(7):
            with pytest.raises(acp.Error, match="allreduce: rank 0 has left it"):
                d.allreduce(one).wait(PATIENCE)
        with pytest.raises(acp.Error, match="gather: rank 0 has left it"):
            d.gather(one).wait(PATIENCE)
    for length in (1, 20):
        with pytest.raises(IndexError):  # of the operation
            d.allreduce(np.ones(length), operator.getitem).wait(PATIENCE)
    with pytest.raises(acp.RankError, match="not among"):
        d.allreduce(one, ranks=[1 - here])
    assert d.allreduce(one).wait(PATIENCE) == 2.0  # it is well
    local = acp.delegate(local=True)
    with pytest.raises(ValueError, match=r"call acp\.allreduce"):
        local.allreduce(one)
    assert local.allreduce(one, ranks=[here]).wait(PATIENCE) == 1.0
    acp.finalize()


def test_all_learn_that_calls_do_not_belong_together(passes):
    passes([*launch.mpiexec(2), *launch.program(disagree)])


def wait_for_one(folder):
    import numpy as np

    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    here, last = acp.rank(), acp.ranks()[-1]
    if here != last:
        for length in (1, 1000):
            request = d.allreduce(np.zeros(length))
            launch.until(lambda request=request: f"for rank {last} has not come" in late(request))
    if here == 0 and not os.environ.get("NODE_FOR_EACH_RANK"):
        request = d.checkpoint(folder, {"x": np.zeros(3)}, 1)
        launch.until(lambda: re.search(r"for ranks \[.*\] have not come", late(request)))
    acp.sync()
    for length in (1, 1000) if here == last else ():
        d.allreduce(np.zeros(length)).wait(PATIENCE)
    if here and not os.environ.get("NODE_FOR_EACH_RANK"):
        d.checkpoint(folder, {"x": np.zeros(3)}, 1).wait(PATIENCE)
    d.close()
    acp.finalize()


def late(request):
    with pytest.raises(TimeoutError) as caught:
        request.wait(0.5)
    return str(caught.value)


@pytest.mark.parametrize("road", ["any", "nodes"])
def test_a_wait_says_who_has_not_come(passes, folder, road):
    passes([*launch.mpiexec(3), *launch.program(wait_for_one, folder)], launch.ROADS[road])


# Ranks of several nodes --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3])
def test_ranks_of_several_nodes_get_the_same(passes, n):
    passes([*launch.mpiexec(n), *launch.program(compare, False)], launch.ROADS["nodes"])


def test_many_of_several_nodes_are_under_way_at_once(passes):
    passes([*launch.mpiexec(3), *launch.program(come_in_any_order)], launch.ROADS["nodes"])


def test_all_of_several_nodes_learn_that_calls_do_not_belong_together(passes):
    passes([*launch.mpiexec(2), *launch.program(disagree)], launch.ROADS["nodes"])


def come_before_the_first(folder):
    acp.init()
    here = acp.rank()
    if here:
        d = acp.delegate(timeout=PATIENCE)
        requests = [d.allreduce(float(here)) for _ in range(5)]
        launch.until(lambda: "node of rank 0 has no delegate yet" in late(requests[0]))
        acp.sync()
    else:
        acp.sync()
        d = acp.delegate(timeout=PATIENCE)
        requests = [d.allreduce(0.0) for _ in range(5)]
    acp.waitall(requests, timeout=PATIENCE)
    assert all(request.wait() == 3.0 for request in requests)
    acp.sync()
    acp.finalize()


def test_calls_wait_for_the_delegate_of_the_first_node(passes, folder):
    program = launch.program(come_before_the_first, folder)
    passes([*launch.mpiexec(3), *program], launch.ROADS["nodes"])
