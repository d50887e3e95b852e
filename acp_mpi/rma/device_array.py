"""Arrays in the memory of a device, with global addresses."""

from __future__ import annotations

from math import prod
from operator import index
from weakref import WeakSet

from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError, Error
from acp_mpi.rma import device_share, opencl_memory
from acp_mpi.rma.buffers import place_of
from acp_mpi.rma.device_memory import KINDS, device_of
from acp_mpi.rma.shapes import color_of, extent_of, kind_of
from acp_mpi.util.lifecycle import on_close, on_reset
from acp_mpi.util.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CUDA = 2
_OPENCL = 4
_PAGE = 4096
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # of DLPack
_dropped: list[tuple[Any, int, int, int, Any, int]] = []  # memory whose arrays are gone
_global: WeakSet[_Memory] = WeakSet()  # memory with an address
_views: WeakSet[_Memory] = WeakSet()  # memory of other ranks, or of arrays of others
_pinned: list[tuple[int, int, int, int, Any]] = []  # kind, first page, end, for kernels, array


class _Memory:
    """A block, or a part, with its address, which its array and all slices of it share."""

    __slots__ = ("__weakref__", "begin", "block", "color", "ga", "number", "share", "size")

    def __init__(
        self, block: Any, size: int, color: int, ga: int = 0, begin: int = 0, share: Any = None
    ) -> None:
        self.block, self.size, self.color, self.share = block, size, color, share
        self.ga, self.begin = ga, begin  # the address of that byte of the block
        self.number = 0  # of its registration; 0: none here

    def address(self) -> int:
        if self.block is None:
            raise AddressError("the array is closed; make another with acp.empty")
        if not self.ga:
            place = self.begin, self.size, self.color
            ga, self.number = _engine.device_register(self.block, *place)
            self.ga = ga
            _global.add(self)
        return self.ga

    def _leave(self) -> tuple[Any, int, int, int, Any, int]:
        """Return what is to be ended of it, and forget it."""
        left = self.block, self.ga, self.size, self.number, self.share, self.begin
        self.block, self.ga, self.share = None, 0, None
        return left

    def close(self) -> None:
        if self.block is not None:
            ended(*self._leave())

    def __del__(self) -> None:
        if self.block is not None and (self.share is not None or (self.number and self.ga)):
            _dropped.append(self._leave())  # a later call ends it


def ended(block: Any, ga: int, size: int, number: int, share: Any, begin: int) -> None:
    """End an address of device memory, and give back the part of a block that it is of."""
    if ga and number:
        if _engine.is_open():
            _engine.quiet(_engine.retire(ga, size))
        _engine.device_drop(block, number)
    if share is not None:
        share.give(begin, size)


def _viewed(block: Any) -> bool:
    """Return whether anybody has a view in a block of this process."""
    here = (view.block for view in _views)
    return _engine.device_viewed(block) or any(
        view is not None and view.address == block.address for view in here
    )


def _end_dropped() -> None:
    while _dropped:
        ended(*_dropped.pop())


@on_reset
@on_close
def _forget_addresses() -> None:
    """Have nobody use the memory, whose addresses have died, or die now; arrays keep it."""
    for memory in list(_views):
        memory.close()
    while _dropped:
        block, ga, size, number, share, begin = _dropped.pop()
        if ga and number:
            _engine.device_drop(block, number)
        if share is not None:
            share.give(begin, size)
    for memory in list(_global):
        if memory.ga:
            _engine.device_drop(memory.block, memory.number)
            memory.ga = memory.number = 0
    _global.clear()


class DeviceArray:
    """A C-contiguous array in the memory of a device of this process; made by `acp.empty(device=)`.

    It has no arithmetic: `cupy.asarray(a)`, `torch.as_tensor(a, device="cuda")` and others share
    its memory by DLPack or the CUDA array interface. `a[1:3]` is a part along the first axis.
    `close()`, or the end of a `with` block, ends its address and gives the memory back, for all
    its parts; else that follows when all of them are dropped.
    """

    __slots__ = ("_memory", "_offset", "dtype", "shape")

    def __init__(self, memory: _Memory, offset: int, shape: tuple[int, ...], dtype: Any) -> None:
        self._memory, self._offset = memory, offset
        self.shape, self.dtype = shape, dtype

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return prod(self.shape) * int(self.dtype.itemsize)

    @property
    def device(self) -> str:
        """The device, as "cuda:0"."""
        block = self._open()
        return f"{KINDS.get(block.type, str(block.type))}:{block.number}"

    @property
    def ga(self) -> int:
        """The global address of the first byte; the first look makes the memory global."""
        return self._memory.address() + self._offset - self._memory.begin

    @property
    def closed(self) -> bool:
        """Whether its memory has been given back."""
        return self._memory.block is None

    def _open(self) -> Any:
        if self._memory.block is None:
            raise AddressError("DeviceArray: the array is closed; make another with acp.empty")
        return self._memory.block

    def _side(self, function: str) -> tuple[Any, int, int, Any]:
        if function == "register_memory" and self._memory in _views:
            raise ValueError(f"{function}: the array is a view; its address for all is array.ga")
        return self._open(), self._offset, self.nbytes, None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("DeviceArray: an array without dimensions has no length")
        return self.shape[0]

    def __getitem__(self, part: Any) -> DeviceArray:
        if not self.shape:
            raise IndexError("DeviceArray: an array without dimensions has no parts")
        rest = self.shape[1:]
        row = prod(rest) * int(self.dtype.itemsize)
        if not isinstance(part, slice):
            start = range(self.shape[0])[part]
            return DeviceArray(self._memory, self._offset + start * row, rest, self.dtype)
        start, stop, step = part.indices(self.shape[0])
        if step != 1:
            raise ValueError("DeviceArray: parts are contiguous: give a slice with step 1")
        length = max(stop - start, 0)
        return DeviceArray(self._memory, self._offset + start * row, (length, *rest), self.dtype)

    def get(self) -> Any:
        """Return a NumPy array with a copy of the elements."""
        import numpy

        result = numpy.empty(self.shape, self.dtype)
        if self.nbytes:
            _engine.get(self.ga, result)
        return result

    def set(self, values: Any) -> None:
        """Copy values of the host into it, with NumPy's broadcasting."""
        import numpy

        whole = numpy.empty(self.shape, self.dtype)
        whole[...] = values
        if self.nbytes:
            _engine.put(self.ga, whole)

    def __reduce__(self) -> Any:
        return self.get().__reduce__()  # in other processes it is an array of the host

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        block = self._open()
        if block.type != _CUDA:
            raise AttributeError("__cuda_array_interface__")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (block.address + self._offset if self.nbytes else 0, False),
            "strides": None,
            "version": 3,
            "stream": None,
        }

    @property
    def buffer(self) -> Any:
        """The pyopencl.Buffer of its memory, for kernels; of a part, where OpenCL can have one."""
        block = self._open()
        if block.type != _OPENCL:
            raise AttributeError("buffer: the memory is not OpenCL's")
        return opencl_memory.buffer_of(block.address, self._offset, self.nbytes)

    def __dlpack_device__(self) -> tuple[int, int]:
        block = self._open()
        return block.type, block.number

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        if dl_device not in (None, self.__dlpack_device__()) or copy:
            raise BufferError("DeviceArray: only its own memory can be given; use get() for a copy")
        if self.dtype.kind not in _CODES:
            raise BufferError(f"DeviceArray: DLPack has no elements of type {self.dtype}")
        block = self._open()
        code, size = _CODES[self.dtype.kind], int(self.dtype.itemsize)
        address, place = block.address, (block.type, block.number)
        return _engine.dlpack_capsule(
            address, *place, self.shape, code, size, self._memory, self._offset
        )

    def close(self) -> None:
        """End its address on every rank and give the memory back; waits for copies. Idempotent."""
        self._memory.close()

    def __enter__(self) -> DeviceArray:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.device
        where = f" at {self.ga:#x}" if self._memory.ga else ""
        return f"<acp_mpi.DeviceArray {self.shape} {self.dtype} on {state}{where}>"


_engine.set_device_array(DeviceArray)


def made(
    shape: Any, dtype: Any, color: Any, device: Any, function: str, zeros: bool
) -> DeviceArray:
    """Make the array of `acp.empty(device=)` or `acp.zeros(device=)`."""
    _engine.demand(function)
    kind, extent = kind_of(dtype, function), extent_of(shape, function)
    type, number, *place = device_of(device, function)
    color = color_of(color, function)
    _end_dropped()
    size = max(prod(extent) * kind.itemsize, 1)
    if not place and number < 0:
        number = _engine.device_resolve(function, type, number)
    room = device_share.part(type, number, size, _viewed) if type != _OPENCL else None
    if room is None:
        memory = _Memory(_engine.device_allocate(type, number, size, *place), size, color)
    else:
        share, begin = room
        memory = _Memory(share.block, size, color, 0, begin, share)
    array = DeviceArray(memory, memory.begin, extent + kind.shape, kind.base)
    if zeros and array.nbytes:
        part = bytes(min(array.nbytes, 1 << 20))
        for at in range(0, array.nbytes, len(part)):
            _engine.put(array.ga + at, part[: array.nbytes - at])
    return array


def device_pointer(array: Any, device: object = "cuda") -> int:
    """Return the address at which kernels of a device load and store an array of the host.

    For flags in global memory that a kernel sets or looks at: an array of `acp.empty`, or an
    `acp.view`. Its pages are pinned, and it is kept, until `finalize` or `reset`. DeviceError where
    the driver cannot do that, as OpenCL's.
    """
    _engine.demand("device_pointer")
    type, number, *_ = device_of(device, "device_pointer")
    begin, size, _ = place_of(array, "device_pointer")
    first, end = begin // _PAGE * _PAGE, -(-(begin + size) // _PAGE) * _PAGE
    for kind, low, high, address, _ in _pinned:
        if kind == type and low <= first and end <= high:
            return address + begin - low
        if kind == type and low < end and first < high:
            raise Error(
                "device_pointer: a part of its pages is pinned for another array; ask for the "
                "pointer of the longer one first"
            )
    address = _engine.device_pin(type, number, first, end - first)
    _pinned.append((type, first, end, address, array))
    return address + begin - first


@on_reset
@on_close
def _unpin() -> None:
    while _pinned:
        kind, first, *_ = _pinned.pop()
        _engine.device_unpin(kind, first)


def viewed(ga: Any, extent: tuple[int, ...], kind: Any) -> Any:
    """Return the array of `acp.view` of device memory; None: it is memory of another sort."""
    size = max(prod(extent) * kind.itemsize, 1)
    found = _engine.device_view(ga, size)
    if isinstance(found, str):
        _engine.device_list()  # which loads the drivers
        found = _engine.device_view(ga, size)
    if isinstance(found, str):
        raise AddressError(
            f"view: the device memory at {index(ga):#x} is not mapped here: {found}; put, get and "
            "copy reach it through its owner"
        )
    if found is None:
        return None
    block, offset = found
    memory = _Memory(block, size, 0, index(ga), offset)
    _views.add(memory)
    return DeviceArray(memory, offset, extent + kind.shape, kind.base)


class Device(Record):
    """A device that this process can use, or a kind of devices that it cannot."""

    __slots__ = ("active", "blocks", "free", "imports", "model", "name", "reason", "size", "uuid")

    def __init__(
        self, name: str, model: str, uuid: str, active: bool, free: int, size: int, blocks: int,
        imports: int, reason: str,
    ) -> None:  # fmt: skip
        self.name = name
        self.model = model
        self.uuid = uuid
        self.active = active
        self.free = free
        self.size = size
        self.blocks = blocks
        self.imports = imports
        self.reason = reason


def devices() -> list[Device]:
    """Return the devices whose memory can be global.

    Of each its name, model and uuid, and whether this process has a context there. A kind whose
    driver is missing has one entry, with the `reason`. `free` and `size` are bytes, 0 if unknown;
    `blocks` and `imports` are this process's, of the whole kind. Loads the drivers.
    """
    found = []
    for each in _engine.device_list():
        kind, model, reason, number, uuid = each[:5]
        name, identity = (kind, "") if reason else (f"{kind}:{number}", uuid.hex())
        found.append(Device(name, model, identity, *each[5:], reason))
    return found
