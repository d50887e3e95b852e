"""Where the bytes of a buffer are: in the memory of the host."""

from __future__ import annotations

from acp_mpi.rma.buffers import OF_THE_HOST
from acp_mpi.spawn.standin.original import MPI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OF_A_DEVICE = "__cuda_array_interface__"


def bytes_of(data: Any, writable: bool) -> tuple[memoryview, str | None]:
    """Return a buffer's memory and the format of its elements, None if Python does not know it."""
    try:
        view = memoryview(data)
    except ValueError:  # a buffer whose elements Python has no format for: dates of NumPy
        return _found_by_mpi4py(data, writable), None
    except TypeError:
        if not hasattr(data, "__dlpack_device__") and not hasattr(data, _OF_A_DEVICE):
            raise TypeError(
                f"message: expecting a buffer, got {type(data).__name__}; objects go with the "
                "methods in lower case"
            ) from None
        if not _gives_memory_of_the_host(data):
            raise TypeError(
                "message: expecting a buffer in the memory of the host, got "
                f"{type(data).__name__}; copy what is on a device to the host first"
            ) from None
        return _found_by_mpi4py(data, writable), None
    if writable and view.readonly:
        raise BufferError("message: the buffer is read-only, and the call writes to it")
    if not view.c_contiguous:
        if not view.f_contiguous:
            raise BufferError("message: the buffer is not contiguous; copy it first")
        return _found_by_mpi4py(data, writable), view.format
    return (view.cast("B") if view.nbytes else memoryview(bytearray())), view.format


def _found_by_mpi4py(data: Any, writable: bool) -> memoryview:
    return memoryview(MPI.buffer.frombuffer(data, not writable)).cast("B")


def _gives_memory_of_the_host(data: Any) -> bool:
    """Return whether an object that is no buffer gives its memory by DLPack."""
    return hasattr(data, "__dlpack_device__") and data.__dlpack_device__()[0] in OF_THE_HOST


def code_of(data: Any) -> str:
    """Return the format of elements for which Python has none; raise if NumPy has none either."""
    import numpy as np  # few programs come here

    return str(np.from_dlpack(data).dtype.char)
