"""Fragments as PySCF knows them: atoms with basis functions."""

import functools
from typing import Any

import numpy as np
from pyscf import gto
from pyscf.lib import exceptions

from .molecule import Fragment, InputError


class Molecules:
    """The fragments of a calculation and their pairs, made when they are first asked for."""

    def __init__(self, fragments: tuple[Fragment, ...], basis: str) -> None:
        self._fragments = fragments
        self._basis = basis
        self.fragment = functools.cache(self._fragment)

    def _fragment(self, i: int) -> Any:
        """Return fragment `i` as a `pyscf.gto.Mole`."""
        fragment = self._fragments[i]
        try:
            return gto.M(
                atom=[(atom.symbol, atom.place) for atom in fragment.atoms],
                basis=self._basis,
                charge=fragment.charge,
                unit="Angstrom",
                verbose=0,
            )
        except (exceptions.BasisNotFoundError, KeyError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"basis {self._basis!r} of fragment {fragment.name}: {reason}; PySCF's names are "
                "expected, such as STO-3G, 6-31G or cc-pVDZ"
            ) from None

    def of(self, fragments: tuple[int, ...]) -> Any:
        """Return one fragment, or two as one molecule, the functions of the first one first."""
        if len(fragments) == 1:
            return self.fragment(fragments[0])
        pair = gto.conc_mol(*(self.fragment(i) for i in fragments))
        pair.verbose = 0
        return pair

    def sizes(self) -> tuple[list[int], list[int]]:
        """Return how many basis functions, and how many atoms, each fragment has."""
        functions: dict[tuple[str, ...], int] = {}
        counts = []
        for i, fragment in enumerate(self._fragments):
            kind = tuple(atom.symbol for atom in fragment.atoms)
            if kind not in functions:
                functions[kind] = self.fragment(i).nao
            counts.append(functions[kind])
        return counts, [len(fragment.atoms) for fragment in self._fragments]


def pack(matrix: np.ndarray) -> np.ndarray:
    """Return the lower triangle of a symmetric matrix, row by row: n(n+1)/2 numbers."""
    return np.ascontiguousarray(matrix[np.tril_indices(len(matrix))])


def unpack(triangle: np.ndarray) -> np.ndarray:
    """Return the symmetric matrix with this lower triangle."""
    n = int((np.sqrt(8 * len(triangle) + 1) - 1) / 2 + 0.5)
    matrix = np.empty((n, n))
    rows, columns = np.tril_indices(n)
    matrix[rows, columns] = matrix[columns, rows] = triangle
    return matrix


def atomic_populations(mol: Any, functions: np.ndarray) -> np.ndarray:
    """Return P_A, the sum over the functions l on A of (D S)_ll (Mulliken)."""
    return np.array([functions[row[2] : row[3]].sum() for row in mol.aoslice_by_atom()])
