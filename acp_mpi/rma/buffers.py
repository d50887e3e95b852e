"""Buffers as users have them: contiguous or not, with the buffer protocol or NumPy's."""

from __future__ import annotations

import sys

from acp_mpi.engine import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _numpy_view(buffer: Any, function: str, reason: object) -> Any:
    if hasattr(buffer, "__cuda_array_interface__"):
        raise TypeError(
            f"{function}: {type(buffer).__name__} is device memory, which is not supported yet; "
            "copy it to the host first"
        )
    if not hasattr(buffer, "__array_interface__") and not _has_buffer(buffer):
        if not isinstance(reason, TypeError):  # it was one
            raise ValueError(
                f"{function}: {type(buffer).__name__} gives no buffer: {reason}; use it before it "
                "is released or closed"
            ) from None
        raise TypeError(
            f"{function}: {type(buffer).__name__} is no buffer: give bytes, a bytearray, an array "
            "or something with __array_interface__"
        ) from None
    import numpy

    return numpy.asarray(buffer)


def _has_buffer(x: object) -> bool:
    try:
        memoryview(x)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):  # ValueError: NumPy's dates have an interface only
        return False
    return True


def _check(array: Any, function: str, writable: bool) -> None:
    if array.dtype.hasobject:
        raise TypeError(f"{function}: an array of Python objects has no bytes to transfer")
    if writable and not array.flags.writeable:
        raise ValueError(
            f"{function}: the destination is read-only; give a writable buffer or a copy"
        )


def unusual(
    buffer: Any, writable: bool, function: str, reason: Exception
) -> tuple[Any, Callable[[], None] | None]:
    """Return a contiguous stand-in for `buffer` and what brings its bytes back, or None."""
    if _has_buffer(buffer) and writable and memoryview(buffer).readonly:
        raise ValueError(
            f"{function}: the destination is read-only; give a writable buffer or a copy"
        ) from None
    array = _numpy_view(buffer, function, reason)
    _check(array, function, writable)
    if array.flags.c_contiguous:
        return array.reshape(-1).view("u1"), None
    numpy = sys.modules["numpy"]
    packed = numpy.empty(array.shape, array.dtype) if writable else array.copy()

    def bring_back() -> None:
        array[...] = packed

    return packed.reshape(-1).view("u1"), bring_back if writable else _nothing


def _nothing() -> None:
    """Do nothing: a copy that was sent needs no way back."""


def place_of(buffer: Any, function: str, *, writable: bool = True) -> tuple[int, int, Any]:
    """Return (virtual address, bytes, what keeps it) of a contiguous buffer."""
    try:
        return _engine.buffer_place(buffer, writable)
    except (BufferError, TypeError, ValueError) as error:
        if writable and _has_buffer(buffer) and memoryview(buffer).readonly:
            raise ValueError(
                f"{function}: the memory is read-only, and others must be able to write to it; "
                "give a writable buffer"
            ) from None
        array = _numpy_view(buffer, function, error)
    _check(array, function, writable)
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{function}: the array is not contiguous in C order; register its base, its "
            "transpose if that is, or a contiguous copy"
        )
    return int(array.ctypes.data), int(array.nbytes), array
