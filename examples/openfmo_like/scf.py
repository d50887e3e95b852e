"""Hartree-Fock of a fragment, or a pair, in the field of the others."""

from typing import Any, NamedTuple

import numpy as np
from pyscf import scf

from .places import triangle

_ENERGY, _GRADIENT, _CYCLES = 1e-11, 1e-6, 100
_KEPT = 2**29  # bytes of (mn|ls) that are kept; of more than that PySCF takes care


class NotConverged(ArithmeticError):
    """The self-consistent field did not settle."""


class Solution(NamedTuple):
    """What RHF of X finds."""

    energy: float  # E_X
    internal: float  # E'_X = E_X - Tr(D^X V^X)
    density: np.ndarray  # D^X, n x n
    overlap: np.ndarray  # S^X, n x n


class Integrals(NamedTuple):
    """What RHF needs of X alone."""

    core: np.ndarray  # h = T + V_nuc(atoms of X)
    overlap: np.ndarray  # S^X
    repulsion: np.ndarray | None  # (mn|ls), each set of eight equal ones once


def integrals(mol: Any) -> Integrals:
    """Return the integrals of X."""
    overlap = mol.intor_symmetric("int1e_ovlp")
    kept = 8 * triangle(triangle(mol.nao)) <= _KEPT
    repulsion = mol.intor("int2e", aosym="s8") if kept else None
    return Integrals(scf.hf.get_hcore(mol), overlap, repulsion)


def solve(mol: Any, own: Integrals, field: np.ndarray, guess: np.ndarray | None) -> Solution:
    """Return the solution of F = h + V^X + J(D) - K(D)/2, in hartree.

    `field` is V^X, n x n; `guess` is the density to begin with (None: that of the atoms).
    """
    core = own.core + field
    mean = scf.hf.RHF(mol)
    mean.get_hcore = lambda *_: core
    mean.get_ovlp = lambda *_: own.overlap
    mean._eri = own.repulsion
    mean.conv_tol, mean.conv_tol_grad, mean.max_cycle = _ENERGY, _GRADIENT, _CYCLES
    mean.verbose, mean.chkfile = 0, None
    mean.kernel(dm0=mean.get_init_guess(mol, "minao") if guess is None else guess)
    if not mean.converged:
        raise NotConverged(f"RHF did not converge in {_CYCLES} cycles")
    density = np.asarray(mean.make_rdm1())
    energy = float(mean.e_tot)
    return Solution(energy, energy - float(np.vdot(density, field)), density, own.overlap)


def join(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the direct sum of two densities, the guess for a pair."""
    n = len(a)
    both = np.zeros((n + len(b), n + len(b)))
    both[:n, :n], both[n:, n:] = a, b
    return both


def relaxation(pair: np.ndarray, unrelaxed: np.ndarray, field: np.ndarray) -> float:
    """Return Tr[(D^IJ - D^I (+) D^J) V^IJ]."""
    return float(np.vdot(pair - unrelaxed, field))
