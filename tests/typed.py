"""What type checkers accept of a user's program, in their strict mode; it also runs, on one rank.

`make lint` checks it, `test_names.py` runs it.
"""

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


def main() -> None:
    """Run all of it."""
    with acp.init():
        assert arrays().tolist() == [1, 1, 1, 1]
        assert words() == b"four"
        assert objects() == "text"
        assert whole_numbers(np.int64(1), np.uint64(acp.query_starter_ga(0))) == 3


if __name__ == "__main__":
    main()
