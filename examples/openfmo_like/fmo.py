"""FMO2-RHF: sweeps over the monomers until they agree, then pairs, then the sum.

E(FMO2) = sum_I E'_I + sum_{I>J} Delta_IJ. The master's part: it sees energies and distances, no
matrix, and needs the standard library only. How jobs get done it leaves to who runs them.
"""

import array
import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from .dump import Dump
from .jobs import BATCH, DISTANT, FREE, MONOMER, NAMES, PAIR, Row
from .places import COPIES, Memory, Places
from .reading import Calculation

Save = Callable[[Callable[[], list[Row]]], None]

ENERGY, DENSITY = 1e-8, 1e-5  # when the monomers agree: |Delta sum E'_I| and max|Delta D|
MOST_SWEEPS = 60


class NotSelfConsistent(ArithmeticError):
    """The monomers did not agree."""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """One pass over the monomers."""

    energy: float  # sum of E'_I
    change: float  # max |D - D of the sweep before|


@dataclasses.dataclass(frozen=True)
class Result:
    """The energies, in hartree."""

    energy: float
    sum_monomer: float
    sweeps: tuple[Sweep, ...]
    monomers: tuple[float, ...]  # E'_I
    scf: tuple[tuple[int, int], ...]
    corrections: tuple[float, ...]  # Delta_IJ of the SCF pairs
    electrostatic: tuple[tuple[int, int], ...]
    batches: tuple[float, ...]  # Delta_IJ of the electrostatic pairs, summed by job


class Scheduler(Protocol):
    """Who has jobs done."""

    def run(
        self,
        kind: int,
        sweep: int,
        jobs: int,
        sequence: Sequence[int],
        *,
        pairs: Sequence[tuple[int, int]] = (),
        save: Save | None = None,
    ) -> list[Row]:
        """Have the jobs of `sequence` done, in that order, and return the rows of all `jobs`.

        `sweep` is that whose densities are read. `save` is called now and then with a function
        that returns the rows so far. Failed if a job has no solution.
        """


def calculate(
    calculation: Calculation,
    places: Places,
    scheduler: Scheduler,
    dump: Dump,
    memory: Memory,
    tell: Callable[[int, Sweep], None],
) -> Result:
    """Return the energy; goes on from where `dump` is, and writes it from time to time.

    `tell` gets each sweep. NotSelfConsistent after 60 sweeps.
    """
    largest = sorted(range(places.count), key=lambda i: (-places.functions[i], i))
    sweeps = [Sweep(*pair) for pair in dump.sweeps]
    monomers = list(dump.monomers)
    while not agree(sweeps):
        number = len(sweeps)
        if number > MOST_SWEEPS:
            raise NotSelfConsistent(
                f"the monomers do not agree after {MOST_SWEEPS} sweeps: the last one changed the "
                f"energy by {sweeps[-1].energy - sweeps[-2].energy:.2e} hartree and a density by "
                f"{sweeps[-1].change:.2e}"
            )
        kind = MONOMER if number else FREE
        rows = scheduler.run(kind, number - 1, places.count, largest)
        monomers = [row.value for row in rows]
        sweeps.append(Sweep(sum(monomers), max(row.change for row in rows)))
        tell(number, sweeps[-1])
        dump.after_sweep([dataclasses.astuple(sweep) for sweep in sweeps], monomers, places)
    last = len(sweeps) - 1
    scf, distant = sort_pairs(places, calculation.resdim, memory)
    pair_rows = _resume(scheduler, PAIR, last, len(scf), scf, dump)
    batches = -(-len(distant) // BATCH)
    batch_rows = _resume(scheduler, DISTANT, last, batches, distant, dump)
    corrections = [
        row.value - monomers[i] - monomers[j] + row.extra
        for row, (i, j) in zip(pair_rows, scf, strict=True)
    ]
    values = [row.value for row in batch_rows]
    total = sum(monomers)
    return Result(
        total + sum(corrections) + sum(values), total, tuple(sweeps), tuple(monomers),
        tuple(scf), tuple(corrections), tuple(distant), tuple(values),
    )  # fmt: skip


def agree(sweeps: Sequence[Sweep]) -> bool:
    """Return whether the last two sweeps found the same; the first one has no field."""
    if len(sweeps) < 2:
        return False
    before, last = sweeps[-2:]
    return abs(last.energy - before.energy) < ENERGY and last.change < DENSITY


def sort_pairs(
    places: Places, resdim: float, memory: Memory
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the pairs for an SCF, largest first, and the electrostatic ones."""
    near: list[tuple[int, int]] = []
    far: list[tuple[int, int]] = []
    for i in range(places.count):
        row = array.array("d", bytes(8 * places.count))
        memory.get(places.distances + i * 8 * places.count, row)
        for j in range(i):
            (near if not resdim or row[j] < resdim else far).append((i, j))
    near.sort(key=lambda pair: -(places.functions[pair[0]] + places.functions[pair[1]]))
    return near, far


def atomic_charges(
    calculation: Calculation, places: Places, sweep: int, memory: Memory
) -> list[float]:
    """Return Z_A - P_A of all atoms."""
    atoms = [atom for fragment in calculation.fragments for atom in fragment.atoms]
    populations = array.array("d", bytes(8 * len(atoms)))
    memory.get(places.atomic_populations[sweep % COPIES], populations)
    return [atom.number - p for atom, p in zip(atoms, populations, strict=True)]


def _resume(
    scheduler: Scheduler,
    kind: int,
    sweep: int,
    jobs: int,
    pairs: Sequence[tuple[int, int]],
    dump: Dump,
) -> list[Row]:
    """Have those jobs of a phase done that the dump has no result of."""
    name = NAMES[kind]
    known = dump.results(name)
    left = [job for job in range(jobs) if job not in known]

    def merged(rows: Sequence[Row]) -> dict[int, tuple[float, float]]:
        new = {job: (row.value, row.extra) for job, row in enumerate(rows) if row.stamp > 0}
        return known | new

    rows = scheduler.run(
        kind, sweep, jobs, left, pairs=pairs,
        save=lambda rows: dump.now_and_then(name, lambda: merged(rows())),
    )  # fmt: skip
    found = merged(rows)
    dump.after_phase(name, found)
    return [Row(1, *found[job]) for job in range(jobs)]
