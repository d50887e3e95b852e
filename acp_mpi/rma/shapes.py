"""Shapes, types of elements and colors, as calls are given them."""

from __future__ import annotations

from operator import index

from acp_mpi.engine import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def color_of(color: Any, function: str) -> int:
    """Return a color as an int; ValueError for one that does not exist."""
    last = _engine.colors() - 1
    try:
        chosen = index(color)
    except TypeError:
        text = f"{function}: color {color!r} is not an integer; give 0 to {last}"
        raise TypeError(text) from None
    if not 0 <= chosen <= last:
        raise ValueError(f"{function}: color {color} is not one of 0 to {last}")
    return chosen


def extent_of(shape: Any, function: str) -> tuple[int, ...]:
    """Return a shape as NumPy takes it, a number or several, as a tuple."""
    extent: tuple[int, ...]
    try:
        extent = (index(shape),)
    except TypeError:
        try:
            extent = tuple(map(index, shape))
        except TypeError:
            raise TypeError(
                f"{function}: {shape!r} is not a shape; give a number of elements, or several"
            ) from None
    if any(n < 0 for n in extent):
        raise ValueError(f"{function}: the shape {extent} is negative; give 0 or more")
    if any(n >= 1 << 63 for n in extent):
        raise ValueError(
            f"{function}: the shape {extent} has a length that no region (1 TiB) has; give less"
        )
    return extent


def kind_of(dtype: Any, function: str) -> Any:
    """Return a NumPy dtype with bytes that mean the same on other ranks."""
    import numpy

    try:
        kind = numpy.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{function}: {dtype!r:.60} is not a type of elements ({error}); use float, say"
        ) from None
    if kind.char in "SU" and not kind.itemsize:
        kind = numpy.empty(0, kind).dtype  # one character: elements without bytes keep nothing
    if kind.hasobject:
        raise TypeError(
            f"{function}: {kind} holds Python objects, which have no meaning on other ranks; use a "
            "type of fixed size"
        )
    return kind
