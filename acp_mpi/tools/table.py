"""Columns of text."""

from __future__ import annotations

from collections.abc import Sequence


def text(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows, indented, with columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
