"""Atoms, and the fragments that they form. Lengths in ångström. Standard library only."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

SYMBOLS = (
    "H", "He", "Li", "Be", "B", "C", "N", "O", "F", "Ne",
    "Na", "Mg", "Al", "Si", "P", "S", "Cl",
)  # fmt: skip
_METALS = {"Li", "Be", "Na", "Mg", "Al"}

# Van der Waals radii, which measure the distance between fragments.
RADII = {
    "H": 1.20, "He": 1.20, "Li": 1.37, "Be": 1.45, "B": 1.45, "C": 1.50, "N": 1.50, "O": 1.40,
    "F": 1.35, "Ne": 1.30, "Na": 1.57, "Mg": 1.36, "Al": 1.24, "Si": 1.17, "P": 1.80, "S": 1.75,
    "Cl": 1.70,
}  # fmt: skip

# Covalent radii (Cordero et al., Dalton Trans. 2008, 2832), which tell bonds.
_COVALENT = {
    "H": 0.31, "He": 0.28, "B": 0.84, "C": 0.76, "N": 0.71, "O": 0.66, "F": 0.57, "Ne": 0.58,
    "Si": 1.11, "P": 1.07, "S": 1.05, "Cl": 1.02,
}  # fmt: skip
_BOND_SLACK = 0.4
_TOO_CLOSE = 0.3


class InputError(ValueError):
    """The input does not describe a calculation that this program can do."""


class Atom(NamedTuple):
    """An element's symbol and a place."""

    symbol: str
    x: float
    y: float
    z: float

    @property
    def number(self) -> int:
        """The nuclear charge."""
        return SYMBOLS.index(self.symbol) + 1

    @property
    def place(self) -> tuple[float, float, float]:
        """The coordinates."""
        return (self.x, self.y, self.z)


class Fragment(NamedTuple):
    """A molecule, or several, with closed shells."""

    name: str
    atoms: tuple[Atom, ...]
    charge: int = 0

    @property
    def electrons(self) -> int:
        """How many electrons it has."""
        return sum(atom.number for atom in self.atoms) - self.charge


def finite(text: str) -> float:
    """Return a number; ValueError for a text that is none, or no place: nan, inf."""
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def element(text: str, where: str) -> str:
    """Return the symbol of an element given as symbol or nuclear charge."""
    symbol = text.capitalize()
    if text.replace(".", "", 1).isdigit():
        number = float(text)
        if number == int(number) and 1 <= number <= len(SYMBOLS):
            symbol = SYMBOLS[int(number) - 1]
    if symbol not in SYMBOLS:
        raise InputError(f"{where}: unknown element {text!r}; H to Ne and Na to Cl are known")
    return symbol


def bonds(atoms: Sequence[Atom]) -> Iterable[tuple[int, int]]:
    """Yield the pairs of atoms with a covalent bond; metals have none, only contacts.

    Raises InputError for two atoms in one place.
    """
    for i, a in enumerate(atoms):
        for j, b in enumerate(atoms[:i]):
            apart = math.dist(a.place, b.place)
            if apart < _TOO_CLOSE:
                raise InputError(
                    f"atoms {j + 1} ({b.symbol}) and {i + 1} ({a.symbol}) overlap: they are "
                    f"{apart:.3f} Å apart; check the coordinates and their unit (ångström)"
                )
            if a.symbol in _METALS or b.symbol in _METALS:
                continue
            if apart < _COVALENT[a.symbol] + _COVALENT[b.symbol] + _BOND_SLACK:
                yield j, i


def molecules(atoms: Sequence[Atom]) -> list[list[int]]:
    """Return the atoms of each molecule, found by their bonds, in the order of the input."""
    root = list(range(len(atoms)))

    def top(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for i, j in bonds(atoms):
        low, high = sorted((top(i), top(j)))
        root[high] = low
    found: dict[int, list[int]] = {}
    for i in range(len(atoms)):
        found.setdefault(top(i), []).append(i)
    return list(found.values())


def make_fragments(
    atoms: Sequence[Atom],
    members: Sequence[Sequence[int]] | None = None,
    charges: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> list[Fragment]:
    """Return the fragments: `members` says which atoms each one has; None: one for each molecule.

    `charges` (default 0) and `names` go with them. Raises InputError if a fragment has an odd
    number of electrons, or if a bond would be cut.
    """
    if not atoms:
        raise InputError("there are no atoms")
    given = members is not None
    cut = list(bonds(atoms)) if given else []
    members = molecules(atoms) if members is None else members
    charges = [0] * len(members) if charges is None else charges
    names = [f"{i + 1}" for i in range(len(members))] if names is None else names
    if not len(members) == len(charges) == len(names):
        raise InputError(
            f"{len(members)} fragments, {len(charges)} charges and {len(names)} names; "
            "give as many of each"
        )
    home = {atom: place for place, of_one in enumerate(members) for atom in of_one}
    if sorted(home) != list(range(len(atoms))) or sum(map(len, members)) != len(atoms):
        raise InputError(f"the fragments do not have each of the {len(atoms)} atoms once")
    for i, j in cut:
        if home[i] != home[j]:
            raise InputError(
                f"fragments {names[home[i]]} and {names[home[j]]} are joined by a bond between "
                f"atoms {i + 1} ({atoms[i].symbol}) and {j + 1} ({atoms[j].symbol}): covalent cuts "
                "are not supported; put both atoms into one fragment"
            )
    made = [
        Fragment(name, tuple(atoms[i] for i in of_one), charge)
        for name, of_one, charge in zip(names, members, charges, strict=True)
    ]
    for fragment in made:
        if fragment.electrons < 2 or fragment.electrons % 2:
            raise InputError(
                f"fragment {fragment.name} ({formula(fragment)}, charge {fragment.charge:+d}) has "
                f"{fragment.electrons} electrons; an even number is needed: give its charge, or "
                "other fragments"
            )
    return made


def formula(fragment: Fragment) -> str:
    """Return the sum formula, by alphabet."""
    symbols = [atom.symbol for atom in fragment.atoms]
    counts = ((symbol, symbols.count(symbol)) for symbol in sorted(set(symbols)))
    return "".join(f"{symbol}{count if count > 1 else ''}" for symbol, count in counts)


def distance(a: Fragment, b: Fragment) -> float:
    """Return R(I,J) = min |R_A - R_B| / (r_A + r_B), a number without unit."""
    return min(
        math.dist(p.place, q.place) / (RADII[p.symbol] + RADII[q.symbol])
        for p in a.atoms
        for q in b.atoms
    )
