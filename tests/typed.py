"""What type checkers accept of a user's program, in their strict mode; it also runs, on one rank.

`make lint` checks it, `test_names.py` runs it.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import acp_mpi as acp

Reals = npt.NDArray[np.float64]


def arrays() -> Reals:
    """Arrays are arrays of NumPy, and what fills a buffer returns it."""
    u = acp.zeros(4)
    window: Reals = acp.view(acp.query_ga(u), u.shape, u.dtype)
    window[:] = 1
    acp.send(u, 0)
    return acp.recv(np.empty(4), source=0)


def words() -> bytearray:
    """What a workspace fills is what was given to it."""
    with acp.Workspace(16) as workspace:
        workspace.write(b"four", 4)
        return workspace.read(bytearray(4), 4)


def objects() -> str:
    """Without a buffer a message may be anything."""
    acp.send("text", 0)
    text: str = acp.recv()
    return text


def types_of_arrays() -> None:
    """What a type of elements says of an array, NumPy's type of it says."""
    assert_type(acp.zeros(4), Reals)
    assert_type(acp.empty((2, 2), np.int32), npt.NDArray[np.int32])
    whole = acp.zeros(4, np.dtype(np.int64))
    assert_type(whole, npt.NDArray[np.int64])
    ga = acp.query_ga(whole)
    assert_type(acp.view(ga, 4, np.int64), npt.NDArray[np.int64])
    far = acp.remote(ga, 4, np.int64)
    assert_type(far, acp.RemoteArray[np.int64])
    assert_type(far[1:], npt.NDArray[np.int64])
    assert_type(far.dtype, np.dtype[np.int64])
    named: npt.NDArray[Any] = acp.zeros(4, "f4")
    assert named.itemsize == 4


def requests() -> None:
    """A request knows what its `wait` returns, and so does a wait for several."""
    sends = [acp.isend(b"one", 0), acp.isend("two", 0)]
    assert_type(sends, list[acp.Request[None]])
    into = acp.irecv(bytearray(3), source=0)
    assert_type(into.wait(), bytearray)
    assert_type(acp.irecv(source=0).wait(), Any)
    assert_type(acp.waitall(sends), list[None])
    begun = acp.iallreduce(2.5, "max")
    assert_type(begun, acp.Request[float])
    assert_type(acp.waitany([begun]), tuple[int, float])
    start: acp.Request[object] = acp.ibcast(1)
    assert start.wait() == 1
    acp.ibarrier().wait()


def collectives() -> None:
    """What goes in comes out."""
    assert_type(acp.bcast("text", root=0), str)
    made = acp.bcast(acp.Counter() if acp.rank() == 0 else None)
    assert_type(made, acp.Counter)
    made.destroy()
    ones: Reals = np.ones(4)
    assert_type(acp.allreduce(ones), Reals)
    assert_type(acp.allreduce(3, max), int)
    assert_type(acp.allreduce(ones, np.add, out=ones.copy()), Reals)
    pair: list[tuple[str, int]] = acp.allgather(("x", 1))
    assert_type(acp.scan(pair[0], lambda a, b: max(a, b)), tuple[str, int])
    assert_type(acp.exscan(1), int | None)
    assert_type(acp.reduce(1.5, "prod", 0, timeout=60), float | None)
    gathered = acp.gather("x", root=0)
    assert gathered is not None
    assert "".join(gathered) == "x"
    assert acp.alltoall([1]) == acp.allgather(1, ranks=[0]) == [1]
    assert_type(acp.scatter([2.5], root=0), float)
    acp.bcast(b"1234", root=0, out=())
    acp.gather(np.arange(2), out=np.empty(2, int), counts=[2])


def containers() -> None:
    """Containers know their elements, and are what collections.abc says of them."""
    with acp.Map({"one": 1}) as numbers, acp.Map(key=int, value=float) as reals:
        assert_type(numbers, acp.Map[str, int])
        assert_type(reals, acp.Map[int, float])
        assert_type(numbers["one"], int)
        assert_type(numbers.get("two"), int | None)
        assert_type(numbers.get("two", 2.5), int | float)
        assert_type(numbers.add("one", 2), int)
        assert_type(numbers.begin(), acp.KeyCursor[str, int])
        for key, value in numbers.items():
            assert key.upper() == "ONE", value + 1
        mapping: MutableMapping[str, int] = numbers
        assert_type(mapping.setdefault("two", 2), int)
        assert numbers.to_dict() == {"one": 3, "two": 2} == dict(mapping)
        read_only: Mapping[int, float] = reals
        assert not read_only
    with acp.Set(["a", "b"]) as names, acp.MultiSet(key=int) as counts:
        assert_type(names, acp.Set[str])
        whole: AbstractSet[str] = names
        assert whole & {"a"} == {"a"}
        assert_type(names.to_set(), set[str])
        assert_type(counts.insert(3, 2), int)
        assert_type(counts.to_dict(), dict[int, int])
    with acp.Vector(float, [1, 2]) as vector, acp.Deque("q", size=3) as deque:
        assert_type(vector, acp.Vector[float])
        assert_type(vector[0], float)
        assert_type(vector.begin().value, float)
        row: Sequence[float] = vector
        assert row.index(2.0) == 1 == row.count(1.0)
        assert_type(vector.to_list(), list[float])
        chosen: acp.Deque[int] = deque
        assert chosen.pop() == 0
    with acp.List(["a", "b"]) as line, acp.List(dtype=bytes) as raw:
        assert_type(line.pop_front(), str)
        assert_type(line.begin(), acp.ListCursor[str])
        assert_type(line.to_list(), list[str])
        assert_type(raw, acp.List[bytes])


def segments(there: acp.SegmentedBuffer[Reals], back: acp.SegmentedBuffer[memoryview]) -> None:
    """A segment is of the type of the array; of two ranks, so this does not run."""
    with there.fill(timeout=1) as segment:
        assert_type(segment, Reals)
    for received in back:
        assert_type(received, memoryview)
    assert_type(acp.SegmentedBuffer(np.zeros(4), 2, to=1), acp.SegmentedBuffer[Reals])
    assert_type(acp.SegmentedBuffer(bytearray(4), 2, source=1), acp.SegmentedBuffer[memoryview])


def whole_numbers(n: np.int64, ga: np.uint64) -> int:
    """NumPy's whole numbers are taken where ints are."""
    acp.put(ga, b"12345678", flag=(ga, n))
    assert acp.get(ga, np.empty(1, np.int64))[0] == n
    acp.add8(acp.GA_NULL, ga, np.uint64(1), order=acp.HANDLE_ALL)
    acp.complete(np.int64(acp.copy(ga, ga, np.int64(8))))
    acp.wait_until(ga, "==", np.int64(n + 1), timeout=600)
    block = np.uint64(acp.malloc(np.int64(8), rank=n - 1))
    acp.copy_many(block, ga, np.int64(8))
    acp.complete()
    acp.send(b"", n - 1, tag=n)
    acp.recv(source=n - 1, tag=n)
    assert acp.bcast(n, root=n - 1) == n
    total = acp.query_rank(ga) + acp.query_starter_ga(n - 1) - acp.query_starter_ga(0)
    with acp.Vector("q", size=n, rank=n - 1) as vector, acp.List(dtype="q", rank=n - 1) as line:
        vector.insert(n, 2)
        vector.push_back_ga(ga)
        vector.extend_ga(ga, n)
        vector.resize(np.int64(4))
        assert vector.at(n) == vector.pop(n)
        line.push_back(1, rank=n - 1)
        line.push_back_ga(ga, size=np.int64(8), rank=n - 1)
        line.fill(n, 1)
        line.fill_ga(n, ga)
        assert line.begin().advance(n) == line.end()
        total += len(line)
    numbers = acp.Map(ranks=np.arange(1), slots=n, rank=n - 1, key="q", value="q")
    numbers.insert_ga(ga, block, np.int64(8), np.int64(8))
    assert numbers.retrieve_ga(ga, block, size=np.int64(8)) == 8
    numbers.destroy()
    with acp.Workspace(np.int64(100), start_rank=n - 1, default_size=np.int64(64)) as workspace:
        workspace.write_ga(ga, n - 1, np.int64(8))
        workspace.read_ga(ga, n - 1, np.int64(8))
        workspace.read(bytearray(2), n)
    with acp.Counter(rank=n - 1) as counter:
        counter.next(n)
        total += len(list(counter.take(np.int64(3), n)))
    acp.free(block)
    return total


def rings() -> None:
    """What a ring prepares is checked as the method itself."""
    d, x = acp.delegate(local=True), np.zeros(3)
    ring = d.ring(np.int64(4))
    ring.command(1, d.save, "x.npy", x, at=0)
    ring.command(np.uint64(2), d.allreduce, x, "max")
    with ring:
        ring.slots[0] = 2
        assert_type(ring.next(), acp.DelegateRequest).wait()


def main() -> None:
    """Run all of it."""
    with acp.init():
        assert arrays().tolist() == [1, 1, 1, 1]
        assert words() == b"four"
        assert objects() == "text"
        types_of_arrays()
        requests()
        collectives()
        containers()
        rings()
        assert whole_numbers(np.int64(1), np.uint64(acp.query_starter_ga(0))) == 3


if __name__ == "__main__":
    main()
