"""Memory that a command names: where it is for the delegate, and what it holds."""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple

import acp_mpi as acp


class Part(NamedTuple):
    """What a rank wants to have written."""

    ga: int
    nbytes: int
    dtype: Any  # None: bytes
    shape: tuple[int, ...]  # of the memory
    at: int  # its first element, or byte, in the file
    whole: tuple[int, ...] | None  # the shape of the file
    parts: int | None
    key: str | None  # a dataset of HDF5

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize if self.dtype is not None else 1


def release(keep: Any) -> None:
    """Let go of what was kept for a command."""
    for one in keep if isinstance(keep, (list, tuple)) else (keep,):
        if isinstance(one, acp.AtKey):
            one.close()


def place_of(x: Any, function: str, *, write: bool) -> tuple[int, int, Any, tuple[int, ...], Any]:
    """Return (address, bytes, type or None, shape, what to keep) of memory.

    Memory that is not global becomes so; of the host it is copied if it is only to be read. What
    the program has given a device to do with its memory is done when this returns.
    """
    if isinstance(x, tuple) and len(x) == 2:
        return index(x[0]), index(x[1]), None, (index(x[1]),), None
    if isinstance(x, acp.AtKey):
        return acp.query_ga(x), x.size, None, (x.size,), None
    if isinstance(x, acp.RemoteArray):
        return x.ga, x.nbytes, x.dtype, x.shape, x
    import numpy

    from acp_mpi.rma.buffers import hosted, on_device
    from acp_mpi.rma.shapes import kind_of

    if on_device(x):
        return _place_on_device(x)
    array = hosted(x, function)
    if not write:
        array = numpy.asarray(array)
    elif not isinstance(array, numpy.ndarray):
        raise TypeError(
            f"{function}: {type(x).__name__} is neither an array nor a key nor (address, bytes)"
        )
    kind = kind_of(array.dtype, function)
    if not array.size:
        return 0, 0, kind, array.shape, array
    if array.flags.c_contiguous:
        try:
            return acp.query_ga(array), array.nbytes, kind, array.shape, array
        except acp.AddressError:
            pass
    if write or (array.flags.c_contiguous and array.flags.writeable):
        if not array.flags.c_contiguous or not array.flags.writeable:
            which = "writable" if array.flags.c_contiguous else "contiguous"
            raise ValueError(f"{function}: the array is not {which}; give one that is, or a copy")
        key = acp.register_memory(array)
        return acp.query_ga(key), array.nbytes, kind, array.shape, key
    copy = acp.empty(array.shape, kind)
    copy[...] = array
    return acp.query_ga(copy), copy.nbytes, kind, copy.shape, copy


def _place_on_device(x: Any) -> tuple[int, int, Any, tuple[int, ...], Any]:
    from acp_mpi.rma.device_memory import found, look_of

    _, _, nbytes, stream = found(x, "put")
    keep = x if isinstance(x, acp.DeviceArray) else acp.register_memory(x)
    ga = acp.query_ga(keep)
    # Another process will copy, for which the device has no order: a copy of a byte has.
    acp.get(ga, bytearray(1), stream=stream)
    return ga, nbytes, *look_of(x, "put"), keep
