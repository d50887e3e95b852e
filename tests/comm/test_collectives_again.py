"""The same collective again and again, and what looks the same and is not."""

import numpy as np
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def total(factor: int = 1) -> int:
    return factor * sum(range(1, acp.procs() + 1))


def mine(factor: int = 1, length: int = 3, dtype: str = "i8") -> "np.ndarray":
    return np.full(length, factor * (acp.rank() + 1), dtype)


def test_contents_change() -> None:
    out = np.empty(3, "i8")
    for i in range(20):
        assert acp.allreduce(mine(i), out=out) is out
        assert out.tolist() == [total(i)] * 3


def test_buffers_of_another_kind_come_in_between() -> None:
    for length, dtype in [(3, "i8"), (3, "i8"), (6, "i4"), (3, "f8"), (0, "f8"), (3, "i8")] * 2:
        out = np.empty(length, dtype)
        acp.allreduce(mine(1, length, dtype), out=out)
        assert out.tolist() == [total()] * length


def test_operations_and_roots_change() -> None:
    n = acp.procs()
    out = np.empty(3, "i8")
    for op, value in [("sum", total()), ("max", n), ("max", n), ("min", 1), (np.add, total())] * 2:
        acp.allreduce(mine(), op, out=out)
        assert out.tolist() == [value] * 3
    for root in [0, 0, n - 1, None, n - 1, n - 1]:
        out[:] = 0
        acp.reduce(mine(), root=root, out=out)
        assert out[0] == (total() if acp.rank() == (root or 0) else 0)


def test_one_buffer_and_overlapping_ones() -> None:
    for _ in range(3):
        x = mine()
        acp.allreduce(x, out=x)
        assert x.tolist() == [total()] * 3
    for _ in range(3):
        whole = np.arange(4) + acp.rank()
        expected = whole[:3] * acp.procs() - (acp.rank() * acp.procs() - total() + acp.procs())
        acp.allreduce(whole[:3], out=whole[1:])
        assert whole[1:].tolist() == expected.tolist()


def test_one_rank_goes_the_long_way() -> None:
    """Its array is not contiguous: all count their calls alike nevertheless."""
    out = np.empty(3, "i8")
    for i in range(12):
        wide = np.full(6, i * (acp.rank() + 1))
        acp.allreduce(wide[::2] if i % acp.procs() == acp.rank() else mine(i), out=out)
        assert out.tolist() == [total(i)] * 3


def test_counts_that_are_changed_in_place() -> None:
    n = acp.procs()
    counts = [1] * n
    for more in [0, 0, 1, 1, 2]:
        counts[0] = 1 + more
        x = np.full(counts[acp.rank()], acp.rank())
        out = np.empty(n + more, x.dtype)
        acp.allgather(x, out=out, counts=counts)
        assert out.tolist() == [0] * (1 + more) + list(range(1, n))
        sent = np.arange(n) * n + acp.rank()
        got = np.empty_like(sent)
        acp.alltoall(sent, out=got, counts=[1] * n, out_counts=tuple([1] * n))
        assert got.tolist() == [acp.rank() * n + r for r in range(n)]


@pytest.mark.parametrize("way", ["itself", "elsewhere"])
def test_bcast_from_each_root(way: str) -> None:
    for root in [0, 0, *range(acp.procs()), acp.procs() - 1]:
        for i in range(3):
            x = mine(i)
            out = x if way == "itself" else () if acp.rank() == root else np.empty(3, "i8")
            assert acp.bcast(x, root, out=out)[0] == i * (root + 1)


def test_gather_and_scatter() -> None:
    n = acp.procs()
    for i in range(4):
        here = acp.rank() == 0
        out = np.empty(n, "i8") if here else ()
        acp.gather(np.array([i + acp.rank()]), 0, out=out)
        if here:
            assert out.tolist() == [i + r for r in range(n)]
        one = np.empty(1, "i8")
        acp.scatter(np.arange(n) * i if here else None, 0, out=one)
        assert one[0] == acp.rank() * i


def test_what_is_wrong_is_said_again() -> None:
    out = np.empty(3, "i8")
    fixed = np.empty(3, "i8")
    fixed.flags.writeable = False
    for _ in range(3):
        acp.allreduce(mine(), out=out)
    with pytest.raises(ValueError, match="read-only"):
        acp.allreduce(mine(), out=fixed)
    with pytest.raises(ValueError, match="no operation"):
        acp.allreduce(mine(), "som", out=out)
    acp.allreduce(mine(), out=out)
    assert out.tolist() == [total()] * 3


def test_it_is_forgotten_with_a_reset() -> None:
    out = np.empty(3, "i8")
    for i in range(4):
        acp.allreduce(mine(i), out=out)
        if i % 2:
            acp.reset(acp.rank())
        assert out.tolist() == [total(i)] * 3
