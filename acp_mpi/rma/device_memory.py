"""Device memory as other libraries show theirs: the CUDA array interface and DLPack."""

from __future__ import annotations

import sys
from math import prod

from acp_mpi.engine import _engine
from acp_mpi.rma import opencl_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

KINDS = {
    2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm", 11: "rocm host",
    12: "ext", 13: "cuda managed", 14: "oneapi", 15: "webgpu", 16: "hexagon", 17: "maia",
}  # fmt: skip
_CUDA = 2
_MANAGED = 13


def name_of(x: Any) -> str:
    """Return the device of `x` in words, as "cuda 1"."""
    if opencl_memory.shows(x):
        return "opencl"
    if not hasattr(x, "__dlpack_device__"):
        return "cuda"
    kind, number = x.__dlpack_device__()
    return f"{KINDS.get(kind, f'type {kind}')} {number}"


def _contiguous(shape: Sequence[int], strides: Sequence[int] | None, unit: int) -> bool:
    for length, stride in zip(reversed(shape), reversed(strides or ()), strict=False):
        if length > 1 and stride != unit:
            return False
        unit *= length
    return True


def _by_interface(x: Any, function: str) -> tuple[int, int, int, int, int, Any]:
    """Return (kind, device, address, offset, bytes, stream) by the CUDA array interface, 2 or 3."""
    import numpy

    shown = x.__cuda_array_interface__
    kind = numpy.dtype(shown["typestr"])
    address, read_only = shown["data"]
    if shown.get("mask") is not None or kind.hasobject:
        raise TypeError(f"{function}: {type(x).__name__} has a mask or objects; give plain numbers")
    _check(x, function, _contiguous(shown["shape"], shown.get("strides"), kind.itemsize), read_only)
    return _CUDA, -1, address, 0, prod(shown["shape"]) * kind.itemsize, shown.get("stream")


def _by_dlpack(x: Any, function: str) -> tuple[int, int, int, int, int, Any]:
    kind, number = x.__dlpack_device__()
    try:
        # No order is asked for here: an operation starts behind a stream by itself.
        capsule = x.__dlpack__(stream=-1) if kind in (_CUDA, _MANAGED) else x.__dlpack__()
        address, _, _, shape, strides, size, read_only, at = _engine.dlpack_place(capsule)
    except Exception as reason:  # of the exporter, whatever it is
        raise TypeError(
            f"{function}: {type(x).__name__} does not give its memory by DLPack: {reason}"
        ) from reason
    _check(x, function, _contiguous(shape, strides, 1), read_only)
    return _CUDA if kind == _MANAGED else kind, number, address, at, prod(shape) * size, None


def _check(x: Any, function: str, contiguous: bool, read_only: bool) -> None:
    if not contiguous:
        raise ValueError(
            f"{function}: {type(x).__name__} is not contiguous in C order; give a contiguous copy"
        )
    if read_only and function in ("get", "iget", "register_memory"):
        raise ValueError(
            f"{function}: {type(x).__name__} is read-only, and others must be able to write to it"
        )


def _stream(x: Any, shown: Any) -> Any:
    """Return the stream behind which operations with `x` start; None: the default one."""
    torch = sys.modules.get("torch")
    if shown is None and torch is not None and isinstance(x, torch.Tensor):
        return torch.cuda.current_stream(x.device).cuda_stream
    return shown


def found(x: Any, function: str) -> tuple[Any, int, int, Any]:
    """Return (block, offset, bytes, stream) of device memory of the program; the block keeps it."""
    if (own := getattr(x, "_side", None)) is not None:
        side: tuple[Any, int, int, Any] = own(function)
        return side
    if opencl_memory.shows(x):
        return opencl_memory.found(x, function)
    by_interface = hasattr(x, "__cuda_array_interface__")
    kind, number, address, at, size, stream = (_by_interface if by_interface else _by_dlpack)(
        x, function
    )
    if not size:
        raise ValueError(
            f"{function}: {type(x).__name__} has no elements; there is nothing to move"
        )
    block, offset = _engine.device_adopt(function, kind, number, address, at + size, x)
    return block, offset + at, size, _stream(x, stream)


def device_of(device: Any, function: str) -> tuple[int, ...]:
    """Return (kind, number) of "cuda:1", a device of PyTorch or CuPy, or such a pair.

    Of a context or a queue of pyopencl (kind, number, context, queue).
    """
    if (place := opencl_memory.place_of(device)) is not None:
        return place
    numbers = {name: kind for kind, name in KINDS.items()}
    name, number = getattr(device, "type", None), getattr(device, "index", None)
    if isinstance(device, str):
        name, _, text = device.partition(":")
        number = int(text) if text.isdecimal() else None if not text else -2
    elif isinstance(device, tuple) and len(device) == 2:
        return int(device[0]), int(device[1])
    elif type(device).__module__.partition(".")[0] == "cupy":
        name, number = "cuda", device.id
    if name not in numbers or number == -2:
        raise TypeError(
            f'{function}: {device!r} is not a device; give "cuda", "cuda:1", a device of PyTorch '
            "or CuPy, or a pair of numbers as DLPack has them"
        )
    return numbers[name], -1 if number is None else number
