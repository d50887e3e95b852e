# Many transfers that one call starts and waits for. Their errors are that call's: they are not left
# to whichever thread completes meanwhile, or the call would return as if all had come.

DEF UNDER_WAY = 256  # as many as there is room for: nothing is gained by starting more


cdef class Flight:
    """Operations that a call has started and not seen the end of."""
    cdef str function
    cdef list handles
    cdef object error  # the first

    cdef int wait_for_oldest(self) except -1:
        error = error_alone(self.function, self.handles[0])
        self.error = self.error or error
        del self.handles[0]
        return 0

    cdef int forsake(self) except -1:
        for h in self.handles:
            forsake_operation(h)
        return 0


cdef inline uint64_t waited_for(uint64_t h) noexcept:
    # At once, before any other thread runs that could take its error.
    if h and not h & 1:
        acp_await_alone(engine, h, True)
    return h


cdef uint64_t copy_started(str function, object dst, object src, object size) except 0:
    cdef uint64_t d = address(dst, function), s = address(src, function)
    cdef uint64_t n = amount(size, function), h = 0
    while not h:
        need(function)
        h = waited_for(acp_copy(lane0, d, s, n, 0))
        if not h:
            again(function)
    return h


cdef uint64_t transfer_started(str function, object ga, object buffer, bint write) except 0:
    cdef uint64_t a = address(ga, function), h = 0
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE if write else PyBUF_WRITABLE)
    try:
        while not h:
            need(function)
            h = waited_for(acp_iput(lane0, a, view.buf, view.len, 0) if write else
                        acp_iget(lane0, view.buf, a, view.len, 0))
            if not h:
                again(function)
        if not h & 1:
            held[h] = memoryview(buffer)
    finally:
        PyBuffer_Release(&view)
    return h


cdef int all_moved(str function, object moves, bint copies, bint write) except -1:
    cdef Flight flight = Flight.__new__(Flight)
    cdef uint64_t h
    flight.function = function
    flight.handles = []
    try:
        try:
            for move in moves:
                if copies:
                    dst, src, size = move
                    h = copy_started(function, dst, src, size)
                else:
                    ga, buffer = move
                    h = transfer_started(function, ga, buffer, write)
                if not h & 1:
                    flight.handles.append(h)
                if len(flight.handles) == UNDER_WAY:
                    flight.wait_for_oldest()
                if flight.error is not None:
                    break
        except Exception as error:
            flight.error = flight.error or error
        while flight.handles:
            flight.wait_for_oldest()
    except BaseException:
        flight.forsake()
        raise
    acp_set_previous(1)
    if flight.error is not None:
        raise flight.error
    return 0


def put_all(str function, moves: Iterable[tuple[Int, Any]]) -> None:
    """Put each buffer at its address, all at the same time: `moves` are pairs (address, buffer).

    Returns when all are done. Raises the first error, when none is under way any more; those
    behind it may not have been started.
    """
    all_moved(function, moves, False, True)


def get_all(str function, moves: Iterable[tuple[Int, Any]]) -> None:
    """Get from each address into its buffer, as `put_all`."""
    all_moved(function, moves, False, False)


def copy_all(str function, moves: Iterable[tuple[Int, Int, int]]) -> None:
    """Copy from address to address, `moves` being (to, from, bytes), as `put_all`."""
    all_moved(function, moves, True, False)
