"""Buffer specifications of mpi4py: the bytes of memory that a call means.

`[data, count, displacement, datatype]` in all the shorter forms that mpi4py takes. Whole elements
without gaps are sent from where they are and received in place; all else MPI itself packs and
unpacks, by a message of this process to itself.
"""

from __future__ import annotations

import operator
from _thread import allocate_lock

from acp_mpi.spawn.standin.family import MPI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


_OF_A_DEVICE = "__cuda_array_interface__"


def bytes_of(data: Any, writable: bool) -> tuple[memoryview, str | None]:
    """Return a buffer's memory and the format of its elements, None if Python does not know it."""
    try:
        view = memoryview(data)
    except ValueError:  # a buffer of elements without a format in Python: dates of NumPy
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
    """Return whether an object that is not a buffer gives its memory by DLPack."""
    from acp_mpi.rma.buffers import OF_THE_HOST  # few programs come here

    return hasattr(data, "__dlpack_device__") and data.__dlpack_device__()[0] in OF_THE_HOST


def code_of(data: Any) -> str:
    """Return the format of elements for which Python has none; raise if NumPy has none either."""
    import numpy as np  # few programs come here

    return str(np.from_dlpack(data).dtype.char)


_own: Any = None
_lock = allocate_lock()


def _to_itself() -> Any:
    """Return a communicator of this process alone, on which no other has messages."""
    global _own
    if _own is None:
        _own = MPI.COMM_SELF.Dup()
        _own.Set_errhandler(MPI.ERRORS_RETURN)
    return _own


def move(source: Any, destination: Any) -> None:
    """Copy from one specification to another as a message does."""
    with _lock:
        _to_itself().Sendrecv(source, 0, 0, destination, 0, 0)


class Elements:
    """A number of elements of a datatype, from an element of a buffer on."""

    __slots__ = ("_whole", "bytes", "count", "data", "datatype", "displacement", "extent")

    def __init__(
        self,
        data: Any,
        whole: memoryview | None,
        count: int,
        displacement: int,
        datatype: Any,
        measures: tuple[int, int, bool] | None = None,
    ) -> None:
        self.data, self.count, self.displacement = data, count, displacement
        self.datatype = datatype
        size, self.extent, gapless = measures or _measures(datatype)
        self.bytes = count * size
        self._whole = whole if gapless else None

    @property
    def specification(self) -> list[Any]:
        """The same in mpi4py's words."""
        return [self.data, (self.count, self.displacement), self.datatype]

    @property
    def direct(self) -> memoryview | None:
        """The bytes where they are, if they are whole elements in one piece."""
        if self._whole is None:
            return None
        if not self.bytes:
            return self._whole[:0]  # wherever that would be
        start = self.displacement * self.extent
        if start < 0 or start + self.bytes > len(self._whole):
            raise ValueError(
                f"message: {self.count} elements of {self.extent} bytes from byte {start} on do "
                f"not lie in a buffer of {len(self._whole)} bytes"
            )
        return self._whole[start : start + self.bytes]

    def pack(self) -> Any:
        """Return the bytes as they travel: where they are, or a copy."""
        direct = self.direct
        if direct is not None:
            return direct
        packed = bytearray(self.bytes)
        move(self.specification, [packed, MPI.BYTE])
        return packed

    def unpack(self, packed: Any) -> None:
        """Put bytes that have travelled into place."""
        if len(packed) > self.bytes:
            raise MPI.Exception(MPI.ERR_TRUNCATE)
        direct = self.direct
        if direct is None:
            move([packed, MPI.BYTE], self.specification)
        else:
            direct[: len(packed)] = packed

    def raw(self) -> bytearray:
        """Return a copy of the elements with their gaps, for a reduction."""
        copy = bytearray(self.count * self.extent)
        if self.count:
            move(self.specification, [copy, self.count, self.datatype])
        return copy

    def put_raw(self, raw: Any) -> None:
        """Put elements with gaps into place."""
        if self.count:
            move([raw, self.count, self.datatype], self.specification)

    def part(self, count: int, displacement: int) -> Elements:
        """Return other elements of the same buffer; counted from its start."""
        return Elements(self.data, self._whole, count, displacement, self.datatype)


def _measures(datatype: Any) -> tuple[int, int, bool]:
    """Return size and extent, and whether elements lie side by side, each in one piece."""
    size = datatype.Get_size()
    extent = datatype.Get_extent()[1] if datatype != MPI.DATATYPE_NULL else 0
    return size, extent, datatype.is_predefined and size == extent


class _Kept(MPI.Datatype):  # type: ignore[misc]
    """A copy of a program's datatype, which it may free while an operation is under way."""

    def __del__(self) -> None:
        if not MPI.Is_finalized():
            self.Free()


def kept(given: Any) -> Any:
    """Return a datatype, or a specification with its datatypes, that outlives the program's."""
    if isinstance(given, (list, tuple)):
        copies = map(kept, given)
        return list(copies) if isinstance(given, list) else tuple(copies)
    lasts = not isinstance(given, MPI.Datatype) or isinstance(given, _Kept) or given.is_predefined
    return given if lasts else _Kept(given.Dup())


def _datatype(given: Any) -> Any:
    if isinstance(given, MPI.Datatype):
        return kept(given)
    if given not in MPI._typedict:
        raise KeyError(f"cannot map {given!r} to MPI datatype")
    return MPI._typedict[given]


def _datatype_of(code: str) -> Any:
    return _datatype(code[1:] if code[0] in "@<" else code)


_by_code: dict[str, tuple[Any, tuple[int, int, bool]]] = {}  # MPI is slow to say what they measure


def _all_of(data: Any, writable: bool) -> Elements | None:
    """Return all elements of an array of the usual kind; None: there is more to be said of it."""
    try:
        view = memoryview(data)
    except (TypeError, ValueError):
        return None
    code = view.format
    if code not in _by_code:
        datatype = _datatype_of(code)
        _by_code[code] = datatype, _measures(datatype)
    datatype, measures = _by_code[code]
    size, _, gapless = measures
    if not gapless or not view.c_contiguous or (writable and view.readonly) or not view.nbytes:
        return None
    return Elements(data, view.cast("B"), view.nbytes // size, 0, datatype, measures)


def _is_datatype(given: Any) -> bool:
    return isinstance(given, (MPI.Datatype, str))


def _words(message: Any, pairs: tuple[type, ...]) -> tuple[Any, Any, Any, Any]:
    """Take a specification apart: buffer, count, displacement, datatype."""
    if not isinstance(message, (list, tuple)):
        return message, None, None, None
    if not 2 <= len(message) <= 4:
        raise ValueError("message: expecting 2 to 4 items")
    data, count, displacement, datatype = message[0], None, None, None
    if len(message) == 2:
        if _is_datatype(message[1]):
            datatype = message[1]
        else:
            count = message[1]
    elif len(message) == 3:
        count, datatype = message[1:]
    else:
        count, displacement, datatype = message[1:]
    if len(message) < 4 and isinstance(count, pairs):
        count, displacement = count  # type: ignore[misc]
    return data, count, displacement, datatype


def _base(message: Any, pairs: tuple[type, ...], writable: bool) -> tuple[Any, ...]:
    data, count, displacement, datatype = _words(message, pairs)
    if data is None or data is MPI.BOTTOM:
        if datatype is None:
            raise TypeError("message: expecting buffer or list/tuple")
        whole = memoryview(bytearray()) if data is None else None
        kind, length = _datatype(datatype), 0
    else:
        whole, code = bytes_of(data, writable)
        kind = _datatype_of(code or code_of(data)) if datatype is None else _datatype(datatype)
        length = whole.nbytes
    return data, whole, length, count, displacement, kind


def _infer(length: int, kind: Any) -> int:
    if length == 0:
        return 0
    if kind == MPI.DATATYPE_NULL:
        raise ValueError("message: cannot infer count, datatype is null")
    low, extent = kind.Get_extent()
    if extent <= 0:
        raise ValueError(f"message: cannot infer count, datatype extent {extent} (lb:{low})")
    if length % extent:
        raise ValueError(
            f"message: cannot infer count, buffer length {length} is not a multiple of datatype "
            f"extent {extent} (lb:{low}, ub:{low + extent})"
        )
    return int(length // extent)


def elements(message: Any, *, writable: bool = False, blocks: int = 1) -> Elements:
    """Return the meaning of a specification; without a count: one of `blocks` equal blocks."""
    if blocks == 1 and not isinstance(message, (list, tuple)):
        plain = _all_of(message, writable)
        if plain is not None:
            return plain
    data, whole, length, count, displacement, kind = _base(message, (list, tuple), writable)
    start = 0 if displacement is None else operator.index(displacement)
    if start < 0:
        raise ValueError(f"message: negative displacement {start}")
    if start and start * kind.Get_extent()[1] > length:
        raise ValueError(f"message: displacement {start} out of bounds")
    if count is None:
        number = _infer(length - (start * kind.Get_extent()[1] if start else 0), kind)
        if blocks > 1 and number % blocks:
            raise ValueError(
                f"message: cannot infer count, number of entries {number} is not a multiple of "
                f"required number of blocks {blocks}"
            )
        number //= max(blocks, 1)
    else:
        number = operator.index(count)
        if number < 0:
            raise ValueError(f"message: negative count {number}")
        if number and data is None:
            raise ValueError(f"message: buffer is None but count is {number}")
    return Elements(data, whole, number, start, kind)


def equal_blocks(message: Any, blocks: int, *, writable: bool = False) -> list[Elements]:
    """Return the blocks of a specification, one for each rank."""
    first = elements(message, writable=writable, blocks=blocks)
    return [
        first.part(first.count, first.displacement + rank * first.count) for rank in range(blocks)
    ]


def _each(given: Any, blocks: int, step: int | None) -> list[int]:
    try:
        same = operator.index(given)
    except TypeError:
        values = [operator.index(value) for value in given]
        if len(values) != blocks:
            raise ValueError(f"expecting {blocks} items, got {len(values)}") from None
        return values
    return [same * (rank if step else 1) for rank in range(blocks)]


def unequal_blocks(message: Any, blocks: int, *, writable: bool = False) -> list[Elements]:
    """Return the blocks of a specification with counts and displacements, one for each rank."""
    data, whole, length, counts, places, kind = _base(message, (tuple,), writable)
    if counts is None:
        number = _infer(length, kind)
        each = [number // blocks + (number % blocks > rank) for rank in range(blocks)]
    else:
        each = _each(counts, blocks, None)
    if places is None:
        where, at = [], 0
        for count in each:
            where.append(at)
            at += count
    else:
        where = _each(places, blocks, 1)
    return [
        Elements(data, whole, count, place, kind) for count, place in zip(each, where, strict=True)
    ]


class _Placed:
    """Elements with their place in bytes, as Alltoallw counts."""

    def __init__(self, data: Any, count: int, offset: int, kind: Any) -> None:
        place = MPI.Datatype.Create_hindexed(kind, [count], [offset])
        self.datatype, self._data = place.Commit(), data
        self.bytes = place.Get_size()

    def pack(self) -> Any:
        """Return the bytes as they travel."""
        packed = bytearray(self.bytes)
        if self.bytes:
            move([self._data, (1, 0), self.datatype], [packed, MPI.BYTE])
        return packed

    def unpack(self, packed: Any) -> None:
        """Put bytes that have travelled into place."""
        if len(packed) > self.bytes:
            raise MPI.Exception(MPI.ERR_TRUNCATE)
        if self.bytes:
            move([packed, MPI.BYTE], [self._data, (1, 0), self.datatype])

    def __del__(self) -> None:
        if not MPI.Is_finalized():
            self.datatype.Free()


def typed_blocks(message: Any, blocks: int, *, writable: bool = False) -> Sequence[Any]:
    """Return blocks that have a datatype each."""
    if len(message) == 2:
        (data, kinds), counts, places = message, None, None
    elif len(message) == 3:
        data, (counts, places), kinds = message
    elif len(message) == 4:
        data, counts, places, kinds = message
    else:
        raise ValueError("message: expecting 2 to 4 items")
    if len(kinds) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(kinds)}")
    if writable and data is not MPI.BOTTOM:
        bytes_of(data, True)
    each = [1] * blocks if counts is None else _each(counts, blocks, None)
    where = [0] * blocks if places is None else _each(places, blocks, 1)
    return [_Placed(data, *block) for block in zip(each, where, kinds, strict=True)]
