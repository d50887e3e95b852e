"""What the target of an operation does meanwhile, at the word of the rank that measures."""

import contextlib
import time
from collections.abc import Iterator
from enum import Enum

import numpy as np
from harness import US, Body, Effort, Goal, Row, Sample, interleave, progress, singles

import acp_mpi as acp

COMPUTE_SECONDS = 0.4


class Activity(Enum):
    """One way to be no help."""

    IDLE = "idle"
    PYTHON = "Python loop"
    NUMPY = "NumPy loop"
    SLEEP = "time.sleep"


_LEAVE = 0
_CODES = dict(enumerate(Activity, 1))


def compute(activity: Activity, until: float, stop: np.ndarray | None = None, turn: int = 0) -> int:
    """Do it until that time, or until `stop[0]` reaches `turn`; return how many times."""
    total, x, y = 0, np.ones(4096), np.full(4096, 1e-9)  # within the core's own cache
    times = 0
    while time.perf_counter() < until and (stop is None or stop[0] < turn):
        if activity is Activity.PYTHON:
            for i in range(1000):
                total += i * i
        elif activity is Activity.NUMPY:
            for _ in range(10):
                np.add(x, y, out=x)
        else:
            time.sleep(0.4 if stop is None else 0.005)
        times += 1
    return times


class Target:
    """Rank 1 does what rank 0 says while rank 0 measures. Made by all ranks together."""

    def __init__(self) -> None:
        self._words = acp.zeros(4, np.int64)  # turn, activity, the turn to stop, the turn begun
        self._gas: list[int] = acp.allgather(acp.query_ga(self._words))
        self._turn = 0

    @contextlib.contextmanager
    def doing(self, activity: Activity) -> Iterator[None]:
        """Let rank 1 do it inside the `with`. On rank 0."""
        code = next(code for code, each in _CODES.items() if each is activity)
        self._command(code)
        acp.wait_until(self._gas[0] + 24, ">=", self._turn)
        time.sleep(0.002)
        yield
        acp.put(self._gas[1] + 16, np.array([self._turn], np.int64))

    def release(self) -> None:
        """End `serve`. On rank 0."""
        self._command(_LEAVE)

    def _command(self, code: int) -> None:
        self._turn += 1
        acp.put(self._gas[1] + 8, np.array([code], np.int64), flag=(self._gas[1], self._turn))

    def serve(self) -> None:
        """Do what rank 0 says until it releases. On rank 1."""
        turn, mine = 0, self._gas[1]
        while True:
            turn += 1
            acp.wait_until(mine, ">=", turn)
            code = int(self._words[1])
            if code == _LEAVE:
                return
            acp.put(self._gas[0] + 24, np.array([turn], np.int64))
            if _CODES[code] is Activity.IDLE:
                acp.wait_until(mine + 16, ">=", turn)
            else:
                compute(_CODES[code], float("inf"), self._words[2:], turn)


BUSY = (Activity.PYTHON, Activity.NUMPY, Activity.SLEEP)


def against_idle(
    effort: Effort, target: Target, bodies: dict[str, Body], in_a_row: int = 0
) -> list[Row]:
    """Return the time of each loop at the worst of what rank 1 can do, against an idle rank 1.

    With `in_a_row` it is that of single calls, for those that wake a thread of rank 1.
    """
    rounds: dict[tuple[str, Activity], list[float]] = {}
    one = Effort(1, effort.slice)
    for number in range(effort.rounds):
        progress(f"busy: round {number + 1} of {effort.rounds}")
        for activity in Activity:
            with target.doing(activity):
                if in_a_row:
                    samples = singles(one, *bodies.values(), in_a_row=in_a_row)
                else:
                    samples = [interleave(one, body)[0] for body in bodies.values()]
                for what, sample in zip(bodies, samples, strict=True):
                    rounds.setdefault((what, activity), []).append(sample.median)
    medians = {key: Sample.of(values).median for key, values in rounds.items()}
    rows = []
    for what in bodies:
        idle = medians[what, Activity.IDLE]
        times = {activity.value: medians[what, activity] / idle for activity in BUSY}
        worst = max(BUSY, key=lambda activity: medians[what, activity])
        note = ", ".join(f"{name} {ratio:.2f}" for name, ratio in times.items())
        goal = Goal() if what.startswith("mpi4py") else Goal(times=1.3)
        rows.append(
            Row(
                f"{what}, target in a {worst.value}",
                "µs",
                medians[what, worst] / US,
                "target idle",
                idle / US,
                goal,
                note=f"time against idle: {note}",
            )
        )
    return rows
