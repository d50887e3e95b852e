"""Pairs too far apart for an SCF of their own: electrostatics of the monomers' densities."""

from typing import Any

import numpy as np

from .basis import pack
from .field import attraction, repulsion


def interaction(mol_i: Any, mol_j: Any, density_i: np.ndarray, density_j: np.ndarray) -> float:
    """Return Tr D^I u^J + Tr D^J u^I + sum D^I_mn D^J_ls (mn|ls) + sum Z_A Z_B / R_AB."""
    z_i, r_i = mol_i.atom_charges(), mol_i.atom_coords()
    z_j, r_j = mol_j.atom_charges(), mol_j.atom_coords()
    apart = np.linalg.norm(r_i[:, None] - r_j[None], axis=-1)
    coulomb = repulsion(mol_i, mol_j, density_j)
    twice = pack(2.0 * density_i - np.diag(density_i.diagonal()))
    return float(
        np.vdot(density_i, attraction(mol_i, z_j, r_j))
        + np.vdot(density_j, attraction(mol_j, z_i, r_i))
        + np.dot(twice, coulomb)
        + (z_i[:, None] * z_j[None] / apart).sum()
    )
