# Blocks that were about to be allocated, to become a container's or to come out of one when an exception
# came, as Ctrl-C brings one. What is under way may still write to them, or hand them over: only afterwards
# they go back. So do elements of a list that were on their way to another one.


@cython.final
cdef class Orphans:
    """Blocks with a fate that is open until some operation and all before it are done."""
    cdef list blocks  # None: those that the call brings
    cdef Call call  # which gives them to a container; None: they were only written to
    cdef uint64_t serial  # of a container, which is the only one of them; 0: they are none
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


cdef list brought_by(Call c):
    # The blocks that a call has brought; none of one that failed or was never made.
    cdef const char *at = <const char *>c.call.out
    cdef const list_record *r
    cdef uint64_t i
    if c.call.method == METHOD_CREATE or c.call.method == METHOD_SEQUENCE_READ:
        return [c.call.result[0 if c.call.method == METHOD_CREATE else 1]]
    if c.call.method == METHOD_SEQUENCE_SPLICE:
        return [c.call.result[1]] if c.call.result[0] else []
    if c.call.method == METHOD_LIST_BURY:
        return [(<const uint64_t *>at)[i] for i in range(c.call.out_size // 8)]
    if c.call.method != METHOD_LIST_TAKE or c.call.out_size <= sizeof(list_answer):
        return []
    r = <const list_record *>(at + sizeof(list_answer))  # with bytes behind it there is only one
    return [r[i].block for i in range((<const list_answer *>at).count)]


cdef bint settled(Orphans o) except -1:
    # Their fate is decided: blocks left in `blocks` go back. False: no room for the calls.
    cdef Call c = o.call
    if o.allocation is not None:
        o.blocks = [o.allocation.call.result[0]]
    elif c is not None and o.blocks is not None:
        o.blocks = o.blocks[adopted(c):]
    elif c is not None:
        if c.call.method == METHOD_LIST_TAKE and c.call.b >> 32 == LIST_KEEP:
            return put_back(c, o)
        o.blocks = brought_by(c)
        o.serial = c.call.result[1] if c.call.method == METHOD_CREATE else 0
    o.call = o.allocation = None
    return True


cdef bint put_back(Call c, Orphans o) except -1:
    # Elements that were taken out of a list to go into another one: into the list again, where they were.
    cdef list_put head
    cdef const list_answer *a = <const list_answer *>c.call.out
    cdef Orphans landing = Orphans.__new__(Orphans)
    cdef uint64_t where = c.call.b & 255
    o.blocks = brought_by(c)
    if o.blocks:
        memset(&head, 0, sizeof(list_put))
        if where == LIST_AT and a.next.node:
            head.at = a.next
        elif where == LIST_AT:
            where = LIST_BACK
        landing.call = call_new(METHOD_LIST_PUT, c.call.object, c.call.a, where,
                                (<char *>&head)[:sizeof(list_put)]
                                + c.brought[sizeof(list_answer):c.call.out_size],
                                sizeof(list_id))
        landing.blocks, o.blocks = o.blocks, None
        landing.call.pending = acp_icall(lane0, &landing.call.call, 0)
        if not landing.call.pending and acp_lane_fault(lane0).status == ACP_E_BUSY:
            return False
        o.blocks = []
        when_known(landing.call.pending, landing)
    o.call = None
    return True


cdef int bury_orphans(uint64_t after, Orphans o) except -1:
    # No call waits for it; without room for the operations another time.
    cdef HeapCall r
    cdef uint64_t h
    if not settled(o):
        held[after] = o
        return 0
    for i, block in enumerate(o.blocks):
        r = HeapCall.__new__(HeapCall)
        r.call.method = METHOD_DESTROY if o.serial else METHOD_FREE
        r.call.object = block
        r.call.a = o.serial
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


cdef int leave_brought(Call c) except -1:
    # An exception is on its way: the results of the call will not be taken.
    cdef Orphans o = Orphans.__new__(Orphans)
    o.call = c
    return 0 if engine == NULL else when_known(c.pending, o)


cdef int leave_allocation(HeapCall r, uint64_t pending) except -1:
    # An exception is on its way: the address would be lost.
    cdef Orphans o = Orphans.__new__(Orphans)
    o.allocation = r
    return 0 if engine == NULL else when_known(pending, o)


cdef int when_known(uint64_t after, Orphans o) except -1:
    if not acp_running(engine, after):
        return bury_orphans(after, o)
    o.also = held.get(after)
    held[after] = o
    return 0


def forsake(blocks: Iterable[int]) -> None:
    """Give back blocks that copies may still write to, when these are done; returns at once."""
    leave_orphans(list(blocks))
