"""Buffers as users have them: contiguous or not, with the buffer protocol, NumPy's or DLPack."""

from __future__ import annotations

import sys

from acp_mpi.engine import _engine
from acp_mpi.errors import DeviceSide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


OF_THE_HOST = (1, 3)  # as DLPack numbers memory: the host's, and what CUDA has pinned of it
_STRAIGHT = ("put", "get", "iput", "iget", "register_memory")  # these move device memory itself


def _device_side(buffer: Any, function: str) -> None:
    from acp_mpi.rma.device_memory import found, name_of

    if function not in _STRAIGHT:
        raise TypeError(
            f"{function}: {type(buffer).__name__} is device memory ({name_of(buffer)}), which this "
            "call does not take; put, get, copy and messages do, or copy it to the host first"
        )
    raise DeviceSide(*found(buffer, function))


def brought(x: Any, function: str) -> Any:
    """Return an array of the elements of `x`: of its memory, or of a device's memory a copy."""
    if on_device(x):
        from acp_mpi.rma.device_memory import staged

        return staged(x, function, writable=False)[0]
    return array_of(x, function, TypeError())


def dtype_of(x: Any) -> Any:
    """Return the type of the elements of a buffer."""
    if on_device(x):
        from acp_mpi.rma.device_memory import look_of

        return look_of(x, "recv")[0]
    return array_of(x, "recv", TypeError()).dtype


def _is_opencl(buffer: Any) -> bool:
    if "pyopencl" not in sys.modules:
        return False
    from acp_mpi.rma import opencl_memory

    return opencl_memory.shows(buffer)


def on_device(x: Any) -> bool:
    """Return whether `x` is memory of a device, as whatever library shows it."""
    if hasattr(x, "__cuda_array_interface__") or _is_opencl(x):
        return True
    if hasattr(x, "__array_interface__") or not hasattr(x, "__dlpack_device__"):
        return False
    return bool(x.__dlpack_device__()[0] not in OF_THE_HOST)


class _Memory:
    """Memory of an exporter that cannot say whether others may write to it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def _says_whether_writable(buffer: Any) -> bool:
    try:
        return "versioned" in repr(buffer.__dlpack__(max_version=(1, 0)))
    except TypeError:  # it knows no versions
        return False


def _by_dlpack(buffer: Any, function: str) -> Any:
    if buffer.__dlpack_device__()[0] not in OF_THE_HOST:
        _device_side(buffer, function)
    import numpy

    try:
        array = numpy.from_dlpack(buffer)
    except Exception as reason:  # of the exporter, whatever it is
        raise TypeError(
            f"{function}: {type(buffer).__name__} does not give its memory by DLPack: {reason}; "
            "give a NumPy array, or copy it to one"
        ) from reason
    # NumPy takes what is not said to be writable for read-only, as of the tensors of torch.
    if array.flags.writeable or _says_whether_writable(buffer):
        return array
    return numpy.asarray(_Memory(array))


def hosted(x: Any, function: str) -> Any:
    """Return an array of the memory that `x` gives by DLPack alone; `x` if it gives none so."""
    if hasattr(x, "__array_interface__") or not hasattr(x, "__dlpack__") or _has_buffer(x):
        return x
    return _by_dlpack(x, function)


def array_of(buffer: Any, function: str, reason: object) -> Any:
    """Return an array of the memory of `buffer`; raise for what is none, and is `reason` why."""
    if hasattr(buffer, "__cuda_array_interface__") or _is_opencl(buffer):
        _device_side(buffer, function)
    if not hasattr(buffer, "__array_interface__") and not _has_buffer(buffer):
        if hasattr(buffer, "__dlpack__"):
            return _by_dlpack(buffer, function)
        if not isinstance(reason, TypeError):  # it was one
            raise ValueError(
                f"{function}: {type(buffer).__name__} gives no buffer: {reason}; use it before it "
                "is released or closed"
            ) from None
        raise TypeError(
            f"{function}: {type(buffer).__name__} is not a buffer: give bytes, a bytearray, an "
            "array or something with __array_interface__ or __dlpack__"
        ) from None
    import numpy

    return numpy.asarray(buffer)


def text_of(dtype: Any) -> str:
    """Return a text that is the same for types of NumPy that are equal, and in all processes."""
    if dtype.subdtype is not None:
        return f"{text_of(dtype.subdtype[0])}{dtype.shape}"
    if dtype.names is None:
        return str(dtype.str)
    fields = [(name, text_of(dtype.fields[name][0]), dtype.fields[name][1]) for name in dtype.names]
    return f"{fields}{dtype.itemsize}"


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
) -> tuple[Any, Callable[[int], None] | None]:
    """Return a contiguous stand-in for `buffer` and what brings its first bytes back, or None."""
    if _has_buffer(buffer) and writable and memoryview(buffer).readonly:
        raise ValueError(
            f"{function}: the destination is read-only; give a writable buffer or a copy"
        ) from None
    if function not in _STRAIGHT and on_device(buffer):
        from acp_mpi.rma.device_memory import staged

        array, back = staged(buffer, function, writable)
        return array.reshape(-1).view("u1"), back
    array = array_of(buffer, function, reason)
    _check(array, function, writable)
    if array.flags.c_contiguous:
        return array.reshape(-1).view("u1"), None
    packed = array.copy()

    def bring_back(size: int) -> None:
        array[...] = packed

    return packed.reshape(-1).view("u1"), bring_back if writable else _nothing


def _nothing(size: int) -> None:
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
        array = array_of(buffer, function, error)
    _check(array, function, writable)
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{function}: the array is not contiguous in C order; register its base, its "
            "transpose if that is, or a contiguous copy"
        )
    return int(array.ctypes.data), int(array.nbytes), array
