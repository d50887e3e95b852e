"""What a kernel asks of a transport, and the collectives of those that have only messages."""

from typing import Any, Protocol

import numpy as np

REDUCE, BLOCKS = 1 << 20, 2 << 20  # tags of the collectives


class Transport(Protocol):
    """Messages and three collectives between `size` ranks; arrays are contiguous."""

    name: str
    rank: int
    size: int

    def send(self, array: np.ndarray, dest: int, tag: int) -> None:
        """Send an array, which is free again on return."""

    def irecv(self, array: np.ndarray, source: int, tag: int) -> Any:
        """Begin to receive into an array."""

    def wait(self, request: Any) -> None:
        """Wait until it has come."""

    def allreduce(self, array: np.ndarray) -> np.ndarray:
        """Return the sums over all ranks, which are a power of two."""

    def alltoallv(self, array: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Send `counts[r]` elements to each rank r; return what comes, and how many from each."""

    def close(self) -> None:
        """End it. Collective."""


class Pairwise:
    """Collectives out of messages."""

    rank: int
    size: int
    send: Any
    irecv: Any
    wait: Any

    def allreduce(self, array: np.ndarray) -> np.ndarray:
        """Double the number of ranks whose sum is known in each step."""
        total, other, distance = array.copy(), np.empty_like(array), 1
        while distance < self.size:
            partner = self.rank ^ distance
            request = self.irecv(other, partner, REDUCE + distance)
            self.send(total, partner, REDUCE + distance)
            self.wait(request)
            # the same order on both sides: all ranks get the same sum
            total = other + total if partner < self.rank else total + other
            distance *= 2
        return total

    def alltoallv(self, array: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Exchange the counts, then the blocks; every rank begins with its neighbour."""
        here = np.empty(self.size, np.int64)
        self._exchange(counts, np.ones(self.size, np.int64), here, np.ones(self.size, np.int64))
        result = np.empty(int(here.sum()), array.dtype)
        self._exchange(array, counts, result, here)
        return result, here

    def _exchange(
        self, out: np.ndarray, out_counts: np.ndarray, back: np.ndarray, back_counts: np.ndarray
    ) -> None:
        out_ends, back_ends = np.cumsum(out_counts), np.cumsum(back_counts)
        requests = []
        for step in range(1, self.size):
            source = (self.rank - step) % self.size
            block = back[back_ends[source] - back_counts[source] : back_ends[source]]
            requests.append(self.irecv(block, source, BLOCKS))
        for step in range(1, self.size):
            dest = (self.rank + step) % self.size
            self.send(out[out_ends[dest] - out_counts[dest] : out_ends[dest]], dest, BLOCKS)
        me = self.rank
        back[back_ends[me] - back_counts[me] : back_ends[me]] = out[
            out_ends[me] - out_counts[me] : out_ends[me]
        ]
        for request in requests:
            self.wait(request)
