"""Device memory as other libraries show theirs: the CUDA array interface and DLPack."""

from __future__ import annotations

import sys
from math import prod

from acp_mpi.engine import _engine
from acp_mpi.rma import device_rooms, opencl_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Side = tuple[Any, int, int, Any]  # block, offset, bytes, stream

KINDS = {
    2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm", 11: "rocm host",
    12: "ext", 13: "cuda managed", 14: "oneapi", 15: "webgpu", 16: "hexagon", 17: "maia",
}  # fmt: skip
_CUDA = 2
_MANAGED = 13
_LETTERS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # of DLPack's codes
_OVERWRITES = ("get", "iget", "register_memory")


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


def _by_interface(x: Any, function: str, writable: bool) -> tuple[int, int, int, int, int, Any]:
    """Return (kind, device, address, offset, bytes, stream) by the CUDA array interface, 2 or 3."""
    import numpy

    shown = x.__cuda_array_interface__
    kind = numpy.dtype(shown["typestr"])
    address, read_only = shown["data"]
    if shown.get("mask") is not None or kind.hasobject:
        raise TypeError(f"{function}: {type(x).__name__} has a mask or objects; give plain numbers")
    contiguous = _contiguous(shown["shape"], shown.get("strides"), kind.itemsize)
    _check(x, function, contiguous, read_only and writable)
    return _CUDA, -1, address, 0, prod(shown["shape"]) * kind.itemsize, shown.get("stream")


def _by_dlpack(x: Any, function: str, writable: bool) -> tuple[int, int, int, int, int, Any]:
    kind, number = x.__dlpack_device__()
    address, _, _, shape, strides, size, read_only, at, _ = _dlpack_place(x, function)
    _check(x, function, _contiguous(shape, strides, 1), read_only and writable)
    return _CUDA if kind == _MANAGED else kind, number, address, at, prod(shape) * size, None


def _dlpack_place(x: Any, function: str) -> tuple[Any, ...]:
    try:
        # No order is asked for here: an operation starts behind a stream by itself.
        cuda = x.__dlpack_device__()[0] in (_CUDA, _MANAGED)
        return _engine.dlpack_place(x.__dlpack__(stream=-1) if cuda else x.__dlpack__())
    except Exception as reason:  # of the exporter, whatever it is
        raise TypeError(
            f"{function}: {type(x).__name__} does not give its memory by DLPack: {reason}"
        ) from reason


def _check(x: Any, function: str, contiguous: bool, read_only: bool) -> None:
    if not contiguous:
        raise ValueError(
            f"{function}: {type(x).__name__} is not contiguous in C order; give a contiguous copy"
        )
    if read_only:
        raise ValueError(
            f"{function}: {type(x).__name__} is read-only, and others must be able to write to it"
        )


def _stream(x: Any, shown: Any) -> Any:
    """Return the stream behind which operations with `x` start; None: the default one."""
    torch = sys.modules.get("torch")
    if shown is None and torch is not None and isinstance(x, torch.Tensor):
        return torch.cuda.current_stream(x.device).cuda_stream
    return shown


def found(x: Any, function: str, writable: bool = False) -> Side:
    """Return (block, offset, bytes, stream) of device memory of the program; the block keeps it."""
    if (own := getattr(x, "_side", None)) is not None:
        side: tuple[Any, int, int, Any] = own(function)
        return side
    if opencl_memory.shows(x):
        return opencl_memory.found(x, function)
    by_interface = hasattr(x, "__cuda_array_interface__")
    kind, number, address, at, size, stream = (_by_interface if by_interface else _by_dlpack)(
        x, function, writable or function in _OVERWRITES
    )
    if not size:
        raise ValueError(
            f"{function}: {type(x).__name__} has no elements; there is nothing to move"
        )
    block, offset = _engine.device_adopt(function, kind, number, address, at + size, x)
    return block, offset + at, size, _stream(x, stream)


def overlap(one: Side | None, other: Side | None) -> bool:
    """Return whether device memory, (block, offset, bytes, stream), lies over another."""
    return (
        one is not None
        and other is not None
        and one[0].address == other[0].address
        and one[1] < other[1] + other[2]
        and other[1] < one[1] + one[2]
    )


def look_of(x: Any, function: str) -> tuple[Any, tuple[int, ...]]:
    """Return the type of the elements of device memory, and its shape."""
    import numpy

    if hasattr(x, "_side") or opencl_memory.shows(x):
        return numpy.dtype(getattr(x, "dtype", "u1")), x.shape if hasattr(x, "dtype") else (x.size,)
    if hasattr(x, "__cuda_array_interface__"):
        shown = x.__cuda_array_interface__
        return numpy.dtype(shown["typestr"]), tuple(shown["shape"])
    _, _, _, shape, _, size, _, _, code = _dlpack_place(x, function)
    return numpy.dtype(f"{_LETTERS.get(code, 'V')}{size}"), shape


class _Staged:
    """A stand-in in host memory for device memory, `side`; all but very long ones are in rooms.

    A call copies its first bytes to the device.
    """

    def __init__(self, function: str, side: Side, look: Any) -> None:
        import numpy

        dtype, shape = look
        self.side, self._function, self._ga = side, function, 0
        if side[2] <= device_rooms.LONG:
            loan = device_rooms.Loan(function, side[2])
            self.array, self._ga = numpy.asarray(loan).view(dtype).reshape(shape), loan.ga
        else:
            self.array = numpy.empty(shape, dtype)  # whose pages are there as far as they are used

    def move(self, size: int, out: bool) -> None:
        block, offset, _, stream = self.side
        side = block, offset, size, stream
        if self._ga:
            _engine.device_move(self._function, self._ga, side, out)
            return
        ga = _engine.register(self.array.ctypes.data, size, 0)
        try:
            _engine.device_move(self._function, ga, side, out)
        finally:
            _engine.quiet(_engine.retire(ga, size))

    def __call__(self, size: int) -> None:
        if size:
            self.move(size, False)


def staged(x: Any, function: str, writable: bool) -> tuple[Any, Callable[[int], None] | None]:
    """Return an array of the host for the elements of device memory.

    It has a copy of them, or if it is `writable` there is what copies its first bytes back.
    """
    import numpy

    look = look_of(x, function)
    if not prod(look[1]) * look[0].itemsize:
        return numpy.empty(look[1], look[0]), (lambda size: None) if writable else None
    stand_in = _Staged(function, found(x, function, writable), look)
    if writable:
        return stand_in.array, stand_in
    stand_in.move(stand_in.side[2], True)
    return stand_in.array, None


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
