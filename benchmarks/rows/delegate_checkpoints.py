"""Checkpoints by a delegate, beside bare file calls; and a program with output and without."""

import itertools
import os
import sys
import tempfile
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from harness import MS, Effort, Goal, Row, interleave

import acp_mpi as acp

NBYTES = 32 << 20
ENTRIES = 100_000
SIZE, STEPS, EVERY = 1024, 100, 10


def write(path: Path, data: Any) -> None:
    """Write bytes, and have them flushed."""
    with open(path, "wb") as file:
        os.pwrite(file.fileno(), data, 0)
        os.fsync(file.fileno())


def of_items(
    effort: Effort, folder: Path, what: str, items: dict[str, Any], data: Any
) -> list[Row]:
    """Measure what is kept and restored, beside a file of the same bytes."""
    folder.mkdir()
    d, steps, bare = acp.delegate(), itertools.count(1), folder / "bare"
    into = bytearray(memoryview(data).nbytes)

    def kept(count: int) -> None:
        for _ in repeat(None, count):
            d.checkpoint(folder / "kept", items, next(steps)).wait()

    def written(count: int) -> None:
        for _ in repeat(None, count):
            write(bare, data)

    def restored(count: int) -> None:
        for _ in repeat(None, count):
            d.restore(folder / "kept", items)

    def read(count: int) -> None:
        for _ in repeat(None, count):
            with open(bare, "rb", 0) as file:
                file.readinto(into)

    times = interleave(effort, kept, written, restored, read)
    keep, plain, restore, plain_read = (sample.median / MS for sample in times)
    return [
        Row(f"checkpoint of {what}", "ms", keep, "pwrite and fsync", plain, Goal(times=1 / 0.95)),
        Row(f"restore of {what}", "ms", restore, "read", plain_read),
    ]


def of_a_program(effort: Effort, folder: Path) -> Row:
    """Measure the loop of examples/dcfa_like, with a file every few steps and with one."""
    sys.path.append(str(Path(__file__).parents[2] / "examples"))
    from dcfa_like.clock import LOOP, seconds
    from dcfa_like.device import NumPy
    from dcfa_like.field import initial, rows_of
    from dcfa_like.loop import Task, file_of, run

    plate = (SIZE, SIZE)
    np.save(file_of(folder, 0), initial(plate))

    def loop(every: int) -> float:
        task = Task(plate, 0, STEPS, every, folder, staged=False, delegate=True, goes_on=False)
        found = run(task, rows_of(0, 1, plate), NumPy(0), acp.ranks(), [])
        spent = seconds(found.clock.marks)
        return sum(spent[phase] for phase in LOOP)

    def often(count: int) -> float:
        return sum(loop(EVERY) for _ in repeat(None, count))

    def once(count: int) -> float:
        return sum(loop(STEPS) for _ in repeat(None, count))

    many, one = (sample.median / MS for sample in interleave(effort, often, once))
    what = f"dcfa_like, {STEPS} steps of {SIZE} x {SIZE} by one rank, a file every {EVERY}"
    return Row(what, "ms", many, "one file at the end", one, Goal(times=1.05))


def measure(quick: bool) -> list[Row]:
    """Measure as the one rank of the job."""
    effort = Effort(3 if quick else 7, 0.01)
    with acp.init(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        array = acp.zeros(NBYTES // 8)
        array[:] = np.arange(NBYTES // 8)
        table = acp.Map(ranks=[0], key="q", value="d")
        table.update(np.arange(ENTRIES), np.arange(ENTRIES) / 3)
        rows = of_items(effort, folder / "array", "32 MiB", {"x": array}, array.data)
        what = f"a map of {ENTRIES} entries"
        rows += of_items(effort, folder / "map", what, {"m": table}, bytes(16 * ENTRIES))
        rows.append(of_a_program(effort, folder))
    return rows
