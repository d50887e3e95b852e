# Copies and atomics between any two global addresses: they return a handle.

DEF SMALL = 16384
DEF BACKGROUND = 1048576


cdef inline object issued(uint64_t handle):
    acp_set_previous(handle)
    return handle


cdef inline uint64_t order_of(object order, str function) except? 0xffffffffffffffff:
    cdef uint64_t h
    if order is HANDLE_NULL:
        return 0
    h = handle_of(order, function)
    if h == ACP_HANDLE_CONT:
        acp_lane_previous(lane0, acp_get_previous())
    return h


cdef int again(str function) except -1:
    # Waits if there was no free slot; else raises what went wrong.
    if acp_lane_fault(lane0).status == ACP_E_BUSY:
        return wait_for_room(function)
    return raise_fault(function, lane0)


cdef object copy_behind(uint64_t dst, uint64_t src, uint64_t size, uint64_t order, object stream):
    cdef uint64_t h = 0
    while not h:
        stream_enter(stream, "copy")
        h = acp_copy(lane0, dst, src, size, order)
        stream_leave(stream)
        if not h:
            again("copy")
    return issued(h)


def copy(dst: Int, src: Int, size: Int, order: Int = HANDLE_NULL, stream=None) -> int:
    """Copy `size` bytes from address `src` to address `dst`, any rank to any rank.

    Starts after `order` and returns a handle; any alignment, overlap as memmove, size 0 allowed
    (paper 003, table 3). AddressError and RankError at the call where this process can know, else
    when completed. `stream`: with memory of a device of this process it starts after what is in
    that stream: a number, an object of CuPy, PyTorch or Numba, None for the default one, or False
    for no order.
    """
    cdef uint64_t d, s, n, o, h
    cdef acp_lane *lane
    if engine == NULL:
        no_engine("copy")
    d = address(dst, "copy")
    s = address(src, "copy")
    n = amount(size, "copy")
    o = order_of(order, "copy")
    if stream is not None:
        return copy_behind(d, s, n, o, stream)
    while True:
        if n > SMALL and n <= BACKGROUND and o == 0:
            lane = acp_lane_take(engine)
            if lane != NULL:
                with nogil:
                    h = acp_copy(lane, d, s, n, o)
                try:
                    if h == 0 and acp_lane_fault(lane).status != ACP_E_BUSY:
                        raise_fault("copy", lane)
                finally:
                    acp_lane_give(lane)
                if h:
                    return issued(h)
                need("copy")  # another thread may have finalized meanwhile
        h = acp_copy(lane0, d, s, n, o)
        if h:
            return issued(h)
        again("copy")


cdef object atomic(str function, acp_kind kind, object dst, object src, object value,
                   object compare, object order):
    cdef uint64_t d, s, v, c = 0, o, h
    if engine == NULL:
        no_engine(function)
    d = address(dst, function)
    s = address(src, function)
    v = value_of(value, function)
    if kind == ACP_CAS4 or kind == ACP_CAS8:
        c = value_of(compare, function)
    o = order_of(order, function)
    while True:
        h = acp_atomic(lane0, kind, d, s, v, c, o)
        if h:
            return issued(h)
        again(function)
