"""NumPy arrays in global memory."""

from __future__ import annotations

from math import prod
from operator import index

from acp_mpi.engine import _engine
from acp_mpi.util.overloads import overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, SupportsIndex, TypeVar

    from numpy import dtype as Dtype
    from numpy import float64, generic
    from numpy.typing import DTypeLike, NDArray

    S = TypeVar("S", bound=generic)
    Shape = SupportsIndex | Sequence[SupportsIndex]


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


@overload
def empty(
    shape: Shape,
    dtype: type[float] = float,
    *,
    color: SupportsIndex = 0,
    window: bool | None = None,
) -> NDArray[float64]: ...
@overload
def empty(
    shape: Shape, dtype: type[S] | Dtype[S], *, color: SupportsIndex = 0, window: bool | None = None
) -> NDArray[S]: ...
@overload
def empty(
    shape: Shape, dtype: DTypeLike, *, color: SupportsIndex = 0, window: bool | None = None
) -> NDArray[Any]: ...
def empty(
    shape: Any,
    dtype: Any = float,
    *,
    color: SupportsIndex = 0,
    window: bool | None = None,
) -> NDArray[Any]:
    """Return a NumPy array in this rank's global memory; `query_ga(array)` gives its address.

    Local. Ranks of the same node load and store it (`view`), others reach it by get, put and
    copy. The address ends when the array and all its views are dropped; its memory goes back to
    the system then. Raises HeapFullError at the limit of the rank. The content is zero.

    Where the MPI group spans nodes an array of 1 MiB or more lies in the part of the memory that
    the MPI window covers (`ACP_WINDOW_SIZE`), as long as there is a place, so that put and get may
    be the network's. Its memory is kept for such arrays then; a put or get to its address after its
    end need not raise, but may write or read the memory of another one. `window=True` insists on
    it, of any size and on one node, too: HeapFullError if there is no place, Error without a
    window; `window=False` never takes it.
    """
    return _made(shape, dtype, color, window, "empty")


def _made(shape: Any, dtype: Any, color: Any, window: bool | None, function: str) -> NDArray[Any]:
    import numpy

    if window:
        from acp_mpi.rma.window import need

        need(function)

    kind, extent = kind_of(dtype, function), extent_of(shape, function)
    size = prod(extent) * kind.itemsize
    color = color_of(color, function)
    # An array without elements, too, has an address.
    block = _engine.allocate(max(size, 1), color, function, window)
    return numpy.ndarray(extent, kind, buffer=memoryview(block))


@overload
def zeros(
    shape: Shape,
    dtype: type[float] = float,
    *,
    color: SupportsIndex = 0,
    window: bool | None = None,
) -> NDArray[float64]: ...
@overload
def zeros(
    shape: Shape, dtype: type[S] | Dtype[S], *, color: SupportsIndex = 0, window: bool | None = None
) -> NDArray[S]: ...
@overload
def zeros(
    shape: Shape, dtype: DTypeLike, *, color: SupportsIndex = 0, window: bool | None = None
) -> NDArray[Any]: ...
def zeros(
    shape: Any,
    dtype: Any = float,
    *,
    color: SupportsIndex = 0,
    window: bool | None = None,
) -> NDArray[Any]:
    """Return a NumPy array of zeros in this rank's global memory (see `empty`)."""
    return _made(shape, dtype, color, window, "zeros")


@overload
def view(ga: SupportsIndex, shape: Shape, dtype: type[float] = float) -> NDArray[float64]: ...
@overload
def view(ga: SupportsIndex, shape: Shape, dtype: type[S] | Dtype[S]) -> NDArray[S]: ...
@overload
def view(ga: SupportsIndex, shape: Shape, dtype: DTypeLike) -> NDArray[Any]: ...
def view(ga: SupportsIndex, shape: Any, dtype: Any = float) -> NDArray[Any]:
    """Return a NumPy array over global memory that this process can load and store.

    The memory may be its own, memory of `acp.empty` and starter memory of ranks of its node. No
    bytes are copied. AddressError for anything else. After its owner released the memory the array
    reads undefined values, safely.
    """
    import numpy

    kind, extent = kind_of(dtype, "view"), extent_of(shape, "view")
    count = prod(extent)
    block = _engine.mapped(ga, max(count * kind.itemsize, 1))
    return numpy.ndarray(extent, kind, buffer=memoryview(block))
