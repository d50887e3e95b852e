"""Arrays and other buffers as collectives take them: contiguous, aligned, with a kind."""

from __future__ import annotations

import sys

from acp_mpi.engine import _engine
from acp_mpi.errors import PLAIN_TYPES
from acp_mpi.rma.buffers import array_of, brought, on_device, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from acp_mpi.comm.collectives.units import Units
    from acp_mpi.rma.device_memory import Side

_FORMATS = {"?": "b", "c": "S"} | dict.fromkeys("bhilqn", "i") | dict.fromkeys("BHILQN", "u")
_FORMATS |= dict.fromkeys("efdg", "f")


class Buffer:
    """A buffer: `memory`, `count` elements of `width` bytes of `kind` ("f8"); `array` if NumPy's.

    `back` brings the bytes of a stand-in to the buffer that was meant. `device`: where it is device
    memory, (block, offset, bytes, stream); its `memory` is None then.
    """

    memory: Any
    array: Any = None
    back: Any = None
    device: Side | None = None

    def __init__(self, x: Any, function: str, writable: bool = False) -> None:
        numpy = sys.modules.get("numpy")
        if numpy is not None and hasattr(x, "__array_interface__"):
            self.array = x if type(x) is numpy.ndarray else numpy.asarray(x)
            self._of_array(self.array, function, writable, numpy)
            return
        try:
            view = memoryview(x)
        except TypeError as reason:
            if on_device(x):
                self._of_device(x, function, writable)
                return
            self.array = array_of(x, function, reason)
            self._of_array(self.array, function, writable, sys.modules["numpy"])
            return
        if writable and view.readonly:
            raise ValueError(
                f"{function}: the destination is read-only; give a writable buffer or a copy"
            )
        if not view.c_contiguous:
            raise ValueError(f"{function}: the buffer is not contiguous; give a contiguous one")
        self.width = view.itemsize
        self.kind = _FORMATS.get(view.format.lstrip("@="), "V") + str(self.width)
        self.count = view.nbytes // self.width if self.width else 0
        self.memory = view
        self.shape: tuple[int, ...] = view.shape or ()

    def _of_device(self, x: Any, function: str, writable: bool) -> None:
        import numpy

        from acp_mpi.rma.device_memory import found, look_of

        dtype, shape = look_of(x, function)
        self.array = numpy.broadcast_to(numpy.zeros((), dtype), shape)  # no memory
        self._look(self.array)
        self.memory = None if self.size else bytearray()
        if self.size:
            self.device, self._given = found(x, function, writable), (x, function)

    def settle(self) -> None:
        """Take a copy of device memory in host memory, and leave the device."""
        self.array, self.device = brought(*self._given), None
        self._of_array(self.array, self._given[1], False, sys.modules["numpy"])

    def _look(self, array: Any) -> None:
        dtype = array.dtype
        self.width, self.count, self.shape = dtype.itemsize, array.size, array.shape
        self.kind = f"{dtype.kind}{dtype.itemsize}" if dtype.isnative else dtype.str

    def _of_array(self, array: Any, function: str, writable: bool, numpy: Any) -> None:
        dtype = array.dtype
        if dtype.hasobject:
            raise TypeError(f"{function}: an array of Python objects has no bytes; give a list")
        if writable and not array.flags.writeable:
            raise ValueError(
                f"{function}: the destination is read-only; give a writable buffer or a copy"
            )
        self._look(array)
        flags = array.flags
        plain = array
        if not (flags.c_contiguous and flags.aligned):
            plain = numpy.empty(array.shape, dtype) if writable else numpy.array(array, order="C")
            if writable:

                def back() -> None:
                    array[...] = plain

                self.back = back
        # Some have no name among buffers, as dates and long doubles of the other byte order.
        named = dtype.kind in "biuf" and dtype.isnative
        self.memory = plain if named else plain.reshape(-1).view("u1")

    @property
    def size(self) -> int:
        """Return how many bytes it has."""
        return self.count * self.width

    @property
    def is_raw(self) -> bool:
        """Return whether it is not an array, and its elements may be anything: bytes."""
        return (
            self.array is None
            and self.kind[0] in "buiSV"
            and (self.width == 1 or self.kind[0] == "V")
        )

    @property
    def is_wild(self) -> bool:
        """Return whether its bytes may stand for elements of any type."""
        return self.kind == "u1" or self.is_raw

    @property
    def code(self) -> int:
        """Return its type as the notes of messages have it, 15 bits; 0: any."""
        if self.is_wild:
            return 0
        return code_of(self.kind if self.array is None else self.array.dtype)

    @property
    def type_name(self) -> str:
        """Return the name of the type of its elements, for errors."""
        return str(self.memory.format if self.array is None else self.array.dtype)


_codes: dict[Any, int] = {}


def code_of(kind: Any) -> int:
    """Return 15 bits for a kind ("f8") or a type of NumPy: equal ones have the same."""
    code = _codes.get(kind)
    if code is None:
        code = _codes[kind] = _coded(kind)
    return code


def _coded(kind: Any) -> int:
    if isinstance(kind, str):
        letter, size, native = kind[0], int(kind[1:]), True
    else:
        letter, size, native = kind.kind, kind.itemsize, kind.isnative
    if letter in PLAIN_TYPES:
        return (0 if native else 1 << 10) | list(PLAIN_TYPES).index(letter) + 1 << 6 | size
    return 1 << 14 | int.from_bytes(_engine.sha256(text_of(kind).encode())[:2], "little") >> 2


def is_array(x: Any) -> bool:
    """Return whether `x` is folded element by element: an array of NumPy's, or of a device."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        return not x.dtype.hasobject
    return on_device(x)


def like(given: Buffer, shape: tuple[int, ...] | None = None) -> Any:
    """Return a new array for a result of the kind of `given`."""
    import numpy

    return numpy.empty(given.array.shape if shape is None else shape, given.array.dtype)


def same_type(function: str, given: Buffer, wanted: Buffer, moves: bool = False) -> None:
    """Raise TypeError for elements of two types; bytes, and what has no name here, go with all.

    `moves`: uint8, too.
    """
    if given.kind == wanted.kind or given.is_raw or wanted.is_raw:
        return
    if moves and (given.is_wild or wanted.is_wild):
        return
    raise TypeError(
        f"{function}: x has elements of type {given.type_name} and out of {wanted.type_name}; give "
        "both the same type"
    )


def units_of(
    function: str,
    given: Buffer | None,
    wanted: Buffer | None,
    reads: bool = False,
    in_place: bool = False,
) -> Units | None:
    """Return how device memory goes through short buffers, or None where there is none."""
    mine, theirs = (None if each is None else each.device for each in (given, wanted))
    if mine is None and theirs is None:
        return None
    from acp_mpi.comm.collectives.units import Units

    return Units(function, mine, theirs, reads, in_place)


def apart(given: Buffer, wanted: Buffer, same: bool) -> Buffer:
    """Return `given`, or a copy of it if `wanted` lies over it; `same`: exactly over it is fine."""
    if given.device is not None or wanted.device is not None:
        from acp_mpi.rma.device_memory import overlap

        one, other = given.device, wanted.device
        if overlap(one, other) and not (same and one[1:3] == other[1:3]):  # type: ignore[index]
            given.settle()
        return given
    plain: Any = given.memory
    if given.size and wanted.size and _lie_over(plain, wanted.memory, same):
        given.memory = plain.copy() if given.array is not None else memoryview(bytes(plain))
    return given


def _lie_over(plain: Any, place: Any, same: bool) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None:  # what one object has is as it gives it
        return plain.obj is place.obj and not (same and plain is place)
    here, there = (
        m if isinstance(m, numpy.ndarray) else numpy.frombuffer(m, "u1") for m in (plain, place)
    )
    exactly = here.__array_interface__["data"][0] == there.__array_interface__["data"][0]
    return not (same and exactly) and bool(numpy.may_share_memory(here, there))
