"""FMO2-RHF: sweeps over the monomers until they agree, then pairs, then the sum.

E(FMO2) = sum_I E'_I + sum_{I>J} Delta_IJ. The master's part: it sees energies and distances, no
matrix, and needs the standard library only.
"""

import array
import dataclasses
from collections.abc import Callable, Sequence

import acp_mpi as acp

from . import orders
from .dump import Dump
from .orders import Row
from .places import Places
from .reading import Calculation
from .scheduler import Scheduler

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


def calculate(
    calculation: Calculation,
    places: Places,
    scheduler: Scheduler,
    dump: Dump,
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
        kind = orders.MONOMER if number else orders.FREE
        rows = scheduler.run(kind, number - 1, places.count, largest)
        monomers = [row.value for row in rows]
        sweeps.append(Sweep(sum(monomers), max(row.change for row in rows)))
        tell(number, sweeps[-1])
        dump.after_sweep([dataclasses.astuple(sweep) for sweep in sweeps], monomers, places)
    last = len(sweeps) - 1
    scf, distant = sort_pairs(places, calculation.resdim)
    pair_rows = _resume(scheduler, orders.PAIR, last, len(scf), scf, dump)
    batches = -(-len(distant) // orders.BATCH)
    batch_rows = _resume(scheduler, orders.DISTANT, last, batches, distant, dump)
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
    places: Places, resdim: float
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the pairs for an SCF, largest first, and the electrostatic ones."""
    near: list[tuple[int, int]] = []
    far: list[tuple[int, int]] = []
    for i in range(places.count):
        row = array.array("d", bytes(8 * places.count))
        acp.get(places.distances + i * 8 * places.count, row)
        for j in range(i):
            (near if not resdim or row[j] < resdim else far).append((i, j))
    near.sort(key=lambda pair: -(places.functions[pair[0]] + places.functions[pair[1]]))
    return near, far


def _resume(
    scheduler: Scheduler,
    kind: int,
    sweep: int,
    jobs: int,
    pairs: Sequence[tuple[int, int]],
    dump: Dump,
) -> list[Row]:
    """Have those jobs of a phase done that the dump has no result of."""
    name = orders.NAMES[kind]
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
