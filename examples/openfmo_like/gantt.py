"""A picture of who did what, and when: one lane for each group of workers."""

from collections.abc import Sequence
from pathlib import Path

from .jobs import Phase

_COLOURS = {
    "free monomers": "#9aa5b1",
    "monomers": "#3d7ea6",
    "SCF pairs": "#d9822b",
    "electrostatic pairs": "#4f9d69",
}
_WIDTH, _LANE, _LEFT, _TOP = 960.0, 34.0, 80.0, 44.0


def write_gantt(path: Path, phases: Sequence[Phase], title: str) -> None:
    """Write the jobs of all phases as SVG; a tooltip on each says which it is."""
    rows = [row for phase in phases for row in phase.rows]
    lanes = sorted({int(row.group) for row in rows})
    begin = min((phase.begin for phase in phases), default=0.0)
    seconds = max((phase.end for phase in phases), default=1.0) - begin or 1.0
    scale = _WIDTH / seconds
    bottom = _TOP + _LANE * len(lanes)
    width, height = _LEFT + _WIDTH + 20, bottom + 60
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{_escaped(title)}</text>',
    ]
    for phase in phases:
        x = _LEFT + (phase.begin - begin) * scale
        out.append(f'<path d="M{x:.2f} {_TOP - 6}V{bottom:.0f}" stroke="#ccc"/>')
    for lane, group in enumerate(lanes):
        y = _TOP + _LANE * lane
        out.append(f'<text x="8" y="{y + 20:.0f}">group {group + 1}</text>')
        for phase in phases:
            colour = _COLOURS[phase.name]
            for row in phase.rows:
                if row.group != group:
                    continue
                x = _LEFT + (row.begin - begin) * scale
                length = max((row.end - row.begin) * scale, 0.4)
                what = f"{phase.name}, {row.end - row.begin:.3f} s"
                out.append(
                    f'<rect x="{x:.2f}" y="{y:.0f}" width="{length:.2f}" height="{_LANE - 8:.0f}" '
                    f'fill="{colour}" stroke="white" stroke-width="0.3">'
                    f"<title>{what}</title></rect>"
                )
    for tick in range(6):
        x = _LEFT + _WIDTH * tick / 5
        out.append(
            f'<text x="{x:.0f}" y="{bottom + 16:.0f}" text-anchor="middle">'
            f"{seconds * tick / 5:.1f} s</text>"
        )
    for place, (name, colour) in enumerate(_COLOURS.items()):
        x, y = _LEFT + 190 * place, bottom + 34
        out.append(f'<rect x="{x}" y="{y:.0f}" width="12" height="12" fill="{colour}"/>')
        out.append(f'<text x="{x + 18}" y="{y + 10:.0f}">{name}</text>')
    path.write_text("\n".join([*out, "</svg>"]) + "\n")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
