"""`acp.progress` against the progress thread that MPICH has itself, in jobs that take turns."""

import json
import os
import sys
from pathlib import Path

from harness import MS, Effort, Goal, Row, Sample, progress
from jobs import LAUNCHER, JobError, launcher, run

PROCESS = str(Path(__file__).parents[1] / "progress_process.py")
SIDES: dict[str, tuple[list[str], dict[str, str]]] = {
    "acp.progress": (["helped"], {}),
    "MPICH's thread": ([], {"MPIR_CVAR_ASYNC_PROGRESS": "1"}),
    "nobody": ([], {}),
}


def _round(seconds: float, arguments: list[str], more: dict[str, str]) -> dict[str, float]:
    command = [launcher(), "-n", "2", sys.executable, PROCESS, str(seconds), *arguments]
    output, status = run(command, os.environ | LAUNCHER | more)
    if status:
        raise JobError(f"{' '.join(command)}: exit status {status}\n{output[-2000:]}")
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


def measure(quick: bool) -> list[Row]:
    """Measure in one process, which starts the jobs."""
    effort, seconds = Effort.of(quick), 0.2 if quick else 0.5
    rounds: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number in range(effort.rounds):
        progress(f"mpich: round {number + 1} of {effort.rounds}")
        for side, (arguments, more) in SIDES.items():
            rounds[side].append(_round(seconds, arguments, more))

    def median(side: str, what: str) -> float:
        return Sample.of([figures[what] for figures in rounds[side]]).median

    ours, theirs, nobody = SIDES
    rows = [
        Row(
            f"Put of {size} to a rank that computes",
            "ms",
            median(ours, size) / MS,
            theirs,
            median(theirs, size) / MS,
            Goal(times=1),
            note=f"with neither {median(nobody, size) / MS:.0f} ms",
        )
        for size in ("8 B", "1 MiB")
    ]
    speed = {side: median(side, "turns") for side in SIDES}
    rows.append(
        Row(
            "speed of that computation, of the same with neither",
            "%",
            speed[ours] / speed[nobody] * 100,
            theirs,
            speed[theirs] / speed[nobody] * 100,
            Goal(speed=1),
            rate=True,
        )
    )
    return rows
