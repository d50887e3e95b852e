"""Pictures of heaps as SVG."""

import time
from collections.abc import Iterator, Sequence
from html import escape

from acp_mpi.tools.heap_survey import Picture, RankHeap
from acp_mpi.tools.heap_text import LOOKS, in_units, listed, share, uses_shown

_WIDTH = 960
_MARGIN = 24
_BAR = 36
_LINE = 18
_CHART = 120
_INK, _PALE = "#222222", "#666666"
_COURSES = (("committed", "#9aa5b1"), ("used", "#1e88e5"))


def _text(x: float, y: float, text: str, colour: str = _INK, style: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}"{style}>{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, colour: str, more: str = "") -> str:
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
        f'fill="{colour}"{more}/>'
    )


def _legend(picture: Picture, y: float) -> Iterator[str]:
    x = float(_MARGIN)
    for use in uses_shown(picture):
        _, colour, meaning = LOOKS[use]
        yield _box(x, y - 11, 12, 12, colour, f' stroke="{_PALE}" stroke-width="0.5"')
        yield _text(x + 17, y, meaning)
        x += 35 + 7.5 * len(meaning)


def _stretches(heap: RankHeap) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Yield first cell, number of cells and contents; equal neighbours together."""
    start = 0
    for i in range(1, len(heap.cells) + 1):
        same = i < len(heap.cells) and len(heap.cells[i]) == 1
        if not same or heap.cells[i].keys() != heap.cells[start].keys():
            yield start, i - start, heap.cells[start]
            start = i


def _bar(heap: RankHeap, y: float) -> Iterator[str]:
    """Yield the heap from left to right; uses that share a place one above the other."""
    width = (_WIDTH - 2 * _MARGIN) / len(heap.cells)
    for start, count, cell in _stretches(heap):
        total, low = sum(cell.values()), y + _BAR
        for use in LOOKS:
            if cell.get(use) and use != "vacant":
                height = _BAR * cell[use] / total
                low -= height
                yield _box(_MARGIN + start * width, low, count * width, height, LOOKS[use][1])
    yield _box(_MARGIN, y, _WIDTH - 2 * _MARGIN, _BAR, "none", f' stroke="{_PALE}"')


def _rows(heap: RankHeap) -> Iterator[tuple[str, str, int]]:
    """Yield use, text and bytes of the lines below a bar."""
    shown, rest = listed(heap)
    for one in shown:
        elements = "" if one.kind == "Counter" else f", {one.elements} elements"
        yield one.kind, f"{one.kind} {one.ga:#x}{elements}", one.bytes
    if rest:
        yield "vacant", f"{len(rest)} more containers", sum(one.bytes for one in rest)
    uses = heap.uses()
    for use in ("malloc", "messages", "spare", "unknown"):
        if use in uses:
            yield use, LOOKS[use][2], uses[use]


def _rank(heap: RankHeap, y: float) -> Iterator[str]:
    s, (first, last) = heap.statistics, heap.edges
    bold = ' font-weight="bold"'
    yield _text(_MARGIN, y, f"rank {heap.rank}, process {heap.pid}", style=bold)
    figures = (
        f"used {in_units(s.used)} in {s.blocks} blocks, committed {in_units(s.committed)}, "
        f"arrays etc. {in_units(heap.others)}, limit {in_units(s.limit)}"
    )
    end = ' text-anchor="end"'
    yield _text(_WIDTH - _MARGIN, y, figures, style=end)
    if last > first:
        yield from _bar(heap, y + 8)
    y += 8 + _BAR + 14
    changes = "" if heap.whole else ", changing while it was read"
    yield _text(_MARGIN, y, f"{first:#x}", _PALE)
    yield _text(_WIDTH / 2, y, f"{in_units(last - first)}{changes}", _PALE, ' text-anchor="middle"')
    yield _text(_WIDTH - _MARGIN, y, f"{last:#x}", _PALE, end)
    for use, text, size in _rows(heap):
        y += _LINE
        yield _box(_MARGIN, y - 10, 10, 10, LOOKS[use][1], f' stroke="{_PALE}" stroke-width="0.5"')
        yield _text(_MARGIN + 16, y, text)
        yield _text(560, y, in_units(size), style=end)
        yield _text(640, y, share(size, s.used), style=end)
        length = (_WIDTH - _MARGIN - 660) * min(1.0, size / s.used) if s.used else 0
        yield _box(660, y - 10, length, 10, LOOKS[use][1])


def _rank_height(heap: RankHeap) -> int:
    return 8 + _BAR + 14 + _LINE * sum(1 for _ in _rows(heap)) + 34


def _courses(pictures: Sequence[Picture], y: float) -> Iterator[str]:
    """Yield used and committed bytes of all ranks over time."""
    begin, seconds = pictures[0].time, pictures[-1].time - pictures[0].time
    most = max(one.committed for one in pictures) or 1
    width = _WIDTH - 2 * _MARGIN
    yield _box(_MARGIN, y, width, _CHART, "#fafbfc", f' stroke="{_PALE}" stroke-width="0.5"')
    for name, colour in _COURSES:
        points = " ".join(
            f"{_MARGIN + width * (one.time - begin) / (seconds or 1):.1f},"
            f"{y + _CHART * (1 - getattr(one, name) / most):.1f}"
            for one in pictures
        )
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
    x = float(_MARGIN)
    for name, colour in _COURSES:
        text = f"{name} {in_units(getattr(pictures[-1], name))}"
        yield _box(x, y + _CHART + 8, 12, 4, colour)
        yield _text(x + 17, y + _CHART + 14, text)
        x += 35 + 7.5 * len(text)
    scale = f"{seconds:.0f} s, up to {in_units(most)}"
    yield _text(_WIDTH - _MARGIN, y + _CHART + 14, scale, _PALE, ' text-anchor="end"')


def draw(pictures: Sequence[Picture]) -> str:
    """Return the last picture, and above it used and committed memory over all of them."""
    picture = pictures[-1]
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(picture.time))
    y = 36
    parts = [
        _text(_MARGIN, y, f"Heaps of {len(picture.ranks)} ranks, {when}", style=' font-size="16"')
    ]
    y += 28
    parts += _legend(picture, y)
    y += 16
    if len(pictures) > 1:
        parts += _courses(pictures, y)
        y += _CHART + 28
    y += 20
    for heap in picture.ranks:
        parts += _rank(heap, y)
        y += _rank_height(heap)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y}" '
        f'viewBox="0 0 {_WIDTH} {y}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )
