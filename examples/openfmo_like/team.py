"""How a group of workers does one job together.

The work is cut into parts that depend on the job only. Each member computes some parts; the
leader gathers them and adds them in the order of the parts. So every group, of any size, gets the
same bits.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import field
from .basis import Molecules, atomic_populations, unpack
from .data import Data
from .distant import interaction
from .jobs import BATCH, DISTANT, FREE, MONOMER, Row
from .molecule import distance
from .places import triangle
from .reading import Calculation
from .scf import Solution, integrals, join, relaxation, solve


class Team:
    """The processes of one communicator; None: a process alone."""

    def __init__(
        self, comm: Any, calculation: Calculation, molecules: Molecules, data: Data
    ) -> None:
        self._comm = comm
        self._size = 1 if comm is None else comm.Get_size()
        self._rank = 0 if comm is None else comm.Get_rank()
        self._calculation = calculation
        self._molecules = molecules
        self._data = data

    def meet(self) -> None:
        """Wait for all members."""
        if self._comm is not None:
            self._comm.Barrier()

    def lead(self, kind: int, job: int, pairs: Sequence[tuple[int, int]]) -> Row:
        """Return the result of a job, as the leader; the members `help` with it."""
        if kind == DISTANT:
            energies = self._distant(pairs[BATCH * job :][:BATCH])
            return Row(value=sum(energies.tolist()))
        if kind == FREE:
            return self._free(job)
        return self._monomer(job) if kind == MONOMER else self._pair(pairs[job])

    def help(self, kind: int, job: int, pairs: Sequence[tuple[int, int]]) -> None:
        """Do this member's parts of a job."""
        if kind == DISTANT:
            self._distant(pairs[BATCH * job :][:BATCH])
        else:
            x = (job,) if kind == MONOMER else pairs[job]
            self._field(self._molecules.of(x), x, lambda: None)

    def _free(self, i: int) -> Row:
        """Solve a fragment without any field, and measure its distances."""
        fragments = self._calculation.fragments
        row = [
            0.0 if k == i else distance(fragments[i], other) for k, other in enumerate(fragments)
        ]
        self._data.put_distances(i, np.array(row))
        mol = self._molecules.fragment(i)
        found = solve(mol, integrals(mol), np.zeros((mol.nao, mol.nao)), None)
        self._keep(i, mol, found)
        return Row(value=found.internal, extra=found.energy, change=float(abs(found.density).max()))

    def _monomer(self, i: int) -> Row:
        mol = self._molecules.fragment(i)
        field, own = self._field(mol, (i,), lambda: integrals(mol))
        before = self._data.density(i)
        found = solve(mol, own, field, before)
        self._keep(i, mol, found)
        change = float(abs(found.density - before).max())
        return Row(value=found.internal, extra=found.energy, change=change)

    def _keep(self, i: int, mol: Any, found: Solution) -> None:
        orbitals = np.einsum("ij,ji->i", found.density, found.overlap)
        self._data.put_fragment(i, found.density, orbitals, atomic_populations(mol, orbitals))

    def _pair(self, pair: tuple[int, int]) -> Row:
        mol = self._molecules.of(pair)
        field, own = self._field(mol, pair, lambda: integrals(mol))
        guess = join(self._data.density(pair[0]), self._data.density(pair[1]))
        found = solve(mol, own, field, guess)
        return Row(value=found.internal, extra=relaxation(found.density, guess, field))

    def _field(
        self, mol: Any, x: tuple[int, ...], meanwhile: Callable[[], Any]
    ) -> tuple[np.ndarray, Any]:
        """Return V^X and what the leader's `meanwhile` returns; members return no field."""
        respap, resppc, _ = self._calculation.thresholds
        near = np.min([self._data.distances(i) for i in x], axis=0)
        others = [k for k in range(len(near)) if k not in x]
        parts = field.parts(others, near, respap, resppc)
        cost = {field.EXACT: 1.0, field.ORBITALS: 0.5, field.CHARGES: 0.1}
        functions = self._data.places.functions
        costs = [cost[kind] * sum(triangle(functions[k]) for k in ks) for kind, ks in parts]
        shares = self._share(costs, triangle(mol.nao) / 2)
        mine = [
            field.part(mol, *parts[number], self._molecules, self._data)
            for number in shares[self._rank]
        ]
        result = meanwhile() if self._rank == 0 else None
        gathered = self._gather(mine, shares, triangle(mol.nao))
        total = np.zeros(triangle(mol.nao))
        for part in gathered:
            total += part
        return unpack(total), result

    def _distant(self, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return Delta_IJ of each pair."""
        shares = self._share([1.0] * len(pairs), 0.0)
        mine = []
        for number in shares[self._rank]:
            i, j = pairs[number]
            energy = interaction(
                self._molecules.fragment(i),
                self._molecules.fragment(j),
                self._data.density(i),
                self._data.density(j),
            )
            mine.append(np.array([energy]))
        return self._gather(mine, shares, 1)[:, 0]

    def _share(self, costs: Sequence[float], leader: float) -> list[list[int]]:
        """Deal the parts out to the members: the dearest first, to the one with least to do."""
        load = [leader, *[0.0] * (self._size - 1)]
        shares: list[list[int]] = [[] for _ in load]
        for number in sorted(range(len(costs)), key=lambda number: (-costs[number], number)):
            least = load.index(min(load))
            load[least] += costs[number]
            shares[least].append(number)
        return shares

    def _gather(
        self, mine: Sequence[np.ndarray], shares: Sequence[Sequence[int]], width: int
    ) -> np.ndarray:
        """Return all parts in their order, on the leader; each has `width` numbers."""
        flat = np.concatenate(mine) if mine else np.empty(0)
        everything = np.empty(sum(map(len, shares)) * width)
        if self._size == 1:
            everything = flat
        else:
            counts = [len(share) * width for share in shares]
            self._comm.Gatherv(flat, (everything, counts) if self._rank == 0 else None, root=0)
        ordered = np.zeros((sum(map(len, shares)), width))
        ordered[[number for share in shares for number in share]] = everything.reshape(-1, width)
        return ordered
