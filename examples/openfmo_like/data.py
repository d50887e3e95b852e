"""What a worker reads from the data servers and writes to them, one-sidedly."""

import collections
import itertools
import time

import numpy as np

from .basis import pack, unpack
from .places import COPIES, Memory, Places

_CACHE = 16  # densities that a worker keeps


class Data:
    """The servers' data as one worker sees it; `waited` adds up the seconds that this takes."""

    def __init__(self, places: Places, memory: Memory) -> None:
        self.places = places
        self._memory = memory
        self.waited = 0.0
        self._sweep: int | None = None
        self._copy = 0
        self._densities: collections.OrderedDict[int, np.ndarray] = collections.OrderedDict()
        self._rows: dict[int, np.ndarray] = {}
        self._functions = [0, *itertools.accumulate(places.functions)]
        self._atoms = [0, *itertools.accumulate(places.atoms)]
        self._populations: tuple[np.ndarray, np.ndarray] | None = None

    def turn_to(self, sweep: int) -> None:
        """Read what this sweep has found, which nobody writes meanwhile; forget older densities."""
        if sweep == self._sweep:
            return
        self._sweep, self._copy = sweep, sweep % COPIES
        self._densities.clear()
        self._populations = None

    def density(self, i: int) -> np.ndarray:
        """Return D^I, n x n."""
        if i not in self._densities:
            packed = np.empty(self.places.density_bytes(i) // 8)
            self._get(self.places.densities[self._copy][i], packed)
            self._densities[i] = unpack(packed)
            if len(self._densities) > _CACHE:
                self._densities.popitem(last=False)
        self._densities.move_to_end(i)
        return self._densities[i]

    def orbital_populations(self, i: int) -> np.ndarray:
        """Return (D^I S^I)_ll of its functions l."""
        return self._all_populations()[0][self._functions[i] : self._functions[i + 1]]

    def atomic_populations(self, i: int) -> np.ndarray:
        """Return P_A of its atoms A."""
        return self._all_populations()[1][self._atoms[i] : self._atoms[i + 1]]

    def distances(self, i: int) -> np.ndarray:
        """Return R(I,K) for all K; they never change."""
        if i not in self._rows:
            row = np.empty(self.places.count)
            self._get(self.places.distances + i * row.nbytes, row)
            self._rows[i] = row
        return self._rows[i]

    def put_distances(self, i: int, row: np.ndarray) -> None:
        """Write a row of distances."""
        self._put(self.places.distances + i * row.nbytes, row)

    def put_fragment(
        self, i: int, density: np.ndarray, orbitals: np.ndarray, atoms: np.ndarray
    ) -> None:
        """Write what a sweep has found, to the copy that is not read."""
        other = 1 - self._copy
        self._put(self.places.densities[other][i], pack(density))
        self._put(self.places.orbital_populations[other] + 8 * self._functions[i], orbitals)
        self._put(self.places.atomic_populations[other] + 8 * self._atoms[i], atoms)

    def _all_populations(self) -> tuple[np.ndarray, np.ndarray]:
        if self._populations is None:
            orbitals, atoms = np.empty(self._functions[-1]), np.empty(self._atoms[-1])
            self._get(self.places.orbital_populations[self._copy], orbitals)
            self._get(self.places.atomic_populations[self._copy], atoms)
            self._populations = orbitals, atoms
        return self._populations

    def _get(self, ga: int, array: np.ndarray) -> None:
        start = time.perf_counter()
        self._memory.get(ga, array)
        self.waited += time.perf_counter() - start

    def _put(self, ga: int, array: np.ndarray) -> None:
        start = time.perf_counter()
        self._memory.put(ga, np.ascontiguousarray(array))
        self.waited += time.perf_counter() - start
