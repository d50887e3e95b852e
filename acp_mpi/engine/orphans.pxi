# Blocks that were about to be allocated, or to become a container's, when an exception came, as Ctrl-C
# brings one. What is under way may still write to them, or hand them over: only afterwards they go back.


@cython.final
cdef class Orphans:
    """Blocks whose fate is open until some operation and all before it are done."""
    cdef list blocks
    cdef Call call  # which gives them to a container; None: they were only written to
    cdef HeapCall allocation  # which brings the only one
    cdef object also  # kept with the same operation: its buffers, or more orphans


cdef uint64_t adopted(Call c):
    # How many of its blocks the container has; none of a call that failed or was never made.
    if c is None:
        return 0
    if c.call.method == METHOD_SEQUENCE_SPLICE:
        return c.call.result[0] != 0
    if c.call.method == METHOD_LIST_PUT:
        return c.call.result[1]
    if c.call.method == METHOD_MAP_PUT or c.call.method == METHOD_LIST_ORDER:
        return c.call.result[1] != 0
    return 0


cdef int bury_orphans(uint64_t after, Orphans o) except -1:
    # Nobody waits for it; without room for the operations another time.
    cdef HeapCall r
    cdef uint64_t h
    o.blocks = o.blocks[adopted(o.call):] if o.allocation is None else [o.allocation.call.result[0]]
    o.call = o.allocation = None
    for i, block in enumerate(o.blocks):
        r = HeapCall.__new__(HeapCall)
        r.call.method = METHOD_FREE
        r.call.object = block
        h = acp_icall(lane0, &r.call, 0) if block else 1
        if h and not h & 1:
            held[h] = r
        elif not h and acp_lane_fault(lane0).status == ACP_E_BUSY:
            o.blocks = o.blocks[i:]
            held[after] = o
            return 0  # any other fault: its rank is lost, and the block with it
    if type(o.also) is Orphans:
        return bury_orphans(after, <Orphans>o.also)
    return 0


cdef int leave_orphans(list blocks, Call c=None) except -1:
    # An exception is on its way: the blocks of `c`, or those that were being written to.
    cdef Orphans o = Orphans.__new__(Orphans)
    o.blocks = blocks
    o.call = c
    if engine == NULL:
        return 0  # their memory has gone with it
    return when_known(acp_last(engine) if c is None else c.pending, o)


cdef int leave_allocation(HeapCall r, uint64_t pending) except -1:
    # An exception is on its way: nobody will learn the address.
    cdef Orphans o = Orphans.__new__(Orphans)
    o.allocation = r
    return 0 if engine == NULL else when_known(pending, o)


cdef int when_known(uint64_t after, Orphans o) except -1:
    if not acp_running(engine, after):
        return bury_orphans(after, o)
    o.also = held.get(after)
    held[after] = o
    return 0


def forsake(blocks):
    """Give back blocks that copies may still write to, when these are done; returns at once."""
    leave_orphans(list(blocks))
