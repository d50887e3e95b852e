"""Draw what `messages.py --json` has measured: how many times the speed of MPI, by size.

    python benchmarks/messages_svg.py FILE.json [FILE.json ...] PICTURE.svg

Each file has the rows of one MPI; lines of the same MPI with and without CMA have its colour.
"""

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from message_sizes import PATTERNS, SIZES, row_name, size_name
from svg import box, picture, text

_GOAL, _LOW, _HIGH = 1.1, 0.5, 8.0
_COLOURS = {"MPICH": "#1e88e5", "Open MPI": "#e53935"}
_WIDTH, _HEIGHT, _GAP, _LEFT, _TOP = 400, 230, 76, 48, 112
Lines = Mapping[str, Mapping[str, float]]  # by the other side: the speed by the name of the row


def _across(size: int) -> float:
    return math.log2(size) / math.log2(SIZES[-1]) * _WIDTH


def _down(speed: float) -> float:
    share = math.log(speed / _LOW) / math.log(_HIGH / _LOW)
    return (1 - min(max(share, 0), 1)) * _HEIGHT


def _line(points: list[tuple[float, float]], style: str) -> str:
    where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{where}" fill="none" {style}/>'


def _style(against: str) -> str:
    colour = next((c for name, c in _COLOURS.items() if against.startswith(name)), "#222222")
    dashes = ' stroke-dasharray="4 3"' if "without" in against else ""
    return f'stroke="{colour}" stroke-width="1.6"{dashes}'


def _scale(speed: float) -> str:
    return {_LOW: f"≤ {_LOW:g}", _HIGH: f"≥ {_HIGH:g}"}.get(speed, f"{speed:g}")


def _panel(pattern: str, lines: Lines, top: float) -> Iterator[str]:
    yield text(_LEFT, top - 26, pattern, ' font-weight="bold"')
    yield text(_LEFT, top - 12, PATTERNS[pattern])
    for speed in (_LOW, 1, _GOAL, 2, 4, _HIGH):
        y = top + _down(speed)
        yield box(_LEFT, y, _WIDTH, 1.2 if speed == 1 else 0.5, "#888888")
        below = 1 if speed == _GOAL else 4  # the label of 1 stands right under it
        yield text(_LEFT - 6, y + below, _scale(speed), ' text-anchor="end"')
    for size in SIZES[::4]:
        place = (_LEFT + _across(size), top + _HEIGHT + 16)
        yield text(*place, size_name(size), ' text-anchor="middle"')
    for against, speeds in lines.items():
        known = [(size, speeds.get(row_name(pattern, size))) for size in SIZES]
        points = [(_LEFT + _across(size), top + _down(s)) for size, s in known if s is not None]
        yield _line(points, _style(against))


def draw(lines: Lines) -> str:
    """Return a panel for each pattern, with a line for each other side."""
    parts = [text(_LEFT, 22, f"Speed of acp_mpi in units of MPI's; the goal is {_GOAL}",
                  ' font-weight="bold"')]  # fmt: skip
    for number, against in enumerate(lines):
        x, y = _LEFT + number % 2 * _WIDTH / 2, 44 + number // 2 * 16
        parts += [_line([(x, y - 4), (x + 24, y - 4)], _style(against)), text(x + 30, y, against)]
    for number, pattern in enumerate(PATTERNS):
        parts += _panel(pattern, lines, _TOP + number * (_HEIGHT + _GAP))
    height = _TOP + len(PATTERNS) * (_HEIGHT + _GAP) - _GAP + 28
    return picture(_LEFT + _WIDTH + 24, height, parts)


def main() -> None:
    """Read the files, draw."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="Each FILE is what `messages.py --json FILE` has written under one MPI.",
    )
    parser.add_argument("files", metavar="FILE.json", type=Path, nargs="+")
    parser.add_argument("picture", metavar="PICTURE.svg", type=Path)
    options = parser.parse_args()
    names = {row_name(pattern, size) for pattern in PATTERNS for size in SIZES}
    lines: dict[str, dict[str, float]] = {}
    for path in options.files:
        for row in json.loads(path.read_text())["rows"]:
            if row["what"] in names:
                lines.setdefault(row["against"], {})[row["what"]] = row["speed"]
    if not lines:
        parser.error(f"{options.files[0]}: no rows of messages; messages.py --only pair makes them")
    options.picture.write_text(draw(lines))


if __name__ == "__main__":
    main()
