# Global memory of this process: arrays' blocks, registration, views.

from cpython.buffer cimport (PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release,
                             PyObject_GetBuffer)


DEF BIG = 1048576  # committing and releasing that much takes long enough to let others run


cdef class Block:
    """Memory in the global address space that lives as long as this object.

    `owned` blocks are memory of this rank; others are views of memory of the node. The mapping
    stays, also past finalize, while any buffer of it is in use.
    """
    cdef acp_engine *home
    cdef void *memory
    cdef uint64_t bytes
    cdef bint owned
    cdef readonly uint64_t ga

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.memory, self.bytes, 0, flags)

    def __len__(self) -> int:
        return self.bytes

    def __repr__(self):
        return f"<acp_mpi block of {self.bytes} bytes at {self.ga:#x}>"

    def __dealloc__(self):
        cdef acp_lane *lane
        if self.home == NULL or acp_engine_foreign(self.home):
            return
        if self.owned and not acp_engine_closed(self.home):
            lane = acp_lane_take(self.home)
            if self.bytes > BIG and lane != NULL:
                with nogil:
                    acp_memory_drop(lane, self.memory, self.bytes)
            else:
                acp_memory_drop(acp_engine_lane(self.home) if lane == NULL else lane,
                                self.memory, self.bytes)
            if lane != NULL:
                acp_lane_give(lane)
        acp_engine_free(self.home)


cdef int block_fill(Block block, acp_lane *lane, uint64_t size, uint32_t color, bint window, bint ordinary) noexcept nogil:
    """Take memory for a block: of the window part if `window`, else or if that is full `ordinary` memory."""
    cdef int rc = ACP_E_FULL
    if window:
        rc = acp_window_alloc(lane, size, color, &block.ga, &block.memory)
    if rc == ACP_E_FULL and ordinary:
        rc = acp_memory_alloc(lane, size, color, &block.ga, &block.memory)
    return rc


def allocate(size: Int, color=0, str function="empty", window: bool | None = False) -> Block:
    """Return a Block of `size` bytes of this rank's memory, zeroed.

    `window`: of the window part, or HeapFullError; None: there if arrays of that size are to lie
    there and it has a place, else elsewhere.
    """
    need(function)
    cdef Block block = Block.__new__(Block)
    cdef uint64_t n = amount(size, function)
    cdef uint32_t c = color
    cdef int rc
    cdef bint ordinary = not window
    need(function)  # a size of a class with Python code may have finalized
    cdef bint inside = (n >= ACP_WINDOW_ARRAY and acp_window_keeps_arrays(engine)
                        if window is None else window)
    cdef acp_lane *lane = acp_lane_take(engine) if n > BIG else NULL
    block.home = engine  # the owner, even if another thread finalizes meanwhile
    acp_engine_hold(engine)
    if lane == NULL:
        rc = block_fill(block, lane0, n, c, inside, ordinary)
        if rc != ACP_OK:
            raise_fault(function, lane0)
    else:
        with nogil:
            rc = block_fill(block, lane, n, c, inside, ordinary)
        try:
            if rc != ACP_OK:
                raise_fault(function, lane)
        finally:
            acp_lane_give(lane)
    block.bytes = n
    block.owned = True
    need(function)
    return block


def mapped(ga: Int, size: Int) -> Block:
    """Return a Block over `size` bytes at `ga`, which this process can load and store."""
    need("view")
    cdef Block block = Block.__new__(Block)
    block.ga = address(ga, "view")
    block.bytes = amount(size, "view")
    if acp_query_address(lane0, block.ga, block.bytes, &block.memory) != ACP_OK:
        raise_fault("view", lane0)
    block.home = engine
    acp_engine_hold(engine)
    return block


def query_address(ga: Int) -> int:
    """Return the address at which this process loads and stores the byte at `ga`.

    Its own memory, and global memory of ranks of its node; AddressError otherwise (paper 003,
    table 2). Valid until finalize or until the memory is released.
    """
    need("query_address")
    cdef void *where = NULL
    if acp_query_address(lane0, address(ga, "query_address"), 1, &where) != ACP_OK:
        raise_fault("query_address", lane0)
    return <uintptr_t>where


def address_of(where, size: int) -> int:
    """Return the global address of memory of this rank, 0 if it has none."""
    need("query_ga")
    return acp_query_ga(engine, <void *><uintptr_t>where, size)


def register(where, size: int, color) -> int:
    """Publish `size` bytes at virtual address `where`; returns their global address."""
    need("register_memory")
    cdef acp_ga_t ga
    if acp_segment_register(lane0, <void *><uintptr_t>where, size, color, &ga) != ACP_OK:
        raise_fault("query_ga", lane0)
    return ga


def retire(ga: int, size: int) -> int:
    """End the addresses of `size` bytes at `ga`; returns a ticket for `quiet`."""
    need("unregister_memory")
    cdef uint64_t ticket
    if acp_segment_retire(lane0, ga, size, &ticket) != ACP_OK:
        raise_fault("unregister_memory", lane0)
    return ticket


def quiet(ticket: int) -> None:
    """Wait until no peer is inside what `retire` ended."""
    need("unregister_memory")
    cdef uint64_t number = ticket
    cdef int rc
    cdef acp_engine *e = hold("unregister_memory")
    with nogil:
        rc = acp_segment_quiet(e, number, ACP_FOREVER)
    acp_engine_exit(e)
    ended("unregister_memory", rc)


def query_starter_ga(rank: Int) -> int:
    """Return the global address of the starter memory of `rank` (paper 003, table 2)."""
    if engine == NULL:
        no_engine("query_starter_ga")
    return acp_starter(engine, rank_of(rank, "query_starter_ga"))


def post_ga(rank: Int) -> int:
    """Return the address of the 64 bytes that the library itself uses on `rank`."""
    need("post")
    return acp_post(engine, rank)


def memory_statistics() -> tuple[int, int, int, int, int, int]:
    """Return (limit, committed, used, starter size, segments, registered segments)."""
    need("statistics")
    cdef acp_memory_statistics s
    acp_memory_statistics_get(engine, &s)
    return (s.limit, s.committed, s.used, s.starter, s.segments, s.private_segments)


def buffer_place(buffer, bint writable: Any) -> tuple[int, int, memoryview]:
    """Return (virtual address, bytes, memoryview that keeps it) of a contiguous buffer."""
    cdef Py_buffer view
    keep = memoryview(buffer)
    if "O" in keep.format:
        raise TypeError("objects")
    PyObject_GetBuffer(keep, &view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
    place = (<uintptr_t>view.buf, view.len, keep)
    PyBuffer_Release(&view)
    return place
