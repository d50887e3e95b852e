"""Arrays in messages: how those look whose type and shape the engine does not put into a note."""

import pickle
from typing import Any

import numpy

from acp_mpi.rma import buffers
from acp_mpi.rma.arrays import kind_of


def is_plain(x: Any) -> bool:
    """Return whether a NumPy object is its bytes alone: no scalar, mask or unit."""
    return type(x) in (numpy.ndarray, numpy.memmap)


def width_of(dtype: Any) -> int:
    """Return the bytes of one element of a type."""
    return int(kind_of(dtype, "count").itemsize)


def prepare(x: Any, function: str) -> tuple[Any, bytes | None]:
    """Return what is sent of an unusual array, and how it looks if the note has no room for that.

    None: it holds objects, and is pickled as one.
    """
    array = buffers.array_of(x, function, TypeError())
    if array.dtype.hasobject:
        return None, None
    array = numpy.ascontiguousarray(array).reshape(array.shape)
    if _has_note(array):
        return array, None
    return array.reshape(-1).view("u1"), pickle.dumps((array.dtype, array.shape), 5)


def _has_note(array: Any) -> bool:
    """Return whether the engine finds room for type and shape: see `array_note` there."""
    rest = array.shape[1:]
    return (
        array.dtype.kind in "?biufc"
        and array.dtype.metadata is None
        and array.ndim <= 7
        and all(0 < n < 1 << 48 // len(rest) for n in rest)
        and not (array.dtype.char in "lLgG" and not array.dtype.isnative)
    )


def array_for(note: int, size: int) -> tuple[Any, Any]:
    """Return an array of the type and shape in a note, for `size` bytes, and its bytes."""
    dtype = numpy.dtype(chr(note & 255))
    if note >> 8 & 1:
        dtype = dtype.newbyteorder()
    ndim, dims = note >> 9 & 7, note >> 12
    rest = []
    if ndim > 1:
        bits = 48 // (ndim - 1)
        rest = [dims >> i * bits & (1 << bits) - 1 for i in range(ndim - 1)]
    count = size // dtype.itemsize
    shape = (count // int(numpy.prod(rest, dtype=int)), *rest) if ndim else ()
    return _with_bytes(numpy.empty(shape, dtype))


def array_as(header: bytes) -> tuple[Any, Any]:
    """Return an array as a header says, and its bytes."""
    dtype, shape = pickle.loads(header)
    return _with_bytes(numpy.empty(shape, dtype))


def _with_bytes(array: Any) -> tuple[Any, Any]:
    if array.nbytes == 0:
        return array, bytearray()
    return array, array.reshape(-1).view("u1")
