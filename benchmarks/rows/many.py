"""Many operations in one call, against a Python loop over mpi4py and against memcpy."""

from itertools import repeat
from typing import Any

import numpy as np
from harness import Body, Effort, Goal, Row, interleave
from mpi4py import MPI

import acp_mpi as acp
from rows.mpi_side import Window

M = 1e6
SPREAD = 200 << 20
IN_CACHE, AT_RANDOM = 4096, 1 << 20
LOOP = 1000  # elements of one pass of the Python loop
ROWS, ROW, PITCH = 4096, 1024, 2048


def _copy_many(dsts: np.ndarray, srcs: np.ndarray, size: int) -> Body:
    copy_many, complete = acp.copy_many, acp.complete

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            complete(copy_many(dsts, srcs, size))

    return loop


def _fetch_add_many(gas: np.ndarray, values: np.ndarray) -> Body:
    call = acp.fetch_add8_many

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            call(gas, values)

    return loop


def _get_loop(window: Window, places: np.ndarray) -> Body:
    """Return passes of one `Get` an element, with one `Flush` at the end."""
    get, flush = window.win.Get, window.win.Flush
    buffers: list[Any] = [[np.empty(1, np.int64), 8, MPI.BYTE] for _ in places]
    there: list[Any] = [[offset, 8, MPI.BYTE] for offset in places.tolist()]

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            for buffer, place in zip(buffers, there, strict=True):
                get(buffer, 1, place)
            flush(1)

    return loop


def _fetch_loop(window: Window, places: np.ndarray) -> Body:
    call, flush, op = window.win.Fetch_and_op, window.win.Flush, MPI.SUM
    one: Any = [np.ones(1, np.int64), 1, MPI.INT64_T]
    buffers: list[Any] = [[np.empty(1, np.int64), 1, MPI.INT64_T] for _ in places]
    offsets = places.tolist()

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            for buffer, offset in zip(buffers, offsets, strict=True):
                call(one, buffer, 1, offset, op)
            flush(1)

    return loop


def _words(effort: Effort, window: Window, own: int, there: int) -> list[Row]:
    rows = []
    random = np.random.default_rng(1)
    for where, count, span, least in [
        ("in cache", IN_CACHE, IN_CACHE * 8, 100),
        ("at random over 200 MiB", AT_RANDOM, SPREAD, 15),
    ]:
        places = random.integers(0, span // 8, count) * 8
        srcs, dsts = there + places, own + 8 * np.arange(count)
        pairs = [
            ("copy_many of 8 B", _copy_many(dsts, srcs, 8), _get_loop, "Get in a loop"),
            (
                "fetch_add8_many",
                _fetch_add_many(srcs, np.ones(count, np.int64)),
                _fetch_loop,
                "Fetch_and_op in a loop",
            ),
        ]
        for what, ours, loop, against in pairs:
            a, b = interleave(effort, ours, loop(window, places[:LOOP]))
            rows.append(
                Row(
                    f"{what}, {where}",
                    "M/s",
                    count / a.median / M,
                    against,
                    LOOP / b.median / M,
                    Goal(at_least=least),
                    rate=True,
                )
            )
    return rows


def _rows_against_memcpy(effort: Effort, own: int, there: int) -> list[Row]:
    rows = []
    for what, pitch in [("contiguous", ROW), ("every second one", PITCH)]:
        steps = pitch * np.arange(ROWS)
        here, far = (acp.view(ga, (ROWS, pitch), np.uint8)[:, :ROW] for ga in (own, there))

        def copyto(count: int, here: np.ndarray = here, far: np.ndarray = far) -> None:
            for _ in repeat(None, count):
                np.copyto(here, far)

        a, b = interleave(effort, _copy_many(own + steps, there + steps, ROW), copyto)
        amount = ROWS * ROW / 1e9
        rows.append(
            Row(
                f"copy_many of {ROWS} rows of 1 KiB, {what}",
                "GB/s",
                amount / a.median,
                "np.copyto",
                amount / b.median,
                Goal(speed=0.8),
                rate=True,
            )
        )
    return rows


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm, effort = MPI.COMM_WORLD, Effort.of(quick)
    rows: list[Row] = []
    with acp.init(comm), Window(comm, SPREAD if comm.rank else 8) as window:
        mine = acp.zeros(SPREAD if comm.rank else max(ROWS * PITCH, AT_RANDOM * 8), np.uint8)
        gas = comm.allgather(acp.query_ga(mine))
        if comm.rank == 0:
            rows = _words(effort, window, gas[0], gas[1])
            rows += _rows_against_memcpy(effort, gas[0], gas[1])
        acp.sync()
    return rows
