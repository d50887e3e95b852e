"""Copies between two other hosts, beside a bare stream between the same two."""

import os
import statistics
import time
from itertools import repeat
from pathlib import Path

import numpy as np
from harness import Body, Effort, Goal, Row, interleave

import acp_mpi as acp
from rows import bare_tcp

SIZE = 64 << 20
WITHOUT_CODES = ", without codes" * (os.environ.get("ACP_LINKS") == "crc")
CALLER, SOURCE, TARGET = range(3)
PIECES = (64 << 10, 256 << 10, 1 << 20, SIZE)  # of one call of send and recv; the best counts


def _copy(dst: int, src: int) -> Body:
    copy, complete = acp.copy, acp.complete

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            complete(copy(dst, src, SIZE))

    return loop


def _on_the_wire() -> int:
    """Return the bytes that this host's interface has received and sent."""
    folder = Path("/sys/class/net/eth0/statistics")
    return sum(int((folder / name).read_text()) for name in ("rx_bytes", "tx_bytes"))


class Streams:
    """The source pours when the caller says so. Made by all ranks together."""

    def __init__(self) -> None:
        self._words = acp.zeros(3, np.int64)  # turn, which stream, how often; or its nanoseconds
        self._gas: list[int] = acp.allgather(acp.query_ga(self._words))
        self._turn = 0
        self._bodies = []
        self._buffer = np.ones(SIZE, np.uint8)
        for piece in PIECES:
            connection = bare_tcp.connect(SOURCE, TARGET)
            if connection and acp.rank() == SOURCE:
                self._bodies.append(bare_tcp.pour(connection, self._buffer, piece))
            elif connection:
                bare_tcp.fill(connection, self._buffer, piece)

    def body(self, number: int) -> Body:
        """Return a loop over one of the streams, timed by the source. On the caller."""

        def loop(count: int) -> float:
            self._command(number, count)
            acp.wait_until(self._gas[CALLER], ">=", self._turn)
            return int(self._words[1]) * 1e-9

        return loop

    def release(self) -> None:
        """End `serve`. On the caller."""
        self._command(0, 0)

    def _command(self, number: int, count: int) -> None:
        self._turn += 1
        there = self._gas[SOURCE]
        acp.put(there + 8, np.array([number, count], np.int64), flag=(there, self._turn))

    def serve(self) -> None:
        """Pour until the caller releases. On the source."""
        here, there = self._gas[SOURCE], self._gas[CALLER]
        while True:
            self._turn += 1
            acp.wait_until(here, ">=", self._turn)
            number, count = map(int, self._words[1:])
            if not count:
                return
            seconds = self._bodies[number](count)
            assert seconds is not None
            spent = np.array([seconds * 1e9], np.int64)
            acp.put(there + 8, spent, flag=(there, self._turn))


def _spent(pid: int) -> float:
    """Return the processor seconds of a process of this machine, all threads."""
    return time.clock_gettime((~pid << 3) | 2)


def _ns_a_byte(effort: Effort, pid: int, *bodies: Body) -> list[float]:
    """Return what a process spends for each byte of each body, the median of interleaved loops."""
    times = 4
    spent: list[list[float]] = [[] for _ in bodies]
    for _ in range(effort.rounds):
        for body, each in zip(bodies, spent, strict=True):
            before = _spent(pid)
            body(times)
            each.append((_spent(pid) - before) * 1e9 / (times * SIZE))
    return [statistics.median(each) for each in spent]


def _rows(effort: Effort, streams: Streams, copy: Body, pids: list[int]) -> list[Row]:
    before = _on_the_wire()
    copy(4)
    passed = (_on_the_wire() - before) / 4
    ours, *bare = interleave(effort, copy, *map(streams.body, range(len(PIECES))))
    best = min(bare, key=lambda sample: sample.median)
    number = bare.index(best)
    piece = PIECES[number]
    what = f"third-party copy {SIZE >> 20} MiB{WITHOUT_CODES}"
    spent = {
        end: _ns_a_byte(effort, pids[rank], copy, streams.body(number))
        for end, rank in {"source": SOURCE, "target": TARGET}.items()
    }
    return [
        Row(
            what,
            "GB/s",
            SIZE / ours.median / 1e9,
            "stream",
            SIZE / best.median / 1e9,
            Goal(speed=0.9 if WITHOUT_CODES else 0.65),
            rate=True,
            note=f"the stream in pieces of {piece >> 10} KiB, the best",
        ),
        *(
            Row(
                f"{what}: processor time of its {end} a byte",
                "ns",
                own,
                "stream",
                stream,
                Goal(at_most=stream + (0.03 if WITHOUT_CODES else 0.12)),
            )
            for end, (own, stream) in spent.items()
        ),
        Row(f"{what}: through the caller's host", "%", 100 * passed / SIZE, goal=Goal(at_most=1)),
    ]


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    rows: list[Row] = []
    with acp.init():
        mine = acp.empty(SIZE, np.uint8)
        mine[:] = acp.rank()
        gas = acp.allgather(acp.query_ga(mine))
        pids = acp.allgather(os.getpid())
        streams = Streams()
        if acp.rank() == CALLER:
            rows = _rows(Effort.of(quick), streams, _copy(gas[TARGET], gas[SOURCE]), pids)
            streams.release()
        elif acp.rank() == SOURCE:
            streams.serve()
        acp.sync()
        if acp.rank() == TARGET and (mine != SOURCE).any():
            raise RuntimeError("a third-party copy did not bring what the source has")
    return rows
