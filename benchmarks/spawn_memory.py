"""Repeat paper 001, section 5: what a master and its groups of workers take, in five ways.

    python benchmarks/spawn_memory.py [--quick] [--other PYTHON] [--json FILE] [--svg FILE]

33 processes: a master sends 4 bytes to the first of each group, which tells its group by MPI. Ours
joins groups that plain mpiexec starts with a master without MPI; against it MPI_Comm_spawn by the
master, the same program with our Spawn, one mpirun with a communicator for each group, and the
same processes without us: an idle Python, and mpi4py with a window of the same size. What our
Spawn starts beside the children is counted apart. Start it without mpiexec. `--other` names a
Python with the other MPI, by default the one of the environment beside this one.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from both import NAMES, pythons, surroundings
from harness import Goal, Row, print_environment, progress, table, wait_for_quiet
from jobs import JobError
from layouts import Course, Helpers, Layout, Outcome, median, most, run
from memory_svg import draw

LAYOUTS = tuple(Layout(groups, 32 // groups) for groups in (1, 2, 4, 8, 16, 32))
WAYS = {"ours": "acp_mpi", "plain": "without us", "spawn": "Spawn", "own": "our Spawn",
        "split": "one mpirun"}  # fmt: skip
QUANTITIES = {"heap": "Heap (mallinfo2)", "pss": "PSS", "uss": "USS"}
MB = 1e6

Key = tuple[str, str, Layout]  # way, MPI, layout


def _measure(mpis: dict[str, str], layouts: Sequence[Layout], rounds: int) -> dict[Key, Outcome]:
    """Run every way with every MPI; those whose start is compared in turn, several times."""
    results = {}
    for layout in layouts:
        wait_for_quiet()
        for mpi, python in mpis.items():
            progress(f"{layout} with {NAMES[mpi]}")
            seen: dict[str, list[Outcome]] = {way: [] for way in WAYS}
            ways = list(WAYS)
            for turn in range(rounds):
                for way in ways[turn:] + ways[:turn]:
                    if turn == 0 or way in ("ours", "plain"):
                        seen[way].append(run(way, layout, python))
            for way, outcomes in seen.items():
                results[way, mpi, layout] = median(outcomes)
    return results


def _tables(results: dict[Key, Outcome]) -> Iterator[str]:
    """Yield what the master and the roots took at most, and the times to start."""
    columns = list(dict.fromkeys((way, mpi) for way, mpi, _ in results))
    layouts = list(dict.fromkeys(layout for _, _, layout in results))
    head = [f"{WAYS[way]}, {NAMES[mpi]}" for way, mpi in columns]
    for quantity, name in QUANTITIES.items():
        for who in ("master", "roots"):
            lines = [
                [f"{most(_courses(results[way, mpi, layout], who), quantity) / MB:.2f}"
                 for way, mpi in columns]
                for layout in layouts
            ]  # fmt: skip
            yield _aligned(f"{name} of the {who} at most, MB", head, layouts, lines)
    mpis = list(dict.fromkeys(mpi for _, mpi in columns))
    kinds = [(mpi, kind) for mpi in mpis for kind in results["own", mpi, layouts[0]].helpers]
    lines = [[_helpers(results["own", mpi, layout].helpers[kind]) for mpi, kind in kinds]
             for layout in layouts]  # fmt: skip
    title = "Beside the children of our Spawn: how many, PSS and USS of all, MB"
    yield _aligned(title, [f"{kind:>8}, {NAMES[mpi]}" for mpi, kind in kinds], layouts, lines)
    lines = [[f"{_ready(way, results[way, mpi, layout]):.2f}" for way, mpi in columns]
             for layout in layouts]  # fmt: skip
    yield _aligned("From the start until all had joined, s", head, layouts, lines)


def _ready(way: str, outcome: Outcome) -> float:
    """Return the seconds until all processes could begin: those of plain MPI without the window."""
    return outcome.seconds["MPI"] if way == "plain" else outcome.joined


def _helpers(helpers: Helpers) -> str:
    return f"{helpers.number}: {helpers.pss / MB:.2f} {helpers.uss / MB:.2f}"


def _courses(outcome: Outcome, who: str) -> Sequence[Course]:
    return [outcome.master] if who == "master" else outcome.roots


def _aligned(title: str, head: list[str], layouts: Sequence[Layout], lines: list[list[str]]) -> str:
    text = [title, " " * 8 + "  ".join(head)]
    for layout, line in zip(layouts, lines, strict=True):
        cells = (cell.rjust(len(name)) for cell, name in zip(line, head, strict=True))
        text.append(f"{layout!s:<8}" + "  ".join(cells))
    return "\n".join(text)


def _rows(results: dict[Key, Outcome]) -> Iterator[Row]:
    """Yield the goals."""
    mpis = list(dict.fromkeys(mpi for _, mpi, _ in results))
    layouts = list(dict.fromkeys(layout for _, _, layout in results))

    def heaps(way: str, who: str, mpi: str) -> list[float]:
        return [most(_courses(results[way, mpi, layout], who), "heap") / MB for layout in layouts]

    masters = [heap for mpi in mpis for heap in heaps("ours", "master", mpi)]
    idle = [heap for mpi in mpis for heap in heaps("plain", "master", mpi)]
    yield Row("heap of the master", "MB", max(masters), "without us", max(idle), Goal(at_most=2.0))
    yield Row("heap of the master, above", "MB", max(masters) - min(idle), goal=Goal(at_most=0.3))
    yield Row("heap of the master, layouts apart", "MB", max(masters) - min(masters),
              goal=Goal(at_most=0.05))  # fmt: skip
    for mpi in mpis:
        spawned = max(heaps("spawn", "master", mpi))
        yield Row("heap of the master", "MB", max(masters), f"Spawn, {NAMES[mpi]}", spawned)
        pairs = zip(heaps("ours", "roots", mpi), heaps("plain", "roots", mpi), strict=True)
        above = [ours - plain for ours, plain in pairs]
        yield Row(f"heap of a group's first rank, above plain {NAMES[mpi]}", "MB", max(above),
                  goal=Goal(at_most=0.3))  # fmt: skip
    for mpi in mpis:
        starters = [results["own", mpi, layout].helpers["starter"].uss for layout in layouts]
        yield Row(f"private memory of the starter, our Spawn, {NAMES[mpi]}", "MB",
                  max(starters) / MB)  # fmt: skip
    for mpi in mpis:
        for layout in layouts:
            ours, plain, spawn = (results[way, mpi, layout] for way in ("ours", "plain", "spawn"))
            what = f"start to joined {layout}, {NAMES[mpi]}"
            note = f"plain with a window {plain.joined:.2f} s, Spawn {spawn.joined:.2f} s"
            ready = _ready("plain", plain)
            yield Row(what, "s", ours.joined, "plain mpiexec", ready, Goal(times=1.15), note=note)


def _record(results: dict[Key, Outcome]) -> list[dict[str, object]]:
    return [
        {"way": way, "MPI": NAMES[mpi], "groups": layout.groups, "size": layout.size,
         "seconds": dict(outcome.seconds),
         "master": {stage: memory._asdict() for stage, memory in outcome.master.items()},
         "roots": [{stage: memory._asdict() for stage, memory in root.items()}
                   for root in outcome.roots],
         "helpers": {kind: helpers._asdict() for kind, helpers in outcome.helpers.items()}}
        for (way, mpi, layout), outcome in results.items()
    ]  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run all jobs, print the tables and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two layouts, each job once")
    parser.add_argument("--other", metavar="PYTHON", help="a Python with the other MPI")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures there")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="draw memory by stage there")
    options = parser.parse_args(argv)
    layouts = (LAYOUTS[0], LAYOUTS[-1]) if options.quick else LAYOUTS
    try:
        mpis = pythons(options.other)
        results = _measure(mpis, layouts, 1 if options.quick else 3)
    except JobError as reason:
        print(reason, file=sys.stderr)
        return 1
    here = surroundings(mpis)
    print_environment(here)
    print("\n\n".join(_tables(results)), end="\n\n")
    rows = list(_rows(results))
    print(table(rows))
    if options.json:
        record = {"environment": here, "jobs": _record(results),
                  "rows": [row.as_dict() for row in rows]}  # fmt: skip
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    if options.svg:
        options.svg.write_text(draw(results, WAYS, NAMES))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
