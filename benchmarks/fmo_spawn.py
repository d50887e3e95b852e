"""Measure the example openfmo_like against the same program as OpenFMO does it without us.

    python benchmarks/fmo_spawn.py [--molecules 16] [--basis STO-3G] [--groups 2] [--rounds 3]

Against ours the master spawns a data server, which serves, and the groups of workers; densities,
populations, jobs and results travel as messages. Physics, plan and places are the same modules, so
all energies must be equal to the last bit. Master and server wait in MPI, which takes a core each,
or, as a second opponent, sleep between two looks for messages. All sides run in turn.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from harness import (
    Goal,
    Row,
    environment,
    positive,
    print_environment,
    progress,
    table,
    wait_for_quiet,
)
from jobs import JobError

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import launch

PROCESS = Path(__file__).with_name("fmo_process.py")
WATER = Path(__file__).parents[1] / "examples" / "openfmo_like" / "water16.xyz"
SIDES = {"ours": 0.0, "Spawn": 0.0, "Spawn, naps": 0.0002}  # seconds between two looks
ENERGIES = ("energy", "monomers", "corrections", "electrostatic_batches", "sweeps")
LIMIT = 600.0
MB = 1e6


class Outcome(NamedTuple):
    """What one calculation found and took, in seconds and bytes."""

    energies: str  # all of them, to the last bit
    all: float  # from the start of the first process to the end of the last
    phases: float
    processor: float  # of all processes together, the launchers too
    waiting: float  # the share of the groups' time
    took: Mapping[str, Mapping[str, float]]  # by part, the most of its processes


def run(side: str, layout: Sequence[str], groups: int, size: int) -> Outcome:
    """Calculate once; all processes of the job are gone when this returns."""
    with tempfile.TemporaryDirectory(prefix="acp-bench-") as name:
        folder, seen = Path(name), Path(name, "seen")
        seen.mkdir()
        arguments = [*layout, "--json", f"{folder}/result.json", "--dump", f"{folder}/dump"]
        program = [sys.executable, str(PROCESS), str(seen), str(SIDES[side])]
        if side == "ours":
            command = _macprun([*program, "acp", *arguments], groups, size)
        else:
            command = [*launch.mpiexec(1), *program, "master", *arguments]
        began, spent = time.monotonic(), _children()
        with launch.Job(command, folder / "log") as job:
            try:
                status = job.wait(LIMIT)
            except launch.Hang as reason:
                raise JobError(f"{side}: {str(reason)[:2000]}") from None
            seconds = time.monotonic() - began
            if status:
                raise JobError(f"{side}: exit status {status}\n{job.output[-2000:]}")
        return _read(folder, seen, seconds, _children() - spent)


def _macprun(program: Sequence[str], groups: int, size: int) -> list[str]:
    """Return the command line that starts our side: no part but the workers has MPI."""
    parts: list[tuple[str, int, list[str]]] = [("master", 1, []), ("server", 1, [])]
    parts += [(f"worker{number + 1}", size, ["--mpi"]) for number in range(groups)]
    words = [sys.executable, "-m", "acp_mpi.launch.macprun"]
    for number, (name, count, more) in enumerate(parts):
        words += [":"] * bool(number)
        words += ["-n", str(count), "--name", name, *more, *program]
    return words


def _children() -> float:
    """Return the processor time of all descendants that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _read(folder: Path, seen: Path, seconds: float, processor: float) -> Outcome:
    """Return what the processes wrote."""
    result = json.loads((folder / "result.json").read_text())
    phases = result["phases"]
    busy = sum(sum(phase["busy"].values()) for phase in phases)
    waited = sum(phase["waiting"] * sum(phase["busy"].values()) for phase in phases)
    took: dict[str, dict[str, float]] = {}
    for path in seen.iterdir():
        most = took.setdefault(path.name.partition(".")[0], {})
        for what, value in json.loads(path.read_text()).items():
            most[what] = max(value, most.get(what, 0))
    if served := result["server_processor_seconds"]:  # without reading the input
        took["server"]["processor"] = max(served)
    if set(took) != {"master", "server"}:
        raise JobError(f"{', '.join(took) or 'none'} of master and server wrote what it took")
    energies = json.dumps([result[name] for name in ENERGIES])
    spent = sum(phase["seconds"] for phase in phases)
    return Outcome(energies, seconds, spent, processor, waited / busy, took)


def _rows(results: Mapping[str, Sequence[Outcome]]) -> Iterator[Row]:
    """Yield the goals: not slower, less memory, an idle server."""

    def median(side: str, what: str, part: str = "") -> float:
        values: list[float] = [
            outcome.took[part][what] if part else getattr(outcome, what)
            for outcome in results[side]
        ]
        return statistics.median(values)

    others = [side for side in SIDES if side != "ours"]
    for what, name in (
        ("phases", "all phases"),
        ("all", "from start to end"),
        ("processor", "processor time of all"),
    ):
        for side in others:
            yield Row(name, "s", median("ours", what), side, median(side, what), Goal(times=1.0))
    for side in others:
        share, other = 100 * median("ours", "waiting"), 100 * median(side, "waiting")
        yield Row("waiting of the workers", "%", share, side, other, Goal(at_most=2.0, times=1.0))
    idle = Goal(at_most=0.01 * median("ours", "phases"))
    for part, goal in (("master", Goal(times=1.0)), ("server", idle)):
        for side in others:
            seconds, other = (median(each, "processor", part) for each in ("ours", side))
            yield Row(f"processor time of the {part}", "s", seconds, side, other, goal)
    for part, what in itertools.product(("master", "server"), ("heap", "uss", "pss")):
        ours, other = (median(side, what, part) / MB for side in ("ours", "Spawn"))
        yield Row(f"{what} of the {part}", "MB", ours, "Spawn", other, Goal(at_most=other))


def main() -> int:
    """Run all sides in turn, print the table and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--molecules", type=positive, default=16)
    parser.add_argument("--basis", default="STO-3G")
    parser.add_argument("--groups", type=positive, default=2)
    parser.add_argument("--group-size", type=positive, default=1)
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures there")
    options = parser.parse_args()
    groups, size = options.groups, options.group_size
    layout = [str(WATER), "--first", str(options.molecules), "--basis", options.basis]
    layout += ["--groups", str(groups), "--group-size", str(size), "--servers", "1"]
    results: dict[str, list[Outcome]] = {side: [] for side in SIDES}
    try:
        for number in range(options.rounds):
            wait_for_quiet()
            for turn in range(len(SIDES)):
                side = list(SIDES)[(number + turn) % len(SIDES)]
                progress(f"round {number + 1}: {side}")
                results[side].append(run(side, layout, groups, size))
    except JobError as reason:
        print(reason, file=sys.stderr)
        return 1
    surroundings = environment()
    print_environment(surroundings)
    rows = list(_rows(results))
    print(table(rows))
    different = {outcome.energies for outcome in itertools.chain(*results.values())}
    same = len(different) == 1
    print(f"\nenergies {'equal to the last bit' if same else 'DIFFER'}")
    if options.json:
        record = {"environment": surroundings, "rows": [row.as_dict() for row in rows]}
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
