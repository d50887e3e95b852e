"""NPB IS: integers ranked by their buckets. One allreduce and one alltoallv in each iteration."""

import time
from dataclasses import dataclass

import numpy as np

from npb import numbers
from npb.transport import Transport

ITERATIONS = 10
SPAN = 1 << 18  # keys that are made at once
EDGE = 77  # tag of the full verification


@dataclass(frozen=True, slots=True)
class Size:
    """A class of the benchmark; powers of two by their exponents."""

    keys: int
    values: int
    buckets: int
    places: tuple[int, ...]
    ranks: tuple[int, ...]
    rising: int  # so many of the test ranks grow with the iterations
    up: int  # added to the iteration's number for those, and for the others
    down: int

    def expected(self, test: int, iteration: int) -> int:
        """Return the rank of a test key."""
        by = iteration + self.up if test < self.rising else -(iteration + self.down)
        return self.ranks[test] + by


CLASSES = {
    "S": Size(16, 11, 9, (48427, 17148, 23627, 62548, 4431), (0, 18, 346, 64917, 65463), 3, 0, 0),
    "W": Size(
        20,
        16,
        10,
        (357773, 934767, 875723, 898999, 404505),
        (1249, 11698, 1039987, 1043896, 1048018),
        2,
        -2,
        0,
    ),
    "A": Size(
        23,
        19,
        10,
        (2112377, 662041, 5336171, 3642833, 4250760),
        (104, 17523, 123928, 8288932, 8388264),
        3,
        -1,
        -1,
    ),
}


class IntegerSort:
    """The keys of one rank; made once, sorted by any transport."""

    def __init__(self, name: str, rank: int, size: int) -> None:
        self.size = CLASSES[name]
        self.mine = (1 << self.size.keys) // size
        self._first = rank * self.mine
        self._made = np.concatenate([self._keys(start) for start in range(0, self.mine, SPAN)])
        self._width = np.uint8(self.size.values - self.size.buckets)

    def _keys(self, start: int) -> np.ndarray:
        count = min(SPAN, self.mine - start)
        u = numbers.uniform(4 * (self._first + start), 4 * count).reshape(count, 4)
        total = ((u[:, 0] + u[:, 1]) + u[:, 2]) + u[:, 3]
        keys: np.ndarray = ((1 << self.size.values) / 4 * total).astype(np.int32)
        return keys

    def run(self, by: Transport, iterations: int = ITERATIONS) -> tuple[float, int]:
        """Sort; return the seconds of the timed iterations here and how many checks passed here.

        All ranks together pass 5 checks in each iteration and one more each at the end.
        """
        keys = self._made.copy()
        self._iterate(by, keys, 1)
        passed = 0
        start = time.perf_counter()
        for iteration in range(1, iterations + 1):
            mine, counts, least, checks = self._iterate(by, keys, iteration)
            passed += checks
        seconds = time.perf_counter() - start
        return seconds, passed + self._in_order(by, counts, least, mine.size)

    def _iterate(
        self, by: Transport, keys: np.ndarray, iteration: int
    ) -> tuple[np.ndarray, np.ndarray, int, int]:
        """Rank all keys once; return those here, how many of each value, the least, the checks."""
        size, buckets = self.size, 1 << self.size.buckets
        if by.rank == 0:
            keys[iteration] = iteration
            keys[iteration + ITERATIONS] = (1 << size.values) - iteration
        bucket = (keys >> self._width).astype(np.uint16)
        here = np.zeros(buckets + len(size.places), np.int32)
        here[:buckets] = np.bincount(bucket, minlength=buckets)
        for test, place in enumerate(size.places):
            if place // self.mine == by.rank:
                here[buckets + test] = keys[place % self.mine]
        ordered = keys[np.argsort(bucket, kind="stable")]
        everywhere = by.allreduce(here)

        running = np.cumsum(everywhere[:buckets], dtype=np.int64)
        ends = np.searchsorted(running, self.mine * np.arange(1, by.size + 1)) + 1
        local = np.concatenate([[0], np.cumsum(here[:buckets], dtype=np.int64)])
        counts = np.diff(local[np.concatenate([[0], ends])])
        mine, _ = by.alltoallv(ordered, counts)

        first = 0 if by.rank == 0 else int(ends[by.rank - 1])
        least, beyond = first << int(self._width), int(ends[by.rank]) << int(self._width)
        below = int(running[first - 1]) if first else 0
        of_value = np.bincount(mine - least, minlength=beyond - least)
        ranks = np.cumsum(of_value)
        passed = 0
        for test, key in enumerate(everywhere[buckets:].tolist()):
            if least <= key < beyond:
                rank = below + (int(ranks[key - least - 1]) if key > least else 0)
                passed += rank == size.expected(test, iteration)
        return mine, of_value, least, passed

    def _in_order(self, by: Transport, counts: np.ndarray, least: int, have: int) -> bool:
        """Whether the keys are in order here, and none is below the left neighbour's largest."""
        ordered = np.repeat(np.arange(least, least + counts.size, dtype=np.int32), counts)
        good = ordered.size == have and bool(np.all(ordered[1:] >= ordered[:-1]))
        largest = np.empty(1, np.int32)
        if by.rank:
            request = by.irecv(largest, by.rank - 1, EDGE)
        if by.rank + 1 < by.size:
            by.send(ordered[-1:], by.rank + 1, EDGE)
        if by.rank:
            by.wait(request)
            good = good and bool(largest[0] <= ordered[0])
        return good

    def checks(self, ranks: int, iterations: int = ITERATIONS) -> int:
        """Return how many checks all ranks pass together if all is right."""
        return 5 * iterations + ranks

    def rate(self, seconds: float, iterations: int = ITERATIONS) -> float:
        """Return millions of keys ranked in a second."""
        return iterations * (1 << self.size.keys) / seconds / 1e6
