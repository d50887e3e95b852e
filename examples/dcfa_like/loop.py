"""Figure 9: init, input, a loop that computes and sends edge rows, reduce, output, finalize."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import acp_mpi as acp

from .clock import Clock
from .device import Device
from .field import Rows
from .going_on import Mortal, Threads
from .halo import Direct, Halo, Staged
from .itself import Itself


class Task(NamedTuple):
    """What is to be computed, the same on all ranks."""

    plate: tuple[int, int]
    start: int  # the step of the file that is read
    steps: int
    every: int  # steps from one output to the next
    folder: Path
    staged: bool
    delegate: bool
    goes_on: bool  # also when the delegate has died


def file_of(folder: Path, step: int) -> Path:
    """Return the file of the plate after some steps."""
    return folder / f"field-{step:08d}.npy"


class Found(NamedTuple):
    """What a run has found."""

    changes: list[tuple[int, float]]  # the largest change of a step, at outputs
    clock: Clock
    statistics: acp.DelegateStatistics | None


def run(
    task: Task, rows: Rows, device: Device, ranks: list[int], changes: list[tuple[int, float]]
) -> Found:
    """Compute all steps, on every rank; returns when all files are written.

    Adds to `changes`. Lost, on all ranks: the delegate has died, and the task goes on.
    """
    clock, width = Clock(), task.plate[1]
    clock("init")
    d: Any = acp.delegate() if task.delegate else Itself(device, ranks)  # init
    if task.goes_on:
        d = Mortal(d, ranks) if task.delegate else Threads(device, ranks)
    arrays = [device.array((rows.held.stop - rows.held.start, width)) for _ in range(2)]
    halo: Halo = Staged(arrays, ranks, device) if task.staged else Direct(arrays, ranks)
    compile_all(device, *arrays)

    clock("input")
    begin = rows.held.start * width
    for array in arrays:
        d.load(file_of(task.folder, task.start), array, at=begin).wait()  # input
    acp.barrier(ranks)

    reduced: list[tuple[int, Any]] = []
    saved: Any = None
    part = {"at": rows.saved.start * width, "shape": task.plate, "parts": len(ranks)}
    for step in range(task.start + 1, task.steps + 1):  # loop
        old, new = arrays[(step - 1) % 2], arrays[step % 2]
        if saved is not None and step > 1 and (step - 2) % task.every == 0:
            clock("output")
            saved.copied()  # what it writes is overwritten now
        advance(device, halo, old, new, step, clock)
        if step % task.every and step < task.steps:
            continue
        change = np.array([device.change(old, new)])
        clock("reduce")
        changes += [(at, float(each.wait()[0])) for at, each in reduced]
        reduced = [(step, d.allreduce(change, "max"))]  # reduce
        clock("output")
        if saved is not None:
            saved.wait()
        saved = d.save(file_of(task.folder, step), new[rows.saved_of_held], **part)  # output

    clock("reduce")
    changes += [(at, float(each.wait()[0])) for at, each in reduced]
    clock("output")
    if saved is not None:
        saved.wait()
    clock("finalize")
    acp.barrier(ranks)
    statistics = d.statistics() if hasattr(d, "statistics") else None
    d.close()  # finalize
    clock("end")
    return Found(changes, clock, statistics)


def compile_all(device: Device, old: Any, new: Any) -> None:
    """Have the kernels compiled, of plates that are cold still, as the first steps would."""
    last = new.shape[0] - 1
    device.relax(old, new, 1, 2)
    device.relax(old, new, 2, last - 1)
    device.change(old, new)


def advance(device: Device, halo: Halo, old: Any, new: Any, step: int, clock: Clock) -> None:
    """Do a step: edge rows first, so that they are under way while the device does the others."""
    clock("compute")
    last = new.shape[0] - 1
    device.relax(old, new, 1, 2)
    if last > 2:
        device.relax(old, new, last - 1, last)
    device.finish()
    clock("halo")
    halo.send(step)
    clock("compute")
    device.relax(old, new, 2, last - 1)
    device.finish()
    clock("halo")
    halo.receive(step)
    clock("compute")
