"""Pictures of heaps as text: maps, tables, lines over time."""

import os
import time
from collections.abc import Sequence
from typing import TextIO

from acp_mpi.tools.heap_survey import ContainerUse, Picture, RankHeap

# How each use looks: a character, a colour for terminals and SVG alike, what it means.
LOOKS: dict[str, tuple[str, str, str]] = {
    "vacant": (" ", "#ffffff", "address only"),
    "free": (".", "#dfe3e8", "free"),
    "malloc": ("#", "#7d8997", "malloc"),
    "messages": ("@", "#5c6bc0", "messages"),
    "Counter": ("C", "#c2185b", "Counter"),
    "Deque": ("D", "#3f51b5", "Deque"),
    "List": ("L", "#00897b", "List"),
    "Map": ("M", "#ef6c00", "Map"),
    "MultiSet": ("B", "#8d6e63", "MultiSet"),
    "Set": ("S", "#fbc02d", "Set"),
    "Vector": ("V", "#1e88e5", "Vector"),
    "Workspace": ("W", "#8e24aa", "Workspace"),
    "spare": ("s", "#bfa58a", "spare heads"),
    "unknown": ("?", "#ff8a80", "not read"),
}
CONTAINERS_SHOWN = 12  # of a rank
_LEVELS = " .:-=+*#"


def in_units(size: float) -> str:
    """Return a number of bytes as people write it."""
    unit = "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


def share(part: int, whole: int) -> str:
    """Return how much of it that is, in percent."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def uses_shown(picture: Picture) -> list[str]:
    """Return the uses that occur, in the order of the legend."""
    there = {use for heap in picture.ranks for cell in heap.cells for use in cell}
    return [use for use in LOOKS if use in there]


def listed(heap: RankHeap) -> tuple[list[ContainerUse], list[ContainerUse]]:
    """Return the containers that have a line of their own, and those that share one."""
    return heap.containers[:CONTAINERS_SHOWN], heap.containers[CONTAINERS_SHOWN:]


def is_colourful(stream: TextIO) -> bool:
    """Return whether the stream shows colours and the user has not declined them."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _painted(use: str, text: str, colourful: bool) -> str:
    if not colourful or use == "vacant":
        return text
    red, green, blue = (round(int(LOOKS[use][1][i : i + 2], 16) / 51) for i in (1, 3, 5))
    return f"\x1b[48;5;{16 + 36 * red + 6 * green + blue}m\x1b[30m{text}\x1b[0m"


def _map(heap: RankHeap, width: int, colourful: bool) -> list[str]:
    uses = [max(cell, key=lambda use: cell[use]) if cell else "vacant" for cell in heap.cells]
    lines = []
    for start in range(0, len(uses), width):
        row = uses[start : start + width]
        lines.append("".join(_painted(use, LOOKS[use][0], colourful) for use in row))
    return lines


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines; all columns but the first are numbers."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _ranks(picture: Picture) -> list[str]:
    sizes = ["used", "free", "largest free", "committed", "arrays etc.", "limit"]
    rows = [["rank", "process", *sizes, "blocks", "fragments"]]
    for heap in picture.ranks:
        s = heap.statistics
        figures = (s.used, s.free, s.largest, s.committed, heap.others, s.limit)
        sizes = [in_units(size) for size in figures]
        rows.append([str(heap.rank), str(heap.pid), *sizes, str(s.blocks), str(s.fragments)])
    return _table(rows)


def _contents(heap: RankHeap) -> list[str]:
    used, uses = heap.statistics.used, heap.uses()
    rows = [[f"in rank {heap.rank}", "address", "elements", "blocks", "size", "of used"]]
    shown, rest = listed(heap)
    for one in shown:
        elements = "-" if one.kind == "Counter" else str(one.elements)
        name = [one.kind, f"{one.ga:#x}", elements, str(one.blocks)]
        rows.append([*name, in_units(one.bytes), share(one.bytes, used)])
    if rest:
        size = sum(one.bytes for one in rest)
        name = [f"{len(rest)} more containers", "", "", str(sum(one.blocks for one in rest))]
        rows.append([*name, in_units(size), share(size, used)])
    for use in ("malloc", "messages", "spare", "unknown"):
        if use in uses:
            rows.append([LOOKS[use][2], "", "", "", in_units(uses[use]), share(uses[use], used)])
    return _table(rows)


def _course(name: str, values: Sequence[int], most: int, width: int) -> str:
    """Return the latest values as a line, each as high as its part of `most`."""
    room = max(width - 30, 8)
    top = len(_LEVELS) - 1
    line = "".join(
        _LEVELS[min(top, -(-value * top // most)) if most else 0] for value in values[-room:]
    )
    return f"{name:<10} |{line}| {in_units(values[-1])}"


def draw(pictures: Sequence[Picture], width: int, colourful: bool) -> str:
    """Return the last picture, and above it used and committed memory over all of them."""
    picture = pictures[-1]
    lines = [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(picture.time))]
    if len(pictures) > 1:
        committed = [one.committed for one in pictures]
        lines.append(_course("used", [one.used for one in pictures], max(committed), width))
        lines.append(_course("committed", committed, max(committed), width))
    lines += ["", *_ranks(picture)]
    for heap in picture.ranks:
        first, last = heap.edges
        stretch = f"{in_units(last - first)} from {first:#x} on" if last > first else "never used"
        changes = "" if heap.whole else "; it changes, so this is not one moment"
        lines += ["", f"rank {heap.rank}: {stretch}{changes}"]
        if last > first:
            lines += _map(heap, width, colourful)
        if heap.statistics.blocks:
            lines += _contents(heap)
    legend = [
        f"{_painted(use, LOOKS[use][0] if use != 'vacant' else '(blank)', colourful)} "
        f"{LOOKS[use][2]}"
        for use in uses_shown(picture)
    ]
    return "\n".join([*lines, "", "   ".join(legend)]).rstrip() + "\n"
