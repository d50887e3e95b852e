"""Measure two or more ways of doing the same thing side by side, and say what came out.

All sides run in the same process in alternating slices, several rounds, so that a machine that is
shared or changes its clock disturbs them alike; what is reported is the median over the rounds.
Nothing is subtracted: the loop around a call (`loop_cost`) is in the figures of every side.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import repeat
from pathlib import Path
from typing import Any

Body = Callable[[int], float | None]
"""Does the thing that many times; may return the seconds that count instead of all that passed."""

NS, US, MS = 1e-9, 1e-6, 1e-3
_start = time.monotonic()


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: that many rounds of slices of that many seconds."""

    rounds: int = 11
    slice: float = 0.02

    @classmethod
    def of(cls, quick: bool) -> "Effort":
        """Return the effort of a quick or of a full run."""
        return cls(7, 0.004) if quick else cls()


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds for one call: the median over the rounds, and what nine of ten rounds keep below."""

    median: float
    most: float

    @classmethod
    def of(cls, rounds: Sequence[float]) -> "Sample":
        """Summarise the rounds."""
        return cls(statistics.median(rounds), sorted(rounds)[len(rounds) * 9 // 10])


def interleave(effort: Effort, *bodies: Body, comm: Any = None) -> list[Sample]:
    """Measure all bodies in alternating slices; with `comm` every rank runs every slice."""
    counts = [_calibrate(body, effort.slice, comm) for body in bodies]
    seconds: list[list[float]] = [[] for _ in bodies]
    for number in range(effort.rounds):
        for turn in range(len(bodies)):
            side = (number + turn) % len(bodies)
            if comm is not None:
                comm.Barrier()
            seconds[side].append(_seconds(bodies[side], counts[side]) / counts[side])
    return [Sample.of(each) for each in seconds]


def singles(effort: Effort, *bodies: Body, pause: float = 0.0, in_a_row: int = 1) -> list[Sample]:
    """Measure single calls in turn, for calls of 10 µs and more that wake another thread.

    On a shared machine one wake-up in a hundred takes milliseconds, which would be the mean of a
    slice; the median of the calls is not disturbed. With a pause before each call the cores have
    fallen asleep. With several in a row before the turn is another's, a server that looks on for
    a while after a call is seen at that.
    """
    seconds: list[list[float]] = [[] for _ in bodies]
    for body in bodies:
        body(10)
    for number in range((10 if pause else 50) * effort.rounds):
        for turn in range(len(bodies)):
            side = (number + turn) % len(bodies)
            for _ in range(in_a_row):
                if pause:
                    time.sleep(pause)
                seconds[side].append(_seconds(bodies[side], 1))
    return [Sample.of(each) for each in seconds]


def _seconds(body: Body, count: int) -> float:
    start = time.perf_counter_ns()
    seconds = body(count)
    passed = max(time.perf_counter_ns() - start, 1) * NS
    return passed if seconds is None else seconds


def _calibrate(body: Body, target: float, comm: Any) -> int:
    """Return how many calls fill a slice; the calls warm the caches and the mappings up."""
    body(1)
    count = 1
    while True:
        elapsed = _seconds(body, count)
        if comm is not None:
            elapsed = comm.bcast(elapsed, root=0)
        if elapsed >= target / 2:
            return max(1, round(count * target / elapsed))
        count = (
            count * 2 if elapsed < target / 20 else max(count + 1, round(count * target / elapsed))
        )


def loop_cost() -> Sample:
    """Measure one turn of the loop that stands around every call."""

    def turns(count: int) -> None:
        for _ in repeat(None, count):
            pass

    return interleave(Effort(), turns)[0]


# What comes out ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Goal:
    """What a row must reach; several conditions must all hold."""

    at_most: float | None = None  # our figure, in the row's unit
    at_least: float | None = None
    speed: float | None = None  # how many times as fast as the other side
    times: float | None = None  # our time in units of the other side's
    plus: float = 0.0  # so much more than that, in the row's unit

    def conditions(self, row: "Row") -> Iterator[tuple[str, bool]]:
        """Yield each condition and whether the row holds it."""
        if self.at_most is not None:
            yield (f"≤ {_number(self.at_most)} {row.unit}", row.ours <= self.at_most)
        if self.at_least is not None:
            yield (f"≥ {_number(self.at_least)} {row.unit}", row.ours >= self.at_least)
        if row.other is None:
            return
        # not by their ratio: either may be nothing at all
        mine, theirs = (row.other, row.ours) if row.rate else (row.ours, row.other)
        if self.speed is not None:
            yield (f"≥ {_number(self.speed)} × as fast", mine * self.speed <= theirs)
        if self.times is not None:
            beyond = f" + {_number(self.plus)} {row.unit}" if self.plus else ""
            holds = mine <= self.times * theirs + self.plus
            yield (f"≤ {_number(self.times)} × the time{beyond}", holds)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    unit: str
    ours: float
    against: str = ""
    other: float | None = None
    goal: Goal = field(default_factory=Goal)
    rate: bool = False  # more is better
    note: str = ""

    @property
    def speed(self) -> float | None:
        """How many times as fast as the other side."""
        if not self.other or not self.ours:
            return None
        return self.ours / self.other if self.rate else self.other / self.ours

    @property
    def ratio(self) -> str:
        """The ratio in words: of speeds, of memory, of calls, of times where the goal is one."""
        if self.speed is None:
            return "–"
        if self.unit.endswith("B"):
            return f"{_number(1 / self.speed)} × memory"
        if self.unit == "calls":
            return f"{_number(1 / self.speed)} × calls"
        if self.goal.times is not None:
            return f"{_number(1 / self.speed)} × time"
        return f"{_number(self.speed)} × speed"

    @property
    def reached(self) -> bool | None:
        """Whether all conditions of the goal hold; None without a goal."""
        verdicts = [holds for _, holds in self.goal.conditions(self)]
        return all(verdicts) if verdicts else None

    def cells(self) -> list[str]:
        """Return the cells of the printed line."""
        other = "–" if self.other is None else f"{_number(self.other)} {self.unit}"
        return [
            self.what,
            f"{_number(self.ours)} {self.unit}",
            f"{other} {self.against}".strip(),
            self.ratio,
            ", ".join(text for text, _ in self.goal.conditions(self)) or "–",
            {True: "yes", False: "NO", None: ""}[self.reached],
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the row for `--json`."""
        extra = {"speed": self.speed, "reached": self.reached}
        return asdict(self) | extra

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Row":
        """Return the row that `as_dict` described."""
        known = {name: values[name] for name in cls.__dataclass_fields__}
        return cls(**(known | {"goal": Goal(**values["goal"])}))


def _number(value: float) -> str:
    """Three significant digits, without an exponent."""
    size = abs(value)
    if size >= 100 or size == int(size):
        return f"{value:,.0f}"
    return f"{value:.{2 if size >= 1 else 3}f}" if size < 10 else f"{value:.1f}"


def table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned text, each note below its row."""
    lines = [["what", "acp_mpi", "the other side", "ratio", "goal", "reached"]]
    lines += [row.cells() for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    printed = [text[0], "─" * max(len(line) for line in text)]
    for line, row in zip(text[1:], rows, strict=True):
        printed.append(line)
        if row.note:
            printed.append(f"    {row.note}")
    return "\n".join(printed)


def progress(text: str) -> None:
    """Say on stderr what is being measured."""
    print(f"[{time.monotonic() - _start:6.1f} s] {text}", file=sys.stderr, flush=True)


def wait_for_quiet(seconds: float = 20.0) -> float:
    """Wait a while until other programs leave the cores alone; return the share that they use."""
    deadline = time.monotonic() + seconds
    while True:
        before = _processor_times()
        time.sleep(0.3)
        idle, total = (b - a for a, b in zip(before, _processor_times(), strict=True))
        share = 1 - idle / total if total else 0.0
        if share < 0.05 or time.monotonic() >= deadline:
            return share


def _processor_times() -> tuple[int, int]:
    """Return the ticks in which all cores were idle, and all ticks."""
    values = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return values[3] + values[4], sum(values)


def positive(text: str) -> int:
    """Return a whole number from 1, for argparse."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def mpi_version() -> str:
    """Return name and version of this Python's MPI, which is not started."""
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    return " ".join(MPI.Get_library_version().partition(",")[0].split("\n")[0].split())


def environment() -> dict[str, Any]:
    """Return what the figures depend on: the machine and the versions."""
    mpi = mpi_version()
    from mpi4py import MPI

    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "machine": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "kernel": platform.release(),
        "MPI": mpi,
        "MPI name": MPI.get_vendor()[0],
        "python": platform.python_version(),
        "mpi4py": version("mpi4py"),
        "numpy": version("numpy"),
        "acp-mpi": version("acp-mpi"),
        "one turn of an empty loop (in all figures), ns": round(loop_cost().median / NS, 1),
    }


def print_environment(surroundings: dict[str, Any]) -> None:
    """Print what `environment` has found, and an empty line."""
    print("\n".join(f"{name}: {value}" for name, value in surroundings.items()), end="\n\n")
