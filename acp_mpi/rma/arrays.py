"""NumPy arrays in global memory."""

from __future__ import annotations

from math import prod

from acp_mpi.engine import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def check_color(color: int, function: str) -> None:
    """Raise ValueError for a color that does not exist."""
    if not 0 <= color < _engine.colors():
        raise ValueError(f"{function}: color {color} is not one of 0 to {_engine.colors() - 1}")


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in shape) if hasattr(shape, "__iter__") else (int(shape),)


def empty(shape: Any, dtype: Any = float, *, color: int = 0) -> Any:
    """Return a NumPy array in this rank's global memory; `query_ga(array)` gives its address.

    Local. Ranks of the same node load and store it (`view`), others reach it by get, put and
    copy. The address ends when the array and all its views are dropped; its memory goes back to
    the system then. Raises HeapFullError at the limit of the rank. The content is zero: it is
    fresh memory.
    """
    import numpy

    kind = numpy.dtype(dtype)
    if kind.hasobject:
        raise TypeError(f"empty: {kind} holds Python objects, which have no meaning on other ranks")
    extent = _shape(shape)
    if any(n < 0 for n in extent):
        raise ValueError(f"empty: the shape {extent} is negative")
    check_color(color, "empty")
    count = prod(extent)
    block = _engine.allocate(count * kind.itemsize, color)
    return numpy.ndarray(
        extent, kind, buffer=memoryview(block) if count and kind.itemsize else None
    )


def zeros(shape: Any, dtype: Any = float, *, color: int = 0) -> Any:
    """Return a NumPy array of zeros in this rank's global memory (see `empty`)."""
    return empty(shape, dtype, color=color)


def view(ga: int, shape: Any, dtype: Any = float) -> Any:
    """Return a NumPy array over global memory that this process can load and store.

    That is its own memory, and memory of `acp.empty` and starter memory of ranks of its node. No
    bytes are copied. AddressError for anything else. After its owner released the memory the
    array reads undefined values, safely.
    """
    import numpy

    kind = numpy.dtype(dtype)
    extent = _shape(shape)
    count = prod(extent)
    block = _engine.mapped(ga, max(count * kind.itemsize, 1))
    return numpy.ndarray(extent, kind, buffer=memoryview(block))
