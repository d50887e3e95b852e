"""NumPy arrays in global memory."""

from __future__ import annotations

from math import prod

from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError
from acp_mpi.rma.shapes import color_of, extent_of, kind_of
from acp_mpi.util.overloads import overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, SupportsIndex, TypeVar

    from numpy import dtype as Dtype
    from numpy import float64, generic
    from numpy.typing import DTypeLike, NDArray

    from acp_mpi.rma.device_array import DeviceArray

    S = TypeVar("S", bound=generic)
    Shape = SupportsIndex | Sequence[SupportsIndex]


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
@overload
def empty(
    shape: Shape, dtype: DTypeLike = float, *, color: SupportsIndex = 0, device: object
) -> DeviceArray: ...
def empty(
    shape: Any,
    dtype: Any = float,
    *,
    color: SupportsIndex = 0,
    window: bool | None = None,
    device: object = None,
) -> NDArray[Any] | DeviceArray:
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

    `device="cuda:0"`, a device of PyTorch or CuPy: a `DeviceArray` in the memory of that device,
    whose content is undefined, with `window` left out. DeviceError says why there is none.
    """
    return _made(shape, dtype, color, window, device, "empty")


def _made(
    shape: Any, dtype: Any, color: Any, window: bool | None, device: Any, function: str
) -> NDArray[Any] | DeviceArray:
    import numpy

    if device is not None:
        from acp_mpi.rma.device_array import made

        if window:
            raise ValueError(
                f"{function}: memory of a device is not in the window; drop one of them"
            )
        return made(shape, dtype, color, device, function, function == "zeros")
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
@overload
def zeros(
    shape: Shape, dtype: DTypeLike = float, *, color: SupportsIndex = 0, device: object
) -> DeviceArray: ...
def zeros(
    shape: Any,
    dtype: Any = float,
    *,
    color: SupportsIndex = 0,
    window: bool | None = None,
    device: object = None,
) -> NDArray[Any] | DeviceArray:
    """Return a NumPy array of zeros in this rank's global memory (see `empty`)."""
    return _made(shape, dtype, color, window, device, "zeros")


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

    Of memory of a device that this process has mapped, or can map, a `DeviceArray`, for kernels to
    load and store; AddressError says why it cannot. Its owner cannot release that memory before the
    view is closed or dropped.
    """
    import numpy

    kind, extent = kind_of(dtype, "view"), extent_of(shape, "view")
    count = prod(extent)
    try:
        block = _engine.mapped(ga, max(count * kind.itemsize, 1))
    except AddressError:
        from acp_mpi.rma.device_array import viewed

        array: NDArray[Any] | None = viewed(ga, extent, kind)
        if array is None:
            raise
        return array
    return numpy.ndarray(extent, kind, buffer=memoryview(block))
