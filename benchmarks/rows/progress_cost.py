"""What `acp.progress` costs a program that computes while nothing moves."""

import time

from harness import MS, Effort, Goal, Row, Sample, progress

import acp_mpi as acp


def _turns(seconds: float) -> float:
    """Return how many seconds one turn of a loop takes that computes for so long."""
    start, count = time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        for i in range(100_000):
            count += i & 1
    return (time.perf_counter() - start) / count


def measure(quick: bool) -> list[Row]:
    """Measure in the one process of the job."""
    effort, seconds = Effort.of(quick), 0.2 if quick else 1.0
    alone, both, used = [], [], []
    for number in range(effort.rounds):
        progress(f"cost: round {number + 1} of {effort.rounds}")
        alone.append(_turns(seconds))
        with acp.progress() as it:
            before = it.statistics().seconds
            both.append(_turns(seconds))
            used.append((it.statistics().seconds - before) / seconds)
    return [
        Row(
            "a loop in Python beside it, 50,000 turns",
            "ms",
            Sample.of(both).median * 50_000 / MS,
            "without progress",
            Sample.of(alone).median * 50_000 / MS,
            Goal(times=1.05),
        ),
        Row(
            "processor time of the thread meanwhile, of one core",
            "%",
            Sample.of(used).median * 100,
            goal=Goal(at_most=3.0),
        ),
    ]
