"""From an input file and options to the calculation that they describe."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from . import gamess
from .molecule import Atom, Fragment, InputError, element, finite, make_fragments

BASIS = "STO-3G"
THRESHOLDS = (1.0, 2.0, 2.0)  # OpenFMO's defaults


@dataclasses.dataclass(frozen=True)
class Calculation:
    """What is to be calculated; no part of it depends on how many processes do it."""

    fragments: tuple[Fragment, ...]
    basis: str
    respap: float
    resppc: float
    resdim: float

    @property
    def thresholds(self) -> tuple[float, float, float]:
        """RESPAP, RESPPC, RESDIM; 0 switches an approximation off."""
        return (self.respap, self.resppc, self.resdim)


def read_xyz(text: str) -> list[Atom]:
    """Return the atoms of an XYZ file."""
    lines = text.splitlines()
    try:
        count = int(lines[0])
    except ValueError:
        raise InputError(
            f"the first line is {lines[0]!r}; the number of atoms (XYZ), or groups like $FMO "
            "(GAMESS, OpenFMO), are expected"
        ) from None
    rows = [line.split() for line in lines[2 : 2 + count]]
    if count < 1 or len(rows) < count:
        raise InputError(f"the first line promises {count} atoms, and there are {len(rows)}")
    atoms = []
    for number, row in enumerate(rows, 3):
        try:
            x, y, z = map(finite, row[1:4])
        except ValueError:
            raise InputError(
                f"line {number}: {' '.join(row)!r} is not an element with x, y and z"
            ) from None
        atoms.append(Atom(element(row[0], f"line {number}"), x, y, z))
    return atoms


def parse_fragments(text: str, count: int) -> list[list[int]]:
    """Return the atoms of each fragment of a text like `1-3,4-6,7+9+8`; there are 1 to `count`."""
    members = []
    try:
        for part in text.split(","):
            atoms: list[int] = []
            for piece in part.split("+"):
                begin, _, end = piece.partition("-")
                first, last = int(begin), int(end or begin)
                if not 1 <= first <= last <= count:
                    raise ValueError(piece)
                atoms.extend(range(first - 1, last))
            members.append(atoms)
    except ValueError:
        raise InputError(
            f"--fragments {text}: atoms from 1 to {count} as in 1-3,4-6,7+9+8 are expected, one "
            "part a fragment"
        ) from None
    return members


def read(
    path: Path,
    *,
    first: int | None = None,
    basis: str | None = None,
    thresholds: Sequence[float | None] = (None, None, None),
    fragments: str | None = None,
    charges: Sequence[int] | None = None,
) -> tuple[Calculation, gamess.Input]:
    """Return the calculation, options before the file, and all that the file says.

    `first` takes the first fragments only. Raises InputError, which names the file.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: {why}") from None
    try:
        if not text.strip():
            raise InputError("the file is empty")
        if gamess.is_gamess(text):
            said = gamess.read_gamess(text)
            if fragments or charges:
                raise InputError("--fragments and --charges go with XYZ files; change $FMO")
        else:
            atoms = read_xyz(text)
            members = parse_fragments(fragments, len(atoms)) if fragments else None
            said = gamess.Input(make_fragments(atoms, members, charges))
        chosen = tuple(said.fragments)[:first]
        if first is not None and not 1 <= first <= len(said.fragments):
            raise InputError(
                f"--first {first}: there are {len(said.fragments)} molecules; give 1 to that"
            )
        limits = [
            given if given is not None else file if file is not None else default
            for given, file, default in zip(thresholds, said.thresholds, THRESHOLDS, strict=True)
        ]
        if not all(limit >= 0 for limit in limits) or 0 < limits[1] < limits[0]:
            raise InputError(
                f"thresholds {limits}: each is 0 or more, and resppc is 0 or at least respap"
            )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return Calculation(chosen, basis or said.basis or BASIS, *limits), said
