"""What a calculation has found, as tables and as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .fmo import Result, Sweep
from .jobs import Phase
from .molecule import formula
from .reading import Calculation

_MOST_LINES, _MOST_ATOMS = 40, 6  # --json has all


def heading(calculation: Calculation, functions: Sequence[int], groups: Sequence[int]) -> str:
    """Return what is about to be calculated, and by whom."""
    kinds = [formula(fragment) for fragment in calculation.fragments]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    limits = "/".join(f"{limit:g}" for limit in calculation.thresholds)
    sizes = " and ".join(map(str, groups))
    return (
        f"FMO2-RHF/{calculation.basis} of {len(kinds)} fragments ({counts}), {sum(functions)} "
        f"functions, thresholds {limits}\nworkers in groups of {sizes}"
    )


def sweep_line(number: int, sweep: Sweep) -> str:
    """Return the line of a sweep."""
    return f"sweep {number:2}  sum of E' {sweep.energy:18.10f}  max |dD| {sweep.change:9.2e}"


def tables(
    calculation: Calculation, result: Result, phases: Sequence[Phase], charges: Sequence[float]
) -> str:
    """Return the tables of monomers, pairs, phases and the energy."""
    fragments = calculation.fragments
    lines = ["", "  I  fragment         E'_I   charges of the atoms (Mulliken)"]
    at = 0
    for i, fragment in enumerate(fragments[:_MOST_LINES]):
        own = [
            f"{atom.symbol} {q:+.3f}" for atom, q in zip(fragment.atoms, charges[at:], strict=False)
        ]
        at += len(own)
        text = " ".join([*own[:_MOST_ATOMS], *["..."] * (len(own) > _MOST_ATOMS)])
        lines.append(f"{i + 1:3}  {fragment.name:8} {result.monomers[i]:14.8f}   {text}")
    if len(fragments) > _MOST_LINES:
        lines.append(f"     ... and {len(fragments) - _MOST_LINES} more (--json has all)")
    strongest = sorted(
        zip(result.corrections, result.scf, strict=True), key=lambda pair: -abs(pair[0])
    )
    lines += ["", "  I   J   strongest Delta_IJ"]
    lines += [f"{i + 1:3} {j + 1:3} {value:14.8f}" for value, (i, j) in strongest[:10]]
    lines += ["", f"{'phase':24}{'jobs':>6}{'seconds':>10}{'balance':>10}{'waiting':>10}"]
    for phase in _merged(phases):
        lines.append(
            f"{phase['name']:24}{phase['jobs']:6}{phase['seconds']:10.2f}"
            f"{phase['balance']:10.1%}{phase['waiting']:10.2%}"
        )
    lines += [
        "",
        f"sum of E'_I           {result.sum_monomer:18.10f}",
        f"SCF pairs           {len(result.scf):5} {sum(result.corrections):14.10f}",
        f"electrostatic pairs {len(result.electrostatic):5} {sum(result.batches):14.10f}",
        f"E(FMO2)               {result.energy:18.10f} hartree",
    ]
    return "\n".join(lines)


def write_json(
    path: Path,
    calculation: Calculation,
    result: Result,
    phases: Sequence[Phase],
    charges: Sequence[float],
    lost: Sequence[int],
    spent: Sequence[float],
) -> None:
    """Write everything as JSON; energies in hartree, times in seconds."""
    content: dict[str, Any] = {
        "energy": result.energy,
        "sum_monomer": result.sum_monomer,
        "pairs_scf": len(result.scf),
        "pairs_es": len(result.electrostatic),
        "sweeps": [{"energy": s.energy, "change": s.change} for s in result.sweeps],
        "basis": calculation.basis,
        "thresholds": list(calculation.thresholds),
        "phases": _merged(phases),
        "fragments": [
            {"name": fragment.name, "formula": formula(fragment), "charge": fragment.charge}
            for fragment in calculation.fragments
        ],
        "monomers": list(result.monomers),
        "corrections": [
            {"i": i + 1, "j": j + 1, "energy": value}
            for value, (i, j) in zip(result.corrections, result.scf, strict=True)
        ],
        "electrostatic_batches": list(result.batches),
        "atomic_charges": list(charges),
        "lost_groups": list(lost),
        "server_processor_seconds": list(spent),
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def _merged(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """Return one entry for each kind of job: all sweeps together."""
    merged = []
    for name in dict.fromkeys(phase.name for phase in phases):
        same = [phase for phase in phases if phase.name == name]
        rows = [row for phase in same for row in phase.rows]
        seconds = sum(phase.end - phase.begin for phase in same)
        groups = {row.group for row in rows}
        busy = {g: sum(r.end - r.begin for r in rows if r.group == g) for g in groups}
        spent = sum(busy.values())
        merged.append(
            {
                "name": name,
                "jobs": len(rows),
                "seconds": seconds,
                "busy": {int(g) + 1: busy[g] for g in sorted(busy)},
                # What the groups did in the time that the phase took; the rest they were idle.
                "balance": spent / (seconds * len(busy)) if busy else 1.0,
                "waiting": sum(row.waited for row in rows) / spent if spent else 0.0,
            }
        )
    return merged
