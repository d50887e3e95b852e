"""Copies between two other ranks: global memory, and NumPy arrays that their owners registered."""

import os
from itertools import repeat

import numpy as np
from harness import US, Body, Effort, Goal, Row, interleave, progress, singles
from mpi4py import MPI

import acp_mpi as acp
from rows import native
from rows.cores import ASLEEP, busy_cores
from rows.mpi_side import Window

SMALL, LONG, LARGE = 1 << 20, 16 << 20, 64 << 20
SOURCE, TARGET = 1, 2


def _copy(dst: int, src: int, size: int) -> Body:
    copy, complete = acp.copy, acp.complete

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            complete(copy(dst, src, size))

    return loop


def _copyto(dst: np.ndarray, src: np.ndarray) -> Body:
    def loop(count: int) -> None:
        for _ in repeat(None, count):
            np.copyto(dst, src)

    return loop


def _through_caller(window: Window, size: int) -> Body:
    win, buffer = window.win, np.zeros(size, np.uint8)
    spec, place = [buffer, size, MPI.BYTE], [0, size, MPI.BYTE]

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            win.Get(spec, SOURCE, place)
            win.Flush(SOURCE)
            win.Put(spec, TARGET, place)
            win.Flush(TARGET)

    return loop


def _check(arrived: np.ndarray) -> None:
    """Raise RuntimeError unless these are the bytes of the source, each of which is its rank."""
    if (arrived != SOURCE).any():
        raise RuntimeError("a third-party copy did not bring what the source has")


def _global_memory(comm: MPI.Intracomm, effort: Effort) -> list[Row]:
    rows = []
    with Window(comm, LARGE) as window:
        mine = acp.empty(LARGE, np.uint8)
        mine[:] = comm.rank
        gas = comm.allgather(acp.query_ga(mine))
        for size in (SMALL, LARGE) if comm.rank == 0 else ():
            views = [acp.view(gas[rank], (size,), np.uint8) for rank in (TARGET, SOURCE)]
            ours, copyto, both = interleave(
                effort,
                _copy(gas[TARGET], gas[SOURCE], size),
                _copyto(*views),
                _through_caller(window, size),
            )
            views[0][:] = 0
            acp.complete(acp.copy(gas[TARGET], gas[SOURCE], size))
            _check(views[0])
            what = f"third-party copy {size >> 20} MiB, global memory"
            rows.append(
                Row(what, "µs", ours.median / US, "np.copyto", copyto.median / US, Goal(speed=0.85))
            )
            rows.append(
                Row(
                    what,
                    "µs",
                    ours.median / US,
                    "Get + Put through the caller",
                    both.median / US,
                    Goal(speed=1.6),
                )
            )
        acp.sync()
    return rows


def _numpy_memory(comm: MPI.Intracomm, effort: Effort, size: int) -> list[Row]:
    rows = []
    array = np.full(size, comm.rank, np.uint8)
    native.allow_access()
    with acp.register_memory(array) as key:
        ranks = comm.allgather((acp.query_ga(key), array.ctypes.data, os.getpid()))
        if comm.rank == 0:
            ours = _copy(ranks[TARGET][0], ranks[SOURCE][0], size)
            bare = native.bare(ranks[TARGET][2], array, ranks[TARGET][1], write=True)
            what = f"third-party copy {size >> 20} MiB between NumPy arrays"
            idle = singles(effort, ours, bare, pause=ASLEEP)
            with busy_cores():
                busy = singles(effort, ours, bare)
            ours(1)
            _check(acp.get(ranks[TARGET][0], np.empty(size, np.uint8)))
            goals = (0.7, 0.8) if size == SMALL else (None, None)
            for where, (a, b), speed in zip(("idle", "busy"), (idle, busy), goals, strict=True):
                rows.append(
                    Row(
                        f"{what}, {where} cores",
                        "µs",
                        a.median / US,
                        "process_vm_writev",
                        b.median / US,
                        Goal(speed=speed),
                        note=f"nine of ten within {a.most / US:.0f} and {b.most / US:.0f} µs",
                    )
                )
        acp.sync()
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    with acp.init(comm):
        rows = _global_memory(comm, effort)
        progress("third party: NumPy arrays")
        return rows + [row for size in (SMALL, LONG) for row in _numpy_memory(comm, effort, size)]
