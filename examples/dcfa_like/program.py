"""Begin, check, compute, and show what came out."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import acp_mpi as acp

from . import report
from .device import Device, choose
from .field import Rows, initial, rows_of
from .going_on import Lost
from .loop import Found, Task, file_of, run
from .options import parse


class Refused(Exception):
    """The program cannot do what it is asked for."""


def main(argv: Sequence[str]) -> int:
    """Run the program on this rank; return the exit code, the same on all."""
    options = parse(argv)
    with acp.init():
        ranks = acp.ranks()
        try:
            solve(options, ranks)
        except Refused as reason:
            if acp.rank() == ranks[0]:
                print(f"dcfa_like: {reason}", file=sys.stderr)
            return 1
    return 0


def solve(options: argparse.Namespace, ranks: list[int]) -> None:
    """Compute, and have the first rank report. Collective; Refused on all ranks or none."""
    place, first = ranks.index(acp.rank()), acp.rank() == ranks[0]
    plate = (options.size, options.columns)
    if options.size < len(ranks) + 2:
        raise Refused(
            f"--size must be at least the number of ranks and two edges, {len(ranks) + 2}"
        )
    start, wrong = 0, ""
    if first:
        try:
            start = prepare(options.out, plate, options.restart)
        except (OSError, ValueError) as reason:
            wrong = str(reason)
    start, wrong = acp.bcast((start, wrong), root=ranks[0])
    if wrong:
        raise Refused(wrong)
    if start >= options.steps:
        raise Refused(f"--out {options.out} has step {start}; give more --steps")
    device, reasons = choose(options.device, place)
    found_by = acp.allgather((device.name if device else "", reasons), ranks=ranks)
    if device is None or not all(name for name, _ in found_by):
        raise Refused(next(reasons[-1] for name, reasons in found_by if not name))
    task = Task(
        plate, start, options.steps, options.every, options.out, options.staged,
        not options.without_delegate, options.go_on and not options.without_delegate,
    )  # fmt: skip
    if first:
        print(report.heading(task, found_by), flush=True)
    found = solved(task, rows_of(place, len(ranks), plate), device, ranks)
    clocks = acp.allgather(found.clock.marks, ranks=ranks)
    if first:
        print(report.text(task, found, clocks))
        report.write_pictures(task, clocks)


def solved(task: Task, rows: Rows, device: Device, ranks: list[int]) -> Found:
    """Compute all steps; where the delegate dies, from the last file on without it."""
    changes: list[tuple[int, float]] = []
    try:
        return run(task, rows, device, ranks, changes)
    except Lost:
        first = acp.rank() == ranks[0]
        last = prepare(task.folder, task.plate, restart=True) if first else 0
        last = acp.bcast(last, root=ranks[0], ranks=ranks)
    if first:
        print(f"the delegate has died: on from step {last} by threads of the ranks", flush=True)
    changes[:] = [(step, change) for step, change in changes if step <= last]
    task = task._replace(start=last, delegate=False)
    return run(task, rows, device, ranks, changes)


def prepare(folder: Path, plate: tuple[int, int], restart: bool) -> int:
    """Return the step to start from, whose file is there; ValueError says what is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    steps = [
        int(m[1]) for f in folder.iterdir() if (m := re.fullmatch(r"field-(\d+)\.npy", f.name))
    ]
    if steps and not restart:
        raise ValueError(f"--out {folder} has fields of another run; give --restart, or a new one")
    if not steps:
        np.save(file_of(folder, 0), initial(plate))
        return 0
    last = file_of(folder, max(steps))
    shape = np.load(last, mmap_mode="r").shape
    if shape != plate:
        raise ValueError(f"{last} is of a plate of {shape}, not {plate}; give the same --size")
    return max(steps)
