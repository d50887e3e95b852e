"""Collectives against mpi4py's on the same data: every function, dtype, size and list of ranks."""

import operator
from typing import Any

import numpy as np
import pytest
from filled import data, everyone
from support import case, refused

import acp_mpi as acp

pytestmark = pytest.mark.mpi

# One element, none, a few, above every bound of choice.py.
COUNTS = [1, 0, 3, 700, 9000, 140_000]
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "g", "c8", "c16"]


NAMES = ["SUM", "PROD", "MIN", "MAX", "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR"]


@pytest.mark.parametrize("name", NAMES)
def test_operations_of_mpi_are_what_they_are_there(world: Any, name: str) -> None:
    from mpi4py import MPI

    for dtype in "i4", "u2":
        x = data(500, dtype) % 5
        theirs = np.empty_like(x)
        world.Allreduce(x, theirs, getattr(MPI, name))
        assert np.array_equal(acp.allreduce(x, getattr(MPI, name)), theirs)
    if name[0] != "B":
        found = acp.allreduce(acp.rank() + 2, getattr(MPI, name))
        assert found == world.allreduce(acp.rank() + 2, getattr(MPI, name))


@pytest.mark.parametrize("name", ["MAXLOC", "MINLOC"])
@pytest.mark.parametrize("count", COUNTS)
def test_places_of_extremes_are_those_of_mpi(world: Any, name: str, count: int) -> None:
    from mpi4py import MPI

    x = np.zeros(count, np.dtype("f8,i4", align=True))
    x["f0"], x["f1"] = data(count, "i4") % 3, acp.rank()
    theirs = np.zeros_like(x)
    world.Allreduce([x, count, MPI.DOUBLE_INT], [theirs, count, MPI.DOUBLE_INT], getattr(MPI, name))
    assert np.array_equal(acp.allreduce(x, getattr(MPI, name)), theirs)
    pair = float(acp.rank() % 2), acp.rank()
    assert acp.allreduce(pair, getattr(MPI, name)) == world.allreduce(pair, getattr(MPI, name))


def test_operations_that_arrays_have_not_are_refused_on_all(world: Any) -> None:
    from mpi4py import MPI

    for op in MPI.MAXLOC, MPI.MINLOC, MPI.REPLACE, MPI.NO_OP:
        with refused(TypeError, "allreduce", "there is no MPI."):
            acp.allreduce(np.arange(3.0), op)
    assert acp.allreduce(1) == acp.procs()


@pytest.mark.parametrize("count", COUNTS)
def test_reductions_are_those_of_mpi(world: Any, count: int) -> None:
    x = data(count)
    theirs = np.empty_like(x)
    world.Allreduce(x, theirs)
    assert np.array_equal(acp.allreduce(x), theirs)
    out = np.zeros_like(x)
    assert acp.allreduce(x, out=out) is out
    assert np.array_equal(out, theirs)
    acp.allreduce(out := x.copy(), out=out)
    assert np.array_equal(out, theirs)
    for root in range(acp.procs()):
        result = acp.reduce(x, root=root)
        assert (result is None) == (acp.rank() != root)
        assert result is None or np.array_equal(result, theirs)
    world.Scan(x, theirs)
    assert np.array_equal(acp.scan(x), theirs)
    acp.scan(out := x.copy(), out=out)
    assert np.array_equal(out, theirs)
    world.Exscan(x, theirs)
    mine = acp.exscan(x)
    assert (mine is None) == (acp.rank() == 0)
    assert mine is None or np.array_equal(mine, theirs)


OPERATIONS = {
    "sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor,
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_operation(dtype: str) -> None:
    for op, ufunc in OPERATIONS.items():
        with case(op):
            folds(dtype, op, ufunc)


def folds(dtype: str, op: str, ufunc: np.ufunc) -> None:
    kind = np.dtype(dtype).kind
    if op in ("and", "or", "xor") and kind in "fc":
        with refused(TypeError, "allreduce", op):
            acp.allreduce(data(3, dtype), op)
        return
    for count in (5, 3000):
        those = [each % 3 if kind in "iu" else each for each in everyone(count, dtype)]
        expected = ufunc.reduce(those).astype(dtype) if len(those) > 1 else those[0]
        x = those[acp.rank()]
        for way in (op, ufunc):
            result = acp.allreduce(x, way)
            assert result.dtype == x.dtype
            np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_what_is_not_a_number_stays() -> None:
    x = np.array([1.0, np.nan if acp.rank() == 0 else 2.0, 3.0])
    assert np.isnan(acp.allreduce(x, "min")[1])
    assert np.isnan(acp.allreduce(x, "max")[1])


def test_operations_of_mpi_and_of_python() -> None:
    MPI = pytest.importorskip("mpi4py.MPI")
    x = data(500, "i8")
    assert np.array_equal(acp.allreduce(x, MPI.MAX), np.max(everyone(500, "i8"), axis=0))

    def digits(a: Any, b: Any) -> Any:
        return a * 10 ** (np.log10(b).astype("i8") + 1) + b

    expected = x * 0
    for rank in range(acp.procs()):
        expected = expected * 10 + rank + 1
    mine = np.full(500, acp.rank() + 1, "i8")
    assert np.array_equal(acp.allreduce(mine, digits), expected)
    for root in range(acp.procs()):
        result = acp.reduce(mine, digits, root)
        assert result is None or np.array_equal(result, expected)
    assert np.array_equal(acp.iallreduce(mine, digits).wait(), expected)
    assert acp.allreduce(str(acp.rank()), operator.add) == "".join(map(str, range(acp.procs())))
    user = MPI.Op.Create(lambda a, b, _: operator.setitem(
        np.frombuffer(b, "i8"), slice(None), digits(np.frombuffer(a, "i8"), np.frombuffer(b, "i8"))
    ))  # fmt: skip
    assert np.array_equal(acp.allreduce(mine, user), expected)
    user.Free()


def test_a_function_sees_the_whole_array() -> None:
    square = np.eye(40) * (acp.rank() + 1)
    product = acp.allreduce(square, np.matmul)
    assert np.array_equal(product, np.eye(40) * np.prod(np.arange(1.0, acp.procs() + 1)))


@pytest.mark.parametrize("commutative", [True, False])
def test_a_function_that_forgets_its_result_is_an_error(commutative: bool) -> None:
    """NumPy would make None something that is not a number."""
    if acp.procs() == 1:
        return
    with pytest.raises((TypeError, acp.Error), match=r"has returned None|has left"):
        acp.allreduce(np.ones(3), lambda a, b: None, commutative=commutative)
    acp.sync()


def test_results_are_the_same_bits_each_time_and_everywhere() -> None:
    x = np.random.default_rng(acp.rank()).normal(size=5000)
    for count in (1, 5000):
        first = acp.allreduce(x[:count])
        for _ in range(3):
            assert acp.allreduce(x[:count]).tobytes() == first.tobytes()
        assert len(set(acp.allgather(first.tobytes()))) == 1


@pytest.mark.parametrize("count", COUNTS)
def test_moving_is_that_of_mpi(world: Any, count: int) -> None:
    n, r = acp.procs(), acp.rank()
    x = data(count)
    for root in range(n):
        mine = data(count, rank=root) if r == root else np.zeros(count)
        acp.bcast(mine, root, out=mine)
        assert np.array_equal(mine, data(count, rank=root))
        whole = np.concatenate(everyone(count)) if r == root else None
        out: Any = np.zeros(count * n) if r == root else ()
        acp.gather(x, root, out=out)
        assert r != root or np.array_equal(out, whole)
        part = np.zeros(count)
        acp.scatter(whole, root, out=part)
        assert np.array_equal(part, x)
    out = np.zeros(count * n)
    acp.allgather(x, out=out)
    assert np.array_equal(out, np.concatenate(everyone(count)))
    given = np.concatenate([data(count, seed=i) for i in range(n)])
    theirs = np.zeros_like(given)
    world.Alltoall(given, theirs)
    acp.alltoall(given, out=out)
    assert np.array_equal(out, theirs)
    acp.alltoall(given, out=given)
    assert np.array_equal(given, theirs)


@pytest.mark.parametrize("scale", [1, 50, 30_000])
def test_counts_may_differ(world: Any, scale: int) -> None:
    n, r = acp.procs(), acp.rank()
    counts = [(i * 2 + 1) % 4 * scale for i in range(n)]
    x = data(counts[r], "i4")
    whole = np.concatenate([data(c, "i4", rank=i) for i, c in enumerate(counts)])
    for root in (0, n - 1):
        out: Any = np.zeros(len(whole), "i4") if r == root else ()
        acp.gather(x, root, out=out, counts=counts if r == root else None or counts)
        assert r != root or np.array_equal(out, whole)
        part = np.zeros(counts[r], "i4")
        acp.scatter(whole if r == root else None, root, out=part, counts=counts)
        assert np.array_equal(part, x)
    out = np.zeros(len(whole), "i4")
    acp.allgather(x, out=out, counts=counts)
    assert np.array_equal(out, whole)

    gives = [(r + 2 * i) % 3 * scale for i in range(n)]
    takes = [(i + 2 * r) % 3 * scale for i in range(n)]
    given = data(sum(gives), "i4")
    theirs, ours = np.zeros(sum(takes), "i4"), np.zeros(sum(takes), "i4")
    world.Alltoallv((given, gives), (theirs, takes))
    acp.alltoall(given, out=ours, counts=gives, out_counts=takes)
    assert np.array_equal(ours, theirs)

    total = data(len(whole), "f8")
    theirs = np.zeros(counts[r])
    world.Reduce_scatter(total, theirs, counts)
    assert np.array_equal(acp.reduce_scatter(total, counts=counts), theirs)


def test_reduce_scatter_deals_out_rows() -> None:
    n, r = acp.procs(), acp.rank()
    x = np.arange(n * 6.0).reshape(n, 2, 3) + r
    part = acp.reduce_scatter(x)
    assert part.shape == (2, 3)
    assert np.array_equal(part, np.arange(n * 6.0).reshape(n, 2, 3)[r] * n + n * (n - 1) / 2)


def test_what_the_first_rank_of_an_exscan_has_stays_as_it_is() -> None:
    r = acp.rank()
    for step in (1, 2):
        out = np.full(6, -7.0)
        acp.exscan(np.ones(6)[::step].copy(), out=out[::step])
        expected = np.full(6, -7.0)
        expected[::step] = r or -7.0
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("size", [10, 1000, 100_000])
def test_views_of_any_kind_may_lie_over_each_other(size: int) -> None:
    n, r = acp.procs(), acp.rank()
    parts = [np.full(size, 10.0 * r + i) for i in range(n)]
    expected = np.concatenate([np.full(size, 10.0 * i + r) for i in range(n)])
    for shift in (0, 1):
        both = np.concatenate([*parts, np.zeros(1)])
        given, wanted = both[: n * size], both[shift : n * size + shift]
        for x, out in ((given, memoryview(wanted)), (memoryview(given), wanted)):
            given[:] = np.concatenate(parts)
            acp.alltoall(x, out=out)
            assert np.array_equal(wanted, expected)
        given[:] = np.concatenate(parts)
        acp.alltoall(memoryview(given), out=memoryview(wanted))
        assert np.array_equal(wanted, expected)


def test_buffers_that_are_not_contiguous() -> None:
    n = acp.procs()
    x = np.arange(24.0).reshape(4, 6)[:, ::2] + acp.rank()
    expected = np.arange(24.0).reshape(4, 6)[:, ::2] * n + n * (n - 1) / 2
    assert np.array_equal(acp.allreduce(x), expected)
    out = np.zeros((4, 6))[:, ::2]
    acp.allreduce(x, out=out)
    assert np.array_equal(out, expected)
    turned = np.asfortranarray(x)
    assert np.array_equal(acp.allreduce(turned), expected)
    backwards = np.zeros((4, 3))[::-1]
    acp.bcast(x if acp.rank() == 0 else None, out=backwards)
    assert np.array_equal(backwards, np.arange(24.0).reshape(4, 6)[:, ::2])


def test_other_dtypes_move_and_fold_by_numpy() -> None:
    n = acp.procs()
    big = np.arange(5, dtype=">i4") + acp.rank()
    assert np.array_equal(acp.allreduce(big), np.arange(5) * n + n * (n - 1) // 2)
    half = np.full(3, acp.rank() + 1, "f2")
    assert np.array_equal(acp.allreduce(half), np.full(3, n * (n + 1) / 2))
    when = np.array(["2026-01-01"], "M8[D]") + np.timedelta64(acp.rank(), "D")
    out = np.zeros(n, "M8[D]")
    acp.allgather(when, out=out)
    assert out[-1] == np.datetime64("2026-01-01") + np.timedelta64(n - 1, "D")
    pairs = np.array([(acp.rank(), 0.5)], [("a", "i4"), ("b", "f8")])
    every = np.zeros(n, pairs.dtype)
    acp.allgather(pairs, out=every)
    assert every["a"].tolist() == [*range(n)]


def test_buffers_without_numpy() -> None:
    import array

    n, r = acp.procs(), acp.rank()
    x = array.array("q", [r, 2 * r])
    out = array.array("q", [0, 0])
    acp.allreduce(x, out=out)
    assert out.tolist() == [n * (n - 1) // 2, n * (n - 1)]
    every = bytearray(3 * n)
    acp.allgather(bytes([r] * 3), out=every)
    assert every == b"".join(bytes([i] * 3) for i in range(n))
    text = bytearray(b"hello") if r == 0 else bytearray(5)
    acp.bcast(text, out=text)
    assert text == b"hello"


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_arrays_without_elements(shape: tuple[int, ...]) -> None:
    n, x, out = acp.procs(), np.ones(shape), np.zeros(shape)
    for root in range(n):
        assert acp.bcast(x, root, out=out) is out
    assert acp.allreduce(x, out=out) is out
    assert acp.alltoall(np.ones((n, *shape)), out=np.zeros((n, *shape))).shape == (n, *shape)


@pytest.mark.parametrize("size", [1, 200, 5000, 100_000])
def test_objects(size: int) -> None:
    n, r = acp.procs(), acp.rank()

    def thing(rank: int, what: Any = None) -> Any:
        return {"rank": rank, "text": "x" * (size * (rank + 1) // 2), "what": what}

    every = [thing(i) for i in range(n)]
    assert acp.allgather(thing(r)) == every
    for root in range(n):
        assert acp.bcast(thing(r), root) == thing(root)
        assert acp.gather(thing(r), root) == (every if r == root else None)
        assert acp.scatter(every if r == root else None, root) == thing(r)
    crossed = [thing(i, r) for i in range(n)]
    assert acp.alltoall([thing(r, i) for i in range(n)]) == crossed


def test_objects_are_folded_in_the_order_of_the_ranks() -> None:
    n, r = acp.procs(), acp.rank()
    assert acp.allreduce([r]) == [*range(n)]
    assert acp.reduce([r], root=n - 1) == ([*range(n)] if r == n - 1 else None)
    assert acp.scan([r]) == [*range(r + 1)]
    assert acp.exscan([r]) == ([*range(r)] if r else None)
    assert acp.reduce_scatter([[r, i] for i in range(n)]) == [e for i in range(n) for e in (i, r)]
    assert acp.allreduce(2**70, "max") == 2**70
    assert acp.allreduce(0.5) == 0.5 * n
