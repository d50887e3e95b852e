"""The heaps of `spawn_memory.py` as SVG: a panel for each way, a bar for each layout, by stage."""

from collections.abc import Iterator, Mapping

from layouts import STAGES, Course, Layout, Outcome
from svg import box, picture, text

MB = 1e6
_COLOURS = ("#b0bec5", "#78909c", "#ffb74d", "#1e88e5", "#e53935")
_GROWN = ("Python", "imports", "MPI_Init", "join, spawn or split", "send")
_GRID = "#e0e0e0"
_PANEL, _HEIGHT, _GAP, _LEFT, _TOP = 170, 190, 22, 60, 74


def _growth(course: Course) -> Iterator[float]:
    """Yield by how many MB each stage raised the most that the process had taken."""
    level = 0
    for stage in STAGES[:-1]:
        reached = max(level, course[stage].heap if stage in course else 0)
        yield (reached - level) / MB
        level = reached


def _panel(courses: Mapping[Layout, Course], x: float, y: float, top: float) -> Iterator[str]:
    scale, width = _HEIGHT / top, _PANEL / len(courses)
    for level in range(0, int(top) + 1, 2):
        line = y + _HEIGHT - level * scale
        yield (f'<line x1="{x}" x2="{x + _PANEL}" y1="{line:.1f}" y2="{line:.1f}" '
               f'stroke="{_GRID}"/>')  # fmt: skip
    for number, (layout, course) in enumerate(courses.items()):
        left, low = x + width * (number + 0.15), y + _HEIGHT
        for growth, colour in zip(_growth(course), _COLOURS, strict=True):
            low -= growth * scale
            yield box(left, low, 0.7 * width, growth * scale, colour)
        middle, style = left + 0.35 * width, ' font-size="9" text-anchor="middle"'
        yield text(middle, low - 3, f"{(y + _HEIGHT - low) / scale:.1f}", style)
        yield text(middle, y + _HEIGHT + 12, f"{layout.groups}×{layout.size}", style)


def draw(
    results: Mapping[tuple[str, str, Layout], Outcome],
    ways: Mapping[str, str],
    mpis: Mapping[str, str],
) -> str:
    """Return the heaps of the master (above) and of the root that took most of each job."""
    columns = list(dict.fromkeys((way, mpi) for way, mpi, _ in results))
    panels: dict[tuple[str, str, int], dict[Layout, Course]] = {}
    for (way, mpi, layout), outcome in results.items():
        fullest = max(outcome.roots, key=lambda root: max(m.heap for m in root.values()))
        for row, course in enumerate((outcome.master, fullest)):
            panels.setdefault((way, mpi, row), {})[layout] = course
    top = 1.1 * max(sum(_growth(c)) for bars in panels.values() for c in bars.values())
    width = _LEFT + len(columns) * (_PANEL + _GAP)
    height = _TOP + 2 * (_HEIGHT + 60)
    bold, middle = ' font-weight="bold"', ' text-anchor="middle"'
    parts = [text(_LEFT, 24, "Heap of 1 + 32 processes, MB, by groups × size", bold)]
    x = float(_LEFT)
    for name, colour in zip(_GROWN, _COLOURS, strict=True):
        parts += [box(x, 36, 12, 12, colour), text(x + 17, 46, name)]
        x += 35 + 7 * len(name)
    for row, who in enumerate(("master", "first of a group")):
        y = _TOP + row * (_HEIGHT + 60)
        parts.append(text(_LEFT - 12, y + _HEIGHT / 2, who, f' transform="rotate(-90 {_LEFT - 12} '
                           f'{y + _HEIGHT / 2})"{middle}{bold}'))  # fmt: skip
        for column, (way, mpi) in enumerate(columns):
            x = _LEFT + column * (_PANEL + _GAP)
            parts.append(text(x + _PANEL / 2, y - 6, f"{ways[way]}, {mpis[mpi]}", middle))
            parts += _panel(panels[way, mpi, row], x, y, top)
    return picture(width, height, parts)
