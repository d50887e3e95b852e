"""Collectives of arrays of every dtype that NumPy has: moved as they are, folded as NumPy does."""

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import case, refused

import acp_mpi as acp

pytestmark = pytest.mark.mpi

NUMBERS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
NUMBERS += ["f2", "f4", "f8", "g", "c8", "c16", "G"]
SWAPPED = [f">{dtype}" for dtype in NUMBERS[2:5] + NUMBERS[6:]]
TIMES = ["m8[D]", "M8[ns]", ">m8[s]", ">M8[us]"]
TEXTS = ["S5", "U3", ">U3"]
RECORDS: list[Any] = [
    "V7",
    "i4,f8",
    ">i4,>f8",
    [("name", "S3"), ("at", "M8[s]"), ("x", "f4", (2, 3)), ("inner", [("a", "u1"), ("b", "G")])],
    np.dtype("i1,f8", align=True),
    np.dtype({"names": ["x"], "formats": ["i4"], "offsets": [4], "itemsize": 12}),
]
ALL = [np.dtype(each) for each in [*NUMBERS, *SWAPPED, *TIMES, *TEXTS, *RECORDS]]
COUNTS = [3, 3000]


def filled(count: int, dtype: Any, rank: int | None = None) -> np.ndarray:
    """Return elements that differ, from 1 to 3 if they are numbers: what is made of them fits."""
    rank = acp.rank() if rank is None else rank
    numbers = (np.arange(count) * 7 + rank * 5) % 11 % 3 + 1
    x = np.zeros(count, dtype)
    if x.dtype.kind in "SU":
        x[:] = np.array(["a", "bb", "ccc"])[numbers - 1]
    elif x.dtype.names:
        for name in x.dtype.names:
            x[name] = np.resize(filled(x[name].size, x.dtype[name].base, rank), x[name].shape)
    elif x.dtype.kind == "V":
        x[:] = [bytes([number] * x.itemsize) for number in numbers]
    elif x.dtype.kind == "c":
        x.real, x.imag = numbers, numbers - 2
    elif x.dtype.kind == "b":
        x[:] = numbers > 1
    else:
        x[:] = numbers.astype("i8").astype(dtype)
    return x


def everyone(count: int, dtype: Any) -> list[np.ndarray]:
    return [filled(count, dtype, rank) for rank in range(acp.procs())]


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """Return the parts one after the other; NumPy's own function changes the order of bytes."""
    whole = np.empty(sum(map(len, parts)), parts[0].dtype)
    at = 0
    for part in parts:
        whole[at : at + len(part)] = part
        at += len(part)
    return whole


def is_(found: Any, expected: np.ndarray) -> None:
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.array_equal(found, expected)


def moves(count: int, dtype: Any) -> None:
    """Move equal parts by every call that moves."""
    n, r = acp.procs(), acp.rank()
    x, those = filled(count, dtype), everyone(count, dtype)
    for root in {0, n - 1}:
        here, empty = r == root, np.zeros(count, dtype)
        is_(acp.bcast(x if here else None, root, out=x.copy() if here else empty), those[root])
        whole = acp.gather(x, root, out=np.zeros(n * count, dtype) if here else ())
        if here:
            is_(whole, joined(those))
        part = acp.scatter(joined(those) if here else None, root, out=np.zeros(count, dtype))
        is_(part, x)
    is_(acp.allgather(x, out=np.zeros(n * count, dtype)), joined(those))
    given = joined([filled(count, dtype, r + to) for to in range(n)])
    taken = joined([filled(count, dtype, by + r) for by in range(n)])
    is_(acp.alltoall(given, out=np.zeros(n * count, dtype)), taken)


def unequal_moves(count: int, dtype: Any) -> None:
    """Move parts of which each has a size of its own, one of them none."""
    n, r = acp.procs(), acp.rank()
    counts = [count * rank for rank in range(n)]
    those = [filled(count * rank, dtype, rank) for rank in range(n)]
    for root in {0, n - 1}:
        out: Any = np.zeros(sum(counts), dtype) if r == root else ()
        whole = acp.gather(those[r], root, out=out, counts=counts)
        if r == root:
            is_(whole, joined(those))
        given = joined(those) if r == root else None
        is_(acp.scatter(given, root, out=np.zeros(counts[r], dtype), counts=counts), those[r])
    is_(acp.allgather(those[r], out=np.zeros(sum(counts), dtype), counts=counts), joined(those))
    given = joined([filled(count * to, dtype, r) for to in range(n)])
    taken = joined([filled(count * r, dtype, by) for by in range(n)])
    out = np.zeros(n * count * r, dtype)
    is_(acp.alltoall(given, out=out, counts=counts, out_counts=[counts[r]] * n), taken)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("move", [moves, unequal_moves])
def test_every_dtype_moves(move: Callable[..., None], count: int) -> None:
    for dtype in ALL:
        with case(dtype):
            move(count, dtype)


def test_arrays_of_every_dtype_move_as_objects() -> None:
    n, r = acp.procs(), acp.rank()
    dtypes = [*ALL, np.dtype("O")]
    if hasattr(np.dtypes, "StringDType"):  # since NumPy 2.0
        dtypes.append(np.dtypes.StringDType())
    for dtype in dtypes:
        with case(dtype):
            those = everyone(3, dtype) if dtype in ALL else [np.array(["a" * 99, "b"], dtype)] * n
            # What NumPy makes of it: long doubles of the other byte order come back turned.
            those = [pickle.loads(pickle.dumps(each, 5)) for each in those]
            for found, expected in (
                (acp.bcast(those[r], n - 1), those[n - 1:]),
                (acp.scatter(those if r == 0 else None), those[r:]),
            ):  # fmt: skip
                is_(found, expected[0])
            gathered = acp.gather(those[r], 0) or those
            for found in (gathered, acp.allgather(those[r]), acp.alltoall([those[r]] * n)):
                for one, expected in zip(found, those, strict=True):
                    is_(one, expected)


NAMES = {
    "sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor,
}  # fmt: skip
# The kinds of dtypes that each has; what it makes of another one is nothing, or of another type.
HAVE = (
    dict.fromkeys(("sum",), "biufcm")
    | dict.fromkeys(("prod", "land", "lor", "lxor"), "biufc")
    | dict.fromkeys(("min", "max"), "biufcmM")
    | dict.fromkeys(("and", "or", "xor"), "biu")
)
OTHERS = {
    np.fmax: "biufcmM", np.gcd: "iu", np.hypot: "f", np.logaddexp: "f", np.greater: "biufc",
    np.subtract: "iufcm",
}  # fmt: skip


def folds(op: Any, ufunc: np.ufunc, count: int, dtype: Any) -> None:
    """Fold by every call that folds, and by its request."""
    n, r = acp.procs(), acp.rank()
    those = everyone(count, dtype)

    def is_fold(found: Any, of: list[np.ndarray]) -> None:
        """Expect what NumPy makes of these; in which order, rounding may tell."""
        expected = functools.reduce(ufunc, of).astype(dtype)
        if ufunc in (np.hypot, np.logaddexp):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-2 if found.itemsize < 4 else 1e-5)
        else:
            is_(found, expected)

    x = those[r]
    is_fold(acp.allreduce(x, op), those)
    is_fold(acp.iallreduce(x, op, out=np.zeros(count, dtype)).wait(), those)
    total = acp.reduce(x, op, n - 1)
    if r == n - 1:
        is_fold(total, those)
    else:
        assert total is None
    is_fold(acp.scan(x, op), those[: r + 1])
    before = acp.exscan(x, op)
    if r:
        is_fold(before, those[:r])
    else:
        assert before is None
    parts = [joined([each] * n) for each in those]
    is_fold(acp.reduce_scatter(parts[r], op), those)


@pytest.mark.parametrize("op", NAMES)
def test_every_dtype_is_folded_as_numpy_does(op: str) -> None:
    for dtype in ALL:
        if dtype.kind in HAVE[op]:
            for count, way in zip(COUNTS, (op, NAMES[op]), strict=True):
                with case(dtype, way):
                    folds(way, NAMES[op], count, dtype)


@pytest.mark.parametrize("op", [op for op in OTHERS if op not in (np.subtract, np.greater)])
def test_every_dtype_is_folded_by_other_functions_of_numpy(op: np.ufunc) -> None:
    for dtype in ALL:
        if dtype.kind in OTHERS[op]:
            with case(dtype):
                folds(op, op, 30, dtype)


@pytest.mark.parametrize("op", [*NAMES, *OTHERS])
def test_what_numpy_has_not_is_refused_on_all(op: Any) -> None:
    name, kinds = (op, HAVE[op]) if op in NAMES else (op.__name__, OTHERS[op])
    for dtype in ALL:
        if dtype.kind not in kinds:
            x = filled(3, dtype)
            for call in (acp.allreduce, acp.reduce, acp.scan, acp.exscan):
                with case(dtype, call.__name__), refused(TypeError, call.__name__, name, dtype):
                    call(x, op)
            with case(dtype), refused(TypeError, "reduce_scatter", name, dtype):
                acp.reduce_scatter(joined([x] * acp.procs()), op)
    assert acp.allreduce(np.ones(3)).tolist() == [acp.procs()] * 3


def test_arrays_of_objects_are_folded_element_by_element() -> None:
    n, r = acp.procs(), acp.rank()
    x = np.array([r, 2**70 - r], object)
    assert acp.allreduce(x, "max").tolist() == [n - 1, 2**70]
    assert acp.allreduce(x, "min").tolist() == [0, 2**70 - (n - 1)]
    assert acp.allreduce(x, np.add).tolist() == [n * (n - 1) // 2, n * 2**70 - n * (n - 1) // 2]
    if hasattr(np.dtypes, "StringDType"):  # since NumPy 2.0
        texts = np.array([str(r), "x" * r], np.dtypes.StringDType())
        assert acp.allreduce(texts, "max").tolist() == [str(n - 1), "x" * (n - 1)]
        digits = "".join(map(str, range(n)))
        assert acp.allreduce(texts).tolist() == [digits, "x" * (n * (n - 1) // 2)]


def test_a_number_that_is_none_stays_also_if_it_is_an_object() -> None:
    for who in range(acp.procs()):
        for kind in float, np.float32:
            x = kind("nan" if acp.rank() == who else acp.rank())
            assert np.isnan(acp.allreduce(x, "min"))
            assert np.isnan(acp.allreduce(x, "max"))
