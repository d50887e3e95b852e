"""Device memory as pyopencl shows it: buffers and arrays, contexts and queues."""

from __future__ import annotations

import sys

from acp_mpi.engine import _engine
from acp_mpi.errors import DeviceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NUMBER = 4  # of OpenCL, as DLPack has it


def _is(x: Any, *names: str) -> bool:
    """Return whether `x` is of one of these types; without loading pyopencl."""
    module, arrays = sys.modules.get("pyopencl"), sys.modules.get("pyopencl.array")
    types = (getattr(arrays if name == "Array" else module, name, ()) for name in names)
    return module is not None and isinstance(x, tuple(types))


def shows(x: Any) -> bool:
    """Return whether `x` is memory of OpenCL."""
    return _is(x, "MemoryObjectHolder", "Array")


def found(x: Any, function: str) -> tuple[Any, int, int, Any]:
    """Return (block, offset, bytes, None): operations start behind the queue of the array."""
    buffer, offset, size, queue = x, 0, 0, None
    if _is(x, "Array"):
        if not x.flags.c_contiguous:
            raise ValueError(
                f"{function}: {type(x).__name__} is not contiguous in C order; give a copy"
            )
        buffer, offset, size, queue = x.base_data, x.offset, x.nbytes, x.queue
        if size and not _is(buffer, "MemoryObjectHolder"):
            raise TypeError(f"{function}: {type(x).__name__} is not in a buffer; give one that is")
    elif _is(x, "MemoryObjectHolder"):
        size = x.size
    if not size:
        raise ValueError(f"{function}: {type(x).__name__} has no elements; nothing is to be moved")
    block, at = _engine.device_adopt(
        function, NUMBER, -1, buffer.int_ptr, offset + size, x, queue.int_ptr if queue else 0
    )
    return block, at + offset, size, None


def place_of(device: Any) -> tuple[int, int, int, int] | None:
    """Return (kind, number, context, queue) of a context or a queue; None: it is neither."""
    if _is(device, "Context"):
        return NUMBER, -1, device.int_ptr, 0
    if _is(device, "CommandQueue"):
        return NUMBER, -1, device.context.int_ptr, device.int_ptr
    return None


def buffer_over(array: Any, device: Any) -> Any:
    """Return a pyopencl.Buffer over an array of the host, of zeros; None: `device` is another's.

    DeviceError where kernels store elsewhere, in a copy.
    """
    if place_of(device) is None:
        return None
    import pyopencl as cl

    context = getattr(device, "context", device)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    buffer, queue = cl.Buffer(context, flags, hostbuf=array), cl.CommandQueue(context)
    cl.enqueue_fill_buffer(queue, buffer, b"\1", 0, array.nbytes).wait()
    if not array.all():
        raise DeviceError("the device keeps a copy of host memory; no kernel of it can store there")
    array[...] = 0
    return buffer


def buffer_of(handle: int, offset: int, size: int) -> Any:
    """Return the pyopencl.Buffer with that handle, or a part of it."""
    import pyopencl

    whole: Any = pyopencl.Buffer.from_int_ptr(handle, True)
    if not offset:
        return whole
    try:
        return whole.get_sub_region(offset, size)
    except pyopencl.Error as reason:
        raise ValueError(
            f"buffer: OpenCL has no part at byte {offset}: {reason}; give kernels the "
            "buffer of the whole array, and the offset"
        ) from reason
