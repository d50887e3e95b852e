"""What a rank did, and when."""

import time

LOOP = ("compute", "halo", "reduce", "output")
PHASES = ("init", "input", *LOOP, "finalize")


class Clock:
    """Calling it with the name of a phase ends the one before."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, float]] = []

    def __call__(self, phase: str) -> None:
        """Begin a phase."""
        self.marks.append((phase, time.monotonic()))


def spans(marks: list[tuple[str, float]]) -> list[tuple[str, float, float]]:
    """Return (phase, begin, end) of what a clock has noted; its last mark is the end."""
    ends = [begin for _, begin in marks[1:]]
    return [(phase, begin, end) for (phase, begin), end in zip(marks, ends, strict=False)]


def seconds(marks: list[tuple[str, float]]) -> dict[str, float]:
    """Return the seconds of each phase."""
    found = dict.fromkeys(PHASES, 0.0)
    for phase, begin, end in spans(marks):
        found[phase] += end - begin
    return found
