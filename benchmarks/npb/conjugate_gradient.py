"""NPB CG: the smallest eigenvalue of a sparse matrix, by blocking messages between pairs.

Ranks form a grid, as wide as high or twice as wide. Sums go along its rows by exchange with a
partner in each step, then every rank swaps a part of its vector with one other; there are no
collectives.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from npb import numbers
from npb.transport import Transport

INNER = 25  # steps of each conjugate gradient
RCOND = 0.1
SUM, SWAP = 1, 2  # tags


@dataclass(frozen=True, slots=True)
class Size:
    """A class of the benchmark."""

    order: int
    nonzeros: int
    iterations: int
    shift: float
    zeta: float


CLASSES = {
    "S": Size(1400, 7, 15, 10.0, 8.5971775078648),
    "W": Size(7000, 8, 15, 12.0, 10.362595087124),
    "A": Size(14000, 11, 15, 20.0, 17.130235054029),
}


def _vectors(size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sparse random vectors whose outer products make the matrix: row, column, value."""
    x, mask = numbers.after(1), (1 << numbers.BITS) - 1
    above = 1 << (size.order - 1).bit_length()
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for row in range(size.order):
        found: dict[int, float] = {}
        while len(found) < size.nonzeros:
            x = x * numbers.FACTOR & mask
            value = x * 2.0**-numbers.BITS
            x = x * numbers.FACTOR & mask
            column = int(above * (x * 2.0**-numbers.BITS))
            if column < size.order and column not in found:
                found[column] = value
        found[row] = 0.5
        rows += [row] * len(found)
        columns += found
        values += found.values()
    return np.array(rows), np.array(columns), np.array(values)


def matrix(size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, column and value of all elements, in order; those of one place are added up."""
    number, place, value = _vectors(size)
    starts = np.searchsorted(number, np.arange(size.order + 1))
    ratio = RCOND ** (1.0 / size.order)
    rows, columns, values = [], [], []
    for i in range(size.order):
        at = slice(starts[i], starts[i + 1])
        rows.append(np.repeat(place[at], place[at].size))
        columns.append(np.tile(place[at], place[at].size))
        values.append(np.outer(ratio**i * value[at], value[at]).ravel())
    rows.append(np.arange(size.order))
    columns.append(np.arange(size.order))
    values.append(np.full(size.order, RCOND - size.shift))
    keys = np.concatenate(rows) * size.order + np.concatenate(columns)
    unique, where = np.unique(keys, return_inverse=True)
    total = np.bincount(where, weights=np.concatenate(values))
    return unique // size.order, unique % size.order, total


class ConjugateGradient:
    """One rank's block of the matrix and its place in the grid; run on any transport."""

    def __init__(self, name: str, rank: int, ranks: int) -> None:
        self.size = CLASSES[name]
        height = 1 << (ranks.bit_length() - 1) // 2
        self._width = ranks // height
        self._row, self._column = divmod(rank, self._width)
        halves = self._width // height  # column blocks to a row block
        # the row block that this rank's column block is in, and who has this rank's in exchange
        owner, half = divmod(self._column, halves)
        self._partner = owner * self._width + self._row * halves + half
        high, wide = self._bounds(height), self._bounds(self._width)
        self._mine = wide[self._column + 1] - wide[self._column]
        sent = self._row * halves + half
        self._part = slice(wide[sent] - high[self._row], wide[sent + 1] - high[self._row])
        self._take(*matrix(self.size), high, wide)

    def _bounds(self, blocks: int) -> list[int]:
        return [self.size.order * i // blocks for i in range(blocks + 1)]

    def _take(
        self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, high: list[int],
        wide: list[int],
    ) -> None:  # fmt: skip
        top, bottom = high[self._row], high[self._row + 1]
        left, right = wide[self._column], wide[self._column + 1]
        here = (top <= rows) & (rows < bottom) & (left <= columns) & (columns < right)
        self._columns, self._values = columns[here] - left, values[here]
        counts = np.bincount(rows[here] - top, minlength=bottom - top)
        self._filled = np.flatnonzero(counts)
        self._starts = (np.cumsum(counts) - counts)[self._filled]
        self._height = bottom - top

    def run(self, by: Transport) -> tuple[float, int]:
        """Iterate; return the seconds here and whether zeta is right."""
        x = np.ones(self._mine)
        self._normalized(by, self._solve(by, x))
        zeta, start = 0.0, time.perf_counter()
        for _ in range(self.size.iterations):
            z = self._solve(by, x)
            zeta = self.size.shift + 1.0 / self._dot(by, x, z)
            x = self._normalized(by, z)
        seconds = time.perf_counter() - start
        return seconds, abs(zeta - self.size.zeta) <= 1e-10 * self.size.zeta

    def _solve(self, by: Transport, x: np.ndarray) -> np.ndarray:
        z, r, p = np.zeros_like(x), x.copy(), x.copy()
        rho = self._dot(by, r, r)
        for _ in range(INNER):
            q = self._times(by, p)
            alpha = rho / self._dot(by, p, q)
            z += alpha * p
            r -= alpha * q
            before, rho = rho, self._dot(by, r, r)
            p = r + rho / before * p
        return z

    def _normalized(self, by: Transport, z: np.ndarray) -> np.ndarray:
        return z / math.sqrt(self._dot(by, z, z))

    def _dot(self, by: Transport, a: np.ndarray, b: np.ndarray) -> float:
        return float(self._sum(by, np.array([a @ b]))[0])

    def _times(self, by: Transport, p: np.ndarray) -> np.ndarray:
        q = np.zeros(self._height)
        q[self._filled] = np.add.reduceat(self._values * p[self._columns], self._starts)
        q = self._sum(by, q)[self._part]
        if self._partner == by.rank:
            return q
        other = np.empty(self._mine)
        request = by.irecv(other, self._partner, SWAP)
        by.send(q, self._partner, SWAP)
        by.wait(request)
        return other

    def _sum(self, by: Transport, total: np.ndarray) -> np.ndarray:
        """Add up along the row of the grid."""
        distance = 1
        while distance < self._width:
            partner = self._row * self._width + (self._column ^ distance)
            other = np.empty_like(total)
            request = by.irecv(other, partner, SUM)
            by.send(total, partner, SUM)
            by.wait(request)
            total = total + other
            distance *= 2
        return total

    def rate(self, seconds: float) -> float:
        """Return millions of floating-point operations in a second, as NPB counts them."""
        size = self.size
        each = size.nonzeros * (size.nonzeros + 1)
        once = 3.0 + each + INNER * (5.0 + each) + 3.0
        return 2.0 * size.iterations * size.order * once / seconds / 1e6
