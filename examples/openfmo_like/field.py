"""The electrostatic field of the other fragments, v^K, in its three levels.

Each `v^K` is a matrix over the atomic orbitals of X, a fragment or a pair. How the sum over K is
cut into parts depends on distances only, never on who computes them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pyscf import gto

from .basis import pack

EXACT, ORBITALS, CHARGES = "density", "orbital populations", "point charges"


def level(distance: float, respap: float, resppc: float) -> str:
    """Return how v^K is approximated at R(X,K) = `distance`; thresholds of 0 are never reached."""
    if resppc and distance >= resppc:
        return CHARGES
    if respap and distance >= respap:
        return ORBITALS
    return EXACT


def attraction(mol: Any, charges: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return -sum_A q_A <m|1/|r-R_A||n>: n x n; places in bohr."""
    points = mol.intor("int1e_grids", grids=np.ascontiguousarray(places))
    return np.asarray(-np.tensordot(charges, points, 1))


def repulsion(mol: Any, other: Any, density: np.ndarray) -> np.ndarray:
    """Return sum_ls D_ls (mn|ls), m and n of `mol`, l and s of `other`: a packed triangle."""
    atoms, shells, env = gto.conc_env(
        mol._atm, mol._bas, mol._env, other._atm, other._bas, other._env
    )
    a, b = mol.nbas, mol.nbas + other.nbas
    integrals = gto.moleintor.getints4c(
        _name(mol, "int2e"), atoms, shells, env, shls_slice=(0, a, 0, a, a, b, a, b), aosym="s4"
    )
    twice = pack(2.0 * density - np.diag(density.diagonal()))
    return np.asarray(integrals @ twice)


def diagonal_repulsion(mol: Any, other: Any, populations: np.ndarray) -> np.ndarray:
    """Return sum_l p_l (mn|ll), l of `other`: a packed triangle."""
    atoms, shells, env = gto.conc_env(
        mol._atm, mol._bas, mol._env, other._atm, other._bas, other._env
    )
    a = mol.nbas
    functions = other.ao_loc_nr()
    name = _name(mol, "int2e")
    optimizer = gto.moleintor.make_cintopt(atoms, shells, env, name)
    total = np.zeros(mol.nao * (mol.nao + 1) // 2)
    for shell in range(other.nbas):
        one = a + shell
        integrals = gto.moleintor.getints4c(
            name, atoms, shells, env, shls_slice=(0, a, 0, a, one, one + 1, one, one + 1),
            aosym="s4", cintopt=optimizer,
        )  # fmt: skip
        weights = populations[functions[shell] : functions[shell + 1]]
        # In the packed triangle of a shell the diagonal stands at 0, 2, 5, ...
        places = np.cumsum(np.arange(1, len(weights) + 1)) - 1
        total += integrals[:, places] @ weights
    return total


def _name(mol: Any, kind: str) -> str:
    return str(mol._add_suffix(kind))


def parts(
    others: Sequence[int], distances: np.ndarray, respap: float, resppc: float
) -> list[tuple[str, list[int]]]:
    """Return how the field of `others` is cut up: (level, fragments), to be added in this order.

    Each near fragment is a part of its own; all that are point charges are one.
    """
    levels = {k: level(distances[k], respap, resppc) for k in others}
    near = [(levels[k], [k]) for k in others if levels[k] != CHARGES]
    far = [k for k in others if levels[k] == CHARGES]
    return [*near, (CHARGES, far)] if far else near


def part(mol: Any, kind: str, fragments: Sequence[int], molecules: Any, data: Any) -> np.ndarray:
    """Return the sum of v^K over the fragments of one part: a packed triangle.

    `data` gives what the previous sweep has found: density, populations, charges of a fragment.
    """
    if kind == CHARGES:
        known = [molecules.fragment(k) for k in fragments]
        charges = np.concatenate(
            [
                k.atom_charges() - data.atomic_populations(i)
                for i, k in zip(fragments, known, strict=True)
            ]
        )
        return pack(attraction(mol, charges, np.concatenate([k.atom_coords() for k in known])))
    (k,) = fragments
    other = molecules.fragment(k)
    nuclei = pack(attraction(mol, other.atom_charges(), other.atom_coords()))
    if kind == ORBITALS:
        electrons = diagonal_repulsion(mol, other, data.orbital_populations(k))
    else:
        electrons = repulsion(mol, other, data.density(k))
    total: np.ndarray = nuclei + electrons
    return total
