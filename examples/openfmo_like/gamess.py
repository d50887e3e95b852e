"""The input of OpenFMO and GAMESS: groups that begin with `$NAME` and end with `$END`."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from .molecule import SYMBOLS, Atom, Fragment, InputError, element, finite, make_fragments

_GROUP = re.compile(r"^\s*\$(\w+)(.*?)\$END\b", re.I | re.M | re.S)
_ASSIGNMENT = re.compile(r"(\w+)\s*(?:\(\s*\d+\s*\))?\s*=\s*")
_BOHR = 0.52917724924  # Å, as GAMESS has it


class Input(NamedTuple):
    """What an input file says; None where it is silent."""

    fragments: list[Fragment]
    basis: str | None = None
    thresholds: tuple[float | None, float | None, float | None] = (None, None, None)
    groups: int | None = None
    servers: int | None = None


def is_gamess(text: str) -> bool:
    """Return whether the text has groups as GAMESS writes them, and is not an XYZ file."""
    return re.search(r"^\s*\$\w+", text, re.M) is not None


def read_gamess(text: str) -> Input:
    """Return the calculation that the groups FMO, FMOXYZ, BASIS and GDDI describe."""
    text = re.sub(r"^!.*$", "", text, flags=re.M)
    groups = {name.upper(): body for name, body in _GROUP.findall(text)}
    for name in ("FMO", "FMOXYZ"):
        if name not in groups:
            found = ", ".join(f"${other}" for other in groups) or "none"
            raise InputError(f"no ${name} ... $END in the input (groups found: {found})")
    if groups.get("FMOBND", "").strip():
        raise InputError(
            "$FMOBND cuts covalent bonds, which is not supported; make whole molecules the "
            "fragments"
        )
    fmo = _assignments(groups["FMO"])
    contrl = _assignments(groups.get("CONTRL", ""))
    in_bohr = contrl.get("UNITS", ["ANGS"])[0].upper().startswith("BOHR")
    if fmo.get("NBODY", ["2"]) != ["2"]:
        raise InputError(f"NBODY={fmo['NBODY'][0]}: only pairs (NBODY=2) are supported")
    atoms = _atoms(groups["FMOXYZ"], _BOHR if in_bohr else 1.0)
    count = _count(fmo, "NFRAG")
    members = _members(fmo.get("INDAT"), len(atoms))
    if count is not None and members is not None and count != len(members):
        raise InputError(f"NFRAG={count}, but INDAT has {len(members)} fragments")
    charges = _integers(fmo["ICHARG"], "ICHARG") if "ICHARG" in fmo else None
    fragments = make_fragments(atoms, members, charges, fmo.get("FRGNAM"))
    if count is not None and count != len(fragments):
        raise InputError(f"NFRAG={count}, but {len(fragments)} molecules were found; give INDAT")
    gddi = _assignments(groups.get("GDDI", ""))
    return Input(
        fragments,
        _basis(_assignments(groups.get("BASIS", ""))),
        (_number(fmo, "RESPAP"), _number(fmo, "RESPPC"), _number(fmo, "RESDIM")),
        _count(gddi, "NGROUP"),
        _count(gddi, "NIOPROCS"),
    )


def _assignments(body: str) -> dict[str, list[str]]:
    """Return what stands in a group: NAME=value, or NAME(1)=value,value,..."""
    parts = _ASSIGNMENT.split(body)
    return {
        name.upper(): [value for value in re.split(r"[\s,]+", values) if value]
        for name, values in zip(parts[1::2], parts[2::2], strict=True)
    }


def _integers(values: Sequence[str], name: str) -> list[int]:
    try:
        return [int(value) for value in values]
    except ValueError:
        raise InputError(f"{name}={','.join(values)}: whole numbers are expected") from None


def _count(group: dict[str, list[str]], name: str) -> int | None:
    """Return how many there are of something, None if that is not said."""
    if not group.get(name):
        return None
    number = _integers(group[name][:1], name)[0]
    if number < 0:
        raise InputError(f"{name}={number}: it is a number of something, and not negative")
    return number


def _number(group: dict[str, list[str]], name: str) -> float | None:
    if not group.get(name):
        return None
    try:
        return float(group[name][0].upper().replace("D", "E"))
    except ValueError:
        raise InputError(f"{name}={group[name][0]}: a number is expected") from None


def _basis(group: dict[str, list[str]]) -> str | None:
    """Return the basis as PySCF calls it: GBASIS=N31 NGAUSS=6 NDFUNC=1 is 6-31G*."""
    if not group.get("GBASIS"):
        return None
    name = group["GBASIS"][0].upper()
    gauss = group.get("NGAUSS", ["6"])[0]
    if name == "STO":
        return f"STO-{group.get('NGAUSS', ['3'])[0]}G"
    if name in ("N21", "N31", "N311"):
        return f"{gauss}-{name[1:]}G{'*' * bool(_count(group, 'NDFUNC'))}" + (
            "*" if _count(group, "NPFUNC") else ""
        )
    return name


def _atoms(body: str, scale: float) -> list[Atom]:
    """Return the atoms of lines with a label, a symbol or nuclear charge, and x y z."""
    atoms = []
    for line in filter(str.strip, body.splitlines()):
        words = line.split()
        where = f"$FMOXYZ, {line.strip()!r}"
        if len(words) < 5:
            raise InputError(f"{where}: a label, an element, x, y and z are expected")
        # OpenFMO takes the column with the symbol, GAMESS the second, whatever the first says.
        first = not words[1][0].isalpha() and words[0].capitalize() in SYMBOLS
        name = words[0 if first else 1]
        try:
            x, y, z = (finite(word) * scale for word in words[2:5])
        except ValueError:
            raise InputError(f"{where}: x, y and z are numbers") from None
        atoms.append(Atom(element(name, where), x, y, z))
    return atoms


def _members(indat: list[str] | None, atoms: int) -> list[list[int]] | None:
    """Return the atoms of each fragment; INDAT has GAMESS's two forms.

    Either the fragment of each atom, or 0 and then for each fragment its atoms, `7,-9` meaning 7
    to 9, with a 0 at its end.
    """
    if not indat:
        return None
    numbers = _integers(indat, "INDAT")
    members: list[list[int]] = []
    if numbers[0] != 0:
        if len(numbers) != atoms or min(numbers) < 1:
            raise InputError(f"INDAT names {len(numbers)} fragments for {atoms} atoms")
        members = [[] for _ in range(max(numbers))]
        for atom, fragment in enumerate(numbers):
            members[fragment - 1].append(atom)
        return members
    current: list[int] = []
    for number in numbers[1:]:
        if number == 0:
            members.append(current)
            current = []
        elif number < 0 and current:
            current.extend(range(current[-1] + 1, -number))
        else:
            current.append(number - 1)
    return [*members, current] if current else members
