# Device memory: blocks, their addresses, and transfers to and from arrays of a device.

from libc.stdint cimport int32_t

cdef extern from *:
    """
    #include "core/devices.h"
    """
    cdef struct kind:
        pass
    ctypedef struct acp_device_block:
        pass
    ctypedef struct acp_device_place:
        int32_t kind
        int32_t number
        void *context
        uint64_t stream
    ctypedef struct acp_device_info:
        char kind[16]
        char name[64]
        char words[112]
        int32_t number
        uint8_t device[16]
        bint active
        uint64_t free
        uint64_t size
        uint32_t blocks
        uint32_t imports
    int acp_device_kind(acp_engine *, const kind *)
    bint acp_device_list(acp_engine *, uint32_t, acp_device_info *) nogil
    void acp_device_words(acp_engine *, char *, uint64_t *)
    int acp_device_resolve(acp_lane *, acp_device_place, int32_t *)
    bint acp_device_viewed(acp_engine *, acp_device_block *)
    int acp_device_allocate(acp_lane *, acp_device_place, uint64_t, acp_device_block **) nogil
    int acp_device_adopt(acp_lane *, acp_device_place, uint64_t, uint64_t, acp_device_block **, uint64_t *) nogil
    uint64_t acp_device_address(const acp_device_block *)
    int32_t acp_device_number(const acp_device_block *)
    int32_t acp_device_type(const acp_device_block *)
    int acp_device_view(acp_lane *, acp_ga_t, uint64_t, acp_device_block **, uint64_t *) nogil
    void acp_device_give(acp_engine *, acp_device_block *) nogil
    int acp_device_register(acp_lane *, acp_device_block *, uint64_t, uint64_t, uint32_t, acp_ga_t *, uint64_t *) nogil
    int acp_device_drop(acp_engine *, acp_device_block *, uint64_t, int64_t) nogil
    acp_handle_t acp_device_iput(acp_lane *, acp_ga_t, acp_device_block *, uint64_t, uint64_t, acp_handle_t, bint)
    acp_handle_t acp_device_iget(acp_lane *, acp_device_block *, uint64_t, acp_ga_t, uint64_t, acp_handle_t, bint)
    void acp_device_stream(acp_lane *, uint64_t, bint, bint)
    int acp_device_after(acp_lane *, acp_handle_t, uint64_t, bint)
    int acp_device_pin(acp_lane *, acp_device_place, void *, uint64_t, uint64_t *)
    void acp_device_unpin(acp_engine *, int32_t, void *)


cdef class DeviceBlock:
    """A block of device memory: what a driver allocates as a whole. Lives as long as this object."""
    cdef acp_engine *home
    cdef acp_device_block *block
    cdef readonly object keep

    @property
    def type(self) -> int:
        """The kind of its device, as DLPack numbers it."""
        return acp_device_type(self.block)

    @property
    def address(self) -> int:
        """The address of its first byte, as the device counts; with OpenCL the buffer's handle."""
        return acp_device_address(self.block)

    @property
    def number(self) -> int:
        """The number of the device in this process."""
        return acp_device_number(self.block)

    def __dealloc__(self):
        if self.home != NULL and not acp_engine_foreign(self.home):
            if self.block != NULL:
                with nogil:
                    acp_device_give(self.home, self.block)
            acp_engine_free(self.home)


cdef int raise_device(str function, acp_lane *lane, uint64_t size) except -1:
    # What the driver said, beside the fault of the engine.
    cdef char words[112]
    cdef uint64_t left = 0
    cdef int status = acp_lane_fault(lane).status
    if status != ACP_E_DRIVER and status != ACP_E_FULL:
        raise_fault(function, lane)
    acp_device_words(engine, words, &left)
    raise _errors.from_device(function, acp_lane_fault(lane).error, words.decode(errors="replace"),
                              size if status == ACP_E_FULL else 0, left)


def device_words() -> str:
    """Return what the driver of a device said last here."""
    cdef char words[112]
    cdef uint64_t left = 0
    if engine == NULL:
        return ""
    acp_device_words(engine, words, &left)
    return words.decode(errors="replace")


def device_kind(address: int) -> None:
    """Take in one more kind of device memory: the address of its `struct kind`, which stays for life."""
    need("device_kind")
    if acp_device_kind(engine, <const kind *><uintptr_t>address) != ACP_OK:
        raise _errors.Error("device_kind: there is no place for one more kind of memory")


def device_list() -> list[tuple[str, str, str, int, bytes, bool, int, int, int, int]]:
    """Return (kind, name, why it is not usable, number, uuid, active, free, size, blocks, imports) of each device."""
    cdef acp_device_info info
    cdef uint32_t index = 0
    cdef bint more
    cdef acp_engine *e = hold("devices")
    found = []
    while True:
        with nogil:
            more = acp_device_list(e, index, &info)
        if not more:
            break
        found.append((info.kind.decode(), info.name.decode(errors="replace"), info.words.decode(errors="replace"),
                      info.number, (<char *>info.device)[:16], info.active, info.free, info.size, info.blocks,
                      info.imports))
        index += 1
    acp_engine_exit(e)
    return found


cdef DeviceBlock device_block(str function, int type, int number, uint64_t context, uint64_t stream, bint adopt,
                              uint64_t address, uint64_t size, uint64_t *offset):
    cdef DeviceBlock b = DeviceBlock.__new__(DeviceBlock)
    cdef acp_device_place place
    cdef int rc
    need(function)
    place.kind, place.number, place.context, place.stream = type, number, <void *><uintptr_t>context, stream
    b.home = engine
    acp_engine_hold(engine)
    cdef acp_lane *taken = acp_lane_take(engine)
    cdef acp_lane *lane = lane0 if taken == NULL else taken
    if taken == NULL:
        rc = (acp_device_adopt(lane, place, address, size, &b.block, offset) if adopt
              else acp_device_allocate(lane, place, size, &b.block))
    else:
        with nogil:
            rc = (acp_device_adopt(lane, place, address, size, &b.block, offset) if adopt
                  else acp_device_allocate(lane, place, size, &b.block))
    try:
        if rc != ACP_OK:
            raise_device(function, lane, size)
    finally:
        if taken != NULL:
            acp_lane_give(taken)
    return b


def device_allocate(type: int, number: int, size: int, context: int = 0, stream: int = 0) -> DeviceBlock:
    """Return new memory of a device; `context` and `stream`: of a kind that has handles of such, where it is."""
    return device_block("empty", type, number, context, stream, False, 0, size, NULL)


def device_adopt(str function, type: int, number: int, address: int, size: int, keep: object,
                 stream: int = 0) -> tuple[DeviceBlock, int]:
    """Return the block in which memory of the program lies, and the offset there; it keeps `keep`."""
    cdef uint64_t offset = 0
    cdef DeviceBlock b = device_block(function, type, number, 0, stream, True, address, size, &offset)
    b.keep = keep
    return b, offset


def device_view(ga: int, size: int) -> tuple[DeviceBlock, int] | str | None:
    """Return the block of device memory of any rank as it is mapped here, and the offset of `ga` there.

    A text says why it cannot be mapped; None: it is not device memory of this node.
    """
    cdef DeviceBlock b = DeviceBlock.__new__(DeviceBlock)
    cdef uint64_t a = address(ga, "view"), n = amount(size, "view"), offset = 0, left
    cdef char words[112]
    need("view")
    b.home = engine
    acp_engine_hold(engine)
    if acp_device_view(lane0, a, n, &b.block, &offset) == ACP_OK:
        return b, offset
    if acp_lane_fault(lane0).status != ACP_E_DRIVER:
        return None
    acp_device_words(engine, words, &left)
    return words.decode(errors="replace") or "its owner does not say why"


def device_resolve(str function, type: int, number: int) -> int:
    """Return the number of the device that `number` stands for: −1 is the current one."""
    cdef acp_device_place place
    cdef int32_t found = 0
    need(function)
    place.kind, place.number, place.context, place.stream = type, number, NULL, 0
    if acp_device_resolve(lane0, place, &found) != ACP_OK:
        raise_device(function, lane0, 0)
    return found


def device_viewed(DeviceBlock block) -> bool:
    """Return whether another process has a view in the block."""
    return acp_device_viewed(block.home, block.block)


def device_register(DeviceBlock block, offset: int, size: int, color: int) -> tuple[int, int]:
    """Make bytes of a block global; return their address, and a number for `device_drop`."""
    cdef acp_ga_t ga
    cdef uint64_t number
    need("register_memory")
    if acp_device_register(lane0, block.block, offset, size, color, &ga, &number) != ACP_OK:
        raise_device("query_ga", lane0, size)
    return ga, number


def device_drop(DeviceBlock block, number: int) -> None:
    """After `quiet`: wait until no other process has the block imported."""
    cdef uint64_t which = number
    cdef int rc
    cdef acp_engine *e = block.home
    acp_engine_enter(e)
    with nogil:
        rc = acp_device_drop(e, block.block, which, ACP_FOREVER)
    acp_engine_exit(e)
    ended("unregister_memory", rc)


cdef object stream_number(object stream, str function):
    # As libraries show a stream; the number that the array interface has for it.
    if PyIndex_Check(stream):
        return stream.__index__()
    if hasattr(stream, "__cuda_stream__"):
        return stream.__cuda_stream__()[1]
    for name in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, name):
            found = getattr(stream, name)
            return getattr(found, "value", found) or 0
    raise TypeError(f"{function}: {type(stream).__name__} {stream!r:.60} is not a stream; give its number, a stream of "
                    "CuPy, PyTorch or Numba, a queue of pyopencl, or False for no order")


cdef bint is_queue(object stream):
    # Of OpenCL, as pyopencl shows it.
    return hasattr(stream, "int_ptr") and hasattr(stream, "flush")


cdef int stream_enter(object stream, str function) except -1:
    # Until stream_leave, with the interpreter lock kept: other threads submit by this lane, too. None is the default
    # stream, False and -1, as in DLPack, are no order.
    if stream is None:
        return 0
    handle = is_queue(stream)
    number = 0 if stream is False else stream.int_ptr if handle else stream_number(stream, function)
    need(function)
    acp_device_stream(lane0, 0 if number < 0 else number, handle, stream is False or number < 0)
    return 0


cdef int stream_leave(object stream) noexcept:
    if stream is not None and engine != NULL:
        acp_device_stream(lane0, 0, False, False)
    return 0


def after(handle: Int, stream) -> None:
    """Have what is put into `stream` from now on start after operation `handle`.

    `stream`: as in `copy`. Returns at once where a device runs the operation for this process, as one copy; errors of it are
    those of `wait`. Else waits until it is complete, and raises its error.
    """
    cdef uint64_t h = meant_by(handle, "after")
    cdef int rc = ACP_E_BUSY
    cdef bint queue = is_queue(stream)
    number = -1 if stream is False else 0 if stream is None else (
        stream.int_ptr if queue else stream_number(stream, "after"))
    if number < 0:
        raise TypeError(f"after: {stream!r} is no stream; give one, or None for the default one")
    need("after")
    if h and not h & 1:
        rc = acp_device_after(lane0, h, number, queue)
    if rc == ACP_E_DRIVER:
        raise_device("after", lane0, 0)
    if rc != ACP_OK:
        wait(h)


def device_pin(type: int, number: int, address: int, size: int) -> int:
    """Have devices reach whole pages of the host; return where they are for kernels."""
    cdef acp_device_place place
    cdef uint64_t found = 0, at = address, n = size
    need("device_pointer")
    place.kind, place.number, place.context, place.stream = type, number, NULL, 0
    if acp_device_pin(lane0, place, <void *><uintptr_t>at, n, &found) != ACP_OK:
        raise_device("device_pointer", lane0, n)
    return found


def device_unpin(type: int, address: int) -> None:
    """Undo `device_pin`."""
    cdef uint64_t at = address
    if engine != NULL:
        acp_device_unpin(engine, type, <void *><uintptr_t>at)


cdef uint64_t device_begun(str function, uint64_t ga, object side, uint64_t order, bint write, object given=None,
                           object keep=None, bint awaited=False) except 0:
    # `keep`: the array whose memory it is, beside its block. `awaited`: the caller waits at once.
    cdef uint64_t h = 0, offset, size
    cdef DeviceBlock block
    block, offset, size, stream = side
    if given is not None:
        stream = given
    acp_lane_previous(lane0, acp_get_previous())
    while not h:
        stream_enter(stream, function)
        if write:
            h = acp_device_iput(lane0, ga, block.block, offset, size, order, awaited)
        else:
            h = acp_device_iget(lane0, block.block, offset, ga, size, order, awaited)
        stream_leave(stream)
        if not h:
            again(function)
    acp_set_previous(h)
    if not h & 1:
        held[h] = block, keep
        drop_held()
    return h


def device_start(str function, ga: int, side: tuple[DeviceBlock, int, int, object], write: bool) -> int:
    """Start what `device_move` does; return its handle."""
    return device_begun(function, ga, side, ACP_HANDLE_NULL, write)


def device_move(str function, ga: int, side: tuple[DeviceBlock, int, int, object], write: bool) -> None:
    """Copy a part of a block to `ga`, with `write`, or from there; waits."""
    device_moved(function, ga, side, write)


cdef int device_moved(str function, uint64_t ga, object side, bint write) except -1:
    cdef uint64_t h = device_begun(function, ga, side, ACP_HANDLE_NULL, write, None, None, True)
    if not h & 1:
        wait_alone(function, h, ACP_FOREVER, side[0])
    acp_set_previous(1)
    return 0
