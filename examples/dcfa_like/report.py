"""What came out: a table of the phases, a picture of who did what, and one of the plate."""

from pathlib import Path
from statistics import median

import numpy as np
from stencil import write_png

from .clock import LOOP, PHASES, seconds, spans
from .loop import Found, Task, file_of

Marks = list[tuple[str, float]]

_COLOURS = {
    "init": "#c8c8c8",
    "input": "#8e6bb0",
    "compute": "#3d7ea6",
    "halo": "#d9822b",
    "reduce": "#4f9d69",
    "output": "#b8404b",
    "finalize": "#777777",
}
_WIDTH, _LANE, _LEFT = 960, 34, 70


def heading(task: Task, devices: list[tuple[str, list[str]]]) -> str:
    """Return what is computed, and by which devices."""
    lines = [f"a plate of {task.plate[0]} x {task.plate[1]}, steps {task.start} to {task.steps}"]
    reasons = dict.fromkeys(reason for _, reasons in devices for reason in reasons)
    lines += [f"not used: {reason}" for reason in reasons]
    lines += [f"rank {place}: {name}" for place, (name, _) in enumerate(devices)]
    return "\n".join(lines)


def text(task: Task, found: Found, clocks: list[Marks]) -> str:
    """Return the changes, the table of seconds by phase, and the share of reduce and output."""
    lines = [f"step {step:8}  largest change {change:.6e}" for step, change in found.changes]
    lines += ["", "rank " + "".join(f"{phase:>10}" for phase in PHASES) + "       all"]
    shares = []
    for place, marks in enumerate(clocks):
        spent = seconds(marks)
        whole = sum(spent[phase] for phase in LOOP)
        row = "".join(f"{spent[phase]:10.4f}" for phase in PHASES)
        lines.append(f"{place:4} {row}{marks[-1][1] - marks[0][1]:10.4f}")
        shares.append((spent["reduce"] + spent["output"]) / whole)
    lines.append(f"reduce and output: {max(shares):.2%} of the loop at most")
    if len(clocks) > 1:
        halos = [1e6 * each for marks in clocks for each in halos_of(marks)]
        lines.append(f"halo of a step: {median(halos):.1f} µs, at least {min(halos):.1f}")
    if found.statistics is not None:
        lines.append(
            f"delegate: {found.statistics.commands} commands, {found.statistics.written} bytes "
            f"written, {found.statistics.processor:.3f} s of a processor"
        )
    return "\n".join(lines)


def halos_of(marks: Marks) -> list[float]:
    """Return the seconds that each step took to send and to receive edge rows."""
    both = [end - begin for phase, begin, end in spans(marks) if phase == "halo"]
    return [sent + received for sent, received in zip(both[::2], both[1::2], strict=True)]


def write_pictures(task: Task, clocks: list[Marks]) -> None:
    """Write `gantt.svg`, of the last steps with an output, and `field.png`."""
    write_gantt(task.folder / "gantt.svg", clocks)
    write_png(str(task.folder / "field.png"), np.load(file_of(task.folder, task.steps)))


def write_gantt(path: Path, clocks: list[Marks], most: int = 400) -> None:
    """Draw a lane for each rank, of the last phases of a run."""
    lanes = [spans(marks)[-most:] for marks in clocks]
    begin, end = max(lane[0][1] for lane in lanes), max(lane[-1][2] for lane in lanes)
    scale = _WIDTH / (end - begin)
    height = _LANE * len(lanes)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 10} {height + 60}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_LEFT + _WIDTH + 10}" height="{height + 60}" fill="white"/>',
    ]
    for place, lane in enumerate(lanes):
        out.append(f'<text x="8" y="{_LANE * place + 20}">rank {place}</text>')
        for phase in PHASES:
            boxes = [
                f"M{_LEFT + (max(low, begin) - begin) * scale:.2f} {_LANE * place + 4}"
                f"H{_LEFT + (high - begin) * scale:.2f}v{_LANE - 8}"
                f"H{_LEFT + (max(low, begin) - begin) * scale:.2f}z"
                for which, low, high in lane
                if which == phase and high > begin
            ]
            out.append(f'<path d="{"".join(boxes)}" fill="{_COLOURS[phase]}"/>')
    for place, phase in enumerate(PHASES):
        x = _LEFT + 110 * place
        out.append(
            f'<rect x="{x}" y="{height + 34}" width="12" height="12" fill="{_COLOURS[phase]}"/>'
        )
        out.append(f'<text x="{x + 18}" y="{height + 44}">{phase}</text>')
    out.append(
        f'<text x="{_LEFT + _WIDTH}" y="{height + 18}" text-anchor="end">'
        f"{1e3 * (end - begin):.1f} ms</text>"
    )
    path.write_text("\n".join([*out, "</svg>"]) + "\n")
