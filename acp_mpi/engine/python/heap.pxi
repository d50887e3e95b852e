# Blocks of the heap of any rank.

from cython cimport freelist

DEF COMMITTED = 1048576  # committing that much may take long enough to let others run

ctypedef int (*heap_function)(acp_lane *, HeapCall, acp_handle_t *) noexcept nogil


@freelist(8)
cdef class HeapCall:
    """A call on a heap, with its answer, for as long as it is under way."""
    cdef acp_call call
    cdef acp_heap_statistics statistics
    cdef uint64_t ga, size
    cdef uint32_t rank


cdef int do_malloc(acp_lane *lane, HeapCall r, acp_handle_t *pending) noexcept nogil:
    return acp_malloc(lane, r.rank, r.size, &r.call, pending)


cdef int do_free(acp_lane *lane, HeapCall r, acp_handle_t *pending) noexcept nogil:
    return acp_free(lane, r.ga, &r.call, pending)


cdef int do_tidy(acp_lane *lane, HeapCall r, acp_handle_t *pending) noexcept nogil:
    return acp_heap_tidy(lane, r.rank, &r.call, pending)


cdef int do_look(acp_lane *lane, HeapCall r, acp_handle_t *pending) noexcept nogil:
    return acp_heap_look(lane, r.rank, &r.statistics, &r.call, pending)


cdef int heap_call(str function, heap_function what, HeapCall r, bint brief) except -1:
    # `brief` calls keep the interpreter lock, unless the heap is held by another.
    cdef uint64_t pending = 0
    cdef int rc = ACP_E_BUSY
    cdef acp_lane *lane
    if brief:
        rc = what(lane0, r, &pending)
        if rc != ACP_OK and rc != ACP_E_BUSY:
            raise_fault(function, lane0)
    while rc == ACP_E_BUSY:
        lane = acp_lane_take(engine)
        if lane == NULL:
            wait_for_room(function)
            rc = what(lane0, r, &pending)
            if rc != ACP_OK and rc != ACP_E_BUSY:
                raise_fault(function, lane0)
            continue
        with nogil:
            rc = what(lane, r, &pending)
        try:
            if rc == ACP_E_INTERRUPTED:
                return -1
            if rc != ACP_OK and rc != ACP_E_BUSY:
                raise_fault(function, lane)
        finally:
            acp_lane_give(lane)
        if rc == ACP_E_BUSY:
            wait_for_room(function)
    if pending:
        try:
            wait_alone(function, pending, ACP_FOREVER, r)
        except BaseException:
            if what == do_malloc:
                leave_allocation(r, pending)
            raise
    acp_set_previous(1)
    return 0


def malloc(size: Int, rank: Int | None = None) -> int:
    """Return the address of `size` bytes of the heap of `rank`, the calling one if None.

    On any rank without its help; a multiple of 16; the bytes are not zeroed. Size 0 gives an
    address of its own, too. HeapFullError if they do not fit. The block lives until `free`,
    `reset` or the end of that rank, not with any object.
    """
    cdef uint64_t length
    if engine == NULL:
        no_engine("malloc")
    length = amount(size, "malloc")
    return block_take("malloc", acp_rank(engine) if rank is None else rank_of(rank, "malloc"), length)


def block_of(str function, size: int, rank: int) -> int:
    """Return what `malloc` would, for another function, which errors name."""
    need(function)
    return block_take(function, rank_of(rank, function), amount(size, function))


def free(ga: Int) -> None:
    """Give the block at `ga` back to the heap of its rank, from any rank.

    No rank may use it any more. AddressError for what `malloc` did not return or was freed already;
    the heap stays as it is then. Large free memory goes back to the system.
    """
    cdef HeapCall r
    if engine == NULL:
        no_engine("free")
    r = HeapCall.__new__(HeapCall)
    r.ga = address(ga, "free")
    heap_call("free", do_free, r, True)
    if r.call.result[0]:
        r.rank = acp_ga_rank(r.ga)
        while r.call.result[0]:
            heap_call("free", do_tidy, r, False)


def heap_look(rank: Int | None) -> tuple[int, int, int, int, int, int, int, int]:
    """Return (size, used, free, largest, blocks, fragments, committed, limit) of a heap."""
    cdef HeapCall r
    need("heap_statistics")
    r = HeapCall.__new__(HeapCall)
    r.rank = acp_rank(engine) if rank is None else rank_of(rank, "heap_statistics")
    heap_call("heap_statistics", do_look, r, True)
    s = r.statistics
    return (s.size, s.used, s.free, s.largest, s.blocks, s.fragments, s.committed, s.limit)


cdef uint64_t block_take(str function, uint32_t rank, uint64_t size) except 0:
    cdef HeapCall r = HeapCall.__new__(HeapCall)
    r.rank = rank
    r.size = size
    need(function)
    heap_call(function, do_malloc, r, size <= COMMITTED)
    return r.call.result[0]


cdef int block_give(str function, uint64_t ga) except -1:
    cdef HeapCall r = HeapCall.__new__(HeapCall)
    r.ga = ga
    need(function)
    return heap_call(function, do_free, r, True)
