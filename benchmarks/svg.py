"""The parts of a picture as SVG."""

from collections.abc import Iterable
from html import escape

_INK = "#222222"


def text(x: float, y: float, words: str, style: str = "") -> str:
    """Return words whose baseline begins there."""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{_INK}"{style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Return a filled rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'
    )


def picture(width: float, height: float, parts: Iterable[str]) -> str:
    """Return an SVG of these parts on white."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )
