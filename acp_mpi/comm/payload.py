"""Arrays in messages, where the engine does not put their type and shape into a note."""

import pickle
from math import prod
from typing import Any

import numpy

from acp_mpi.engine._engine import sha256
from acp_mpi.rma import buffers
from acp_mpi.rma.buffers import brought as brought
from acp_mpi.rma.buffers import on_device as on_device
from acp_mpi.rma.shapes import kind_of


def is_plain(x: Any) -> bool:
    """Return whether a NumPy object is its bytes alone: no scalar, mask or unit."""
    return type(x) in (numpy.ndarray, numpy.memmap)


def width_of(dtype: Any) -> int:
    """Return the bytes of one element of a type."""
    return int(kind_of(dtype, "count").itemsize)


def type_of(x: Any) -> int:
    """Return the type of the elements of a buffer as it stands in notes (messages.h)."""
    return _type_bits(buffers.dtype_of(x))


_LETTERS = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q",
    "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
    "f2": "e", "f4": "f", "f8": "d", "f16": "g", "c8": "F", "c16": "D", "c32": "G",
}  # fmt: skip


def _type_bits(dtype: Any) -> int:
    letter = _LETTERS.get(f"{dtype.kind}{dtype.itemsize}")
    if letter is not None:
        return ord(letter) << 4 | (not dtype.isnative) << 12
    digest = int.from_bytes(sha256(buffers.text_of(dtype).encode())[:4], "little")
    return ord("V") << 4 | digest >> 1 << 32


def names(note: int, header: bytes | None, buffer: Any) -> tuple[Any, Any]:
    """Return the types of the elements of a message and of a buffer, for errors."""
    ours = buffers.dtype_of(buffer)
    if header is not None:
        return pickle.loads(header)[0], ours
    if note >> 4 & 255 == ord("V"):
        return "a structured one, or one of a kind of its own", ours
    theirs = numpy.dtype(chr(note >> 4 & 255))
    return theirs.newbyteorder() if note >> 12 & 1 else theirs, ours


_LONG = 2 << 20  # bytes from which a message of device memory goes in parts


def prepare(x: Any, function: str) -> tuple[Any, bytes | None, int, Any]:
    """Return what is sent of an unusual array, how it looks if the note has no room for that, its
    type as it stands there, and what sends it in parts, or None.

    None: it holds objects, and is pickled as one.
    """
    if function in ("send", "isend", "sendrecv") and buffers.on_device(x):
        from acp_mpi.comm.device_parts import Leaving

        parts = Leaving(x, function)
        if parts.size > _LONG:
            return b"", parts.header, _type_bits(parts.dtype), parts
    array = buffers.brought(x, function)
    if array.dtype.hasobject:
        return None, None, 0, None
    array = numpy.ascontiguousarray(array).reshape(array.shape)
    if _has_note(array):
        return array, None, 0, None
    look = pickle.dumps((array.dtype, array.shape), 5)
    return array.reshape(-1).view("u1"), look, _type_bits(array.dtype), None


_PIECES = 64 << 10, 1 << 20  # bytes of slots whose pieces are worth their copies, and fit rooms


def leaving(x: Any, function: str, dtype: Any, slot: int) -> Any:
    """Return what is sent by a channel in parts as they leave a device; None: it goes as a whole.

    `dtype`: of the channel, or None; `slot`: its bytes.
    """
    if not _PIECES[0] <= slot <= _PIECES[1] or not buffers.on_device(x):
        return None
    from acp_mpi.comm import device_parts
    from acp_mpi.rma.device_memory import look_of

    kind, shape = look_of(x, function)
    if (dtype is not None and kind != dtype) or prod(shape) * kind.itemsize <= max(slot, _LONG):
        return None
    return device_parts.leaving(x, function, slot)


def filling(function: str, finish: Any, size: int, slot: int) -> Any:
    """Return what takes the pieces of a message of a channel to a device, or None.

    `finish`: of the buffer.
    """
    if (side := getattr(finish, "side", None)) is None or slot < _PIECES[0] or size <= _LONG:
        return None
    from acp_mpi.comm.device_parts import Filling

    return Filling(function, side, size)


def described(header: bytes, source: int, number: int, context: int) -> Any:
    """Return type and shape of a message, or what brings the parts in which its bytes come."""
    parts = pickle.loads(header)
    if len(parts) == 2:
        return parts
    from acp_mpi.comm.device_parts import Arriving

    return Arriving(parts, source, number, context)


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


def array_as(look: tuple[Any, tuple[int, ...]]) -> tuple[Any, Any]:
    """Return an array of a type and a shape, and its bytes."""
    dtype, shape = look
    return _with_bytes(numpy.empty(shape, dtype))


def _with_bytes(array: Any) -> tuple[Any, Any]:
    if array.nbytes == 0:
        return array, bytearray()
    return array, array.reshape(-1).view("u1")
