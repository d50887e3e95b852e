# Many small operations in one call.

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDED_RO


cdef class Column:
    """One argument of a call for many: an array of 8-byte integers, or one for all."""
    cdef acp_column column
    cdef Py_ssize_t count  # -1: a scalar
    cdef uint64_t scalar
    cdef Py_buffer view
    cdef bint exported

    def __dealloc__(self):
        if self.exported:
            PyBuffer_Release(&self.view)


cdef bint is_scalar(object x):
    # An array of NumPy without dimensions is one, too.
    return PyIndex_Check(x) and (not hasattr(x, "__len__") or getattr(x, "ndim", 1) == 0)


cdef bint holds_words(const Py_buffer *view) noexcept:
    # Formats of ctypes and of unaligned arrays have a byte order before the letter: ours.
    cdef const char *name = view.format
    if name == NULL or view.itemsize != 8:
        return False
    if name[0] in b"@=<":
        name += 1
    return name[0] in b"lLqQ" and name[1] == 0


cdef Column column_of(object x, str function, str what, bint addresses):
    cdef Column c = Column.__new__(Column)
    if is_scalar(x):
        c.scalar = address(x, function) if addresses else value_of(x, function)
        c.count = -1
        c.column.data = <char *>&c.scalar
        c.column.stride = 0
        return c
    if isinstance(x, (list, tuple, range)):
        x = packed(x, function, addresses)
    try:
        PyObject_GetBuffer(x, &c.view, PyBUF_STRIDED_RO | PyBUF_FORMAT)
    except (TypeError, ValueError, BufferError):
        raise TypeError(f"{function}: {what} must be an integer or an array of 8-byte integers, "
                        f"not {type(x).__name__} {x!r}") from None
    c.exported = True
    if not holds_words(&c.view):
        kind = c.view.format.decode() if c.view.format != NULL else "bytes"
        raise TypeError(f"{function}: {what} must be 8-byte integers (int64 or uint64), not items "
                        f"of format {kind!r}")
    if c.view.ndim != 1:
        raise ValueError(f"{function}: {what} must have one dimension, not {c.view.ndim}")
    c.count = c.view.shape[0]
    c.column.data = <char *>c.view.buf
    c.column.stride = c.view.strides[0] if c.view.strides != NULL else 8  # ctypes gives none
    return c


cdef object packed(object values, str function, bint addresses):
    import array
    return array.array("Q", [address(v, function) if addresses else value_of(v, function)
                             for v in values])


cdef Py_ssize_t common(str function, list columns) except -1:
    cdef Py_ssize_t count = -1
    cdef Column c
    for c in columns:
        if c.count >= 0:
            if count >= 0 and c.count != count:
                raise ValueError(f"{function}: arrays of {count} and {c.count} elements do not "
                                 "go together")
            count = c.count
    return 1 if count < 0 else count


cdef int check_size(Column sizes, uint64_t bad) except -1:
    # The engine takes sizes for unsigned.
    cdef int64_t size
    memcpy(&size, sizes.column.data + <int64_t>bad * sizes.column.stride, sizeof(size))
    if size < 0:
        raise ValueError(f"copy_many: the size {size} of element {bad} is negative; nothing of "
                         "this call was started")
    return 0


cdef int many_again(str function, acp_lane *lane, uint64_t bad) except -1:
    if acp_lane_fault(lane).status == ACP_E_BUSY:
        return wait_for_room(function)
    error = exception_of(function, acp_lane_fault(lane))
    error.add_note(f"element {bad}; nothing of this call was started")
    raise error


def copy_many(dsts, srcs, sizes, order: Int = HANDLE_NULL, stream=None) -> int:
    """Copy sizes[i] bytes from srcs[i] to dsts[i] for all i; one handle for all of them.

    Arrays of int64 or uint64 with one dimension, any stride; scalars stand for every element. If
    an address is known to be bad nothing is started. The order among the elements is undefined.
    `stream`: as in `copy`.
    """
    need("copy_many")
    cdef Column d = column_of(dsts, "copy_many", "dsts", True)
    cdef Column s = column_of(srcs, "copy_many", "srcs", True)
    cdef Column n = column_of(sizes, "copy_many", "sizes", False)
    cdef Py_ssize_t count = common("copy_many", [d, s, n])
    cdef uint64_t o = order_of(order, "copy_many"), h, bad = 0
    cdef acp_lane *lane
    while True:
        need("copy_many")
        lane = acp_lane_take(engine) if o == 0 and stream is None else NULL
        if lane != NULL:
            with nogil:
                h = acp_copy_many(lane, d.column, s.column, n.column, count, o, &bad)
        else:
            stream_enter(stream, "copy_many")
            h = acp_copy_many(lane0, d.column, s.column, n.column, count, o, &bad)
            stream_leave(stream)
        try:
            if h:
                return issued(h)
            if acp_lane_fault(lane0 if lane == NULL else lane).status != ACP_E_BUSY:
                check_size(n, bad)
            if lane == NULL:
                many_again("copy_many", lane0, bad)
            elif acp_lane_fault(lane).status != ACP_E_BUSY:
                many_again("copy_many", lane, bad)
        finally:
            if lane != NULL:
                acp_lane_give(lane)
        if lane != NULL:
            wait_for_room("copy_many")


def atomic_many(str function, int kind, gas, values, compares, Py_ssize_t count, out) -> Any:
    """Do one atomic on each of `gas`; the values before go to `out` (8 bytes each) or nowhere."""
    need(function)
    cdef Column g = column_of(gas, function, "gas", True)
    cdef Column v = column_of(values, function, "values", False)
    cdef Column c = None
    cdef acp_column none
    cdef Py_buffer view
    cdef uint64_t h, bad = 0
    cdef acp_lane *lane
    cdef acp_lane *taken
    none.data = NULL
    none.stride = 0
    if compares is not None:
        c = column_of(compares, function, "compares", False)
    if common(function, [g, v] if c is None else [g, v, c]) != count:
        raise ValueError(f"{function}: {count} results were expected")
    PyObject_GetBuffer(out, &view, PyBUF_WRITABLE)
    try:
        while True:
            need(function)
            if c is not None:
                none = c.column
            taken = acp_lane_take(engine)
            lane = lane0 if taken == NULL else taken
            if taken == NULL:
                h = acp_atomic_many(lane, <acp_kind>kind, g.column, v.column, none,
                                    <uint64_t *>view.buf, count, 0, &bad)
            else:
                with nogil:
                    h = acp_atomic_many(lane, <acp_kind>kind, g.column, v.column, none,
                                        <uint64_t *>view.buf, count, 0, &bad)
            try:
                if h or acp_lane_fault(lane).status != ACP_E_BUSY:
                    if not h:
                        many_again(function, lane, bad)
                    break
            finally:
                if taken != NULL:
                    acp_lane_give(taken)
            wait_for_room(function)
        if not h & 1:
            wait_alone(function, h, ACP_FOREVER, (out, memoryview(out)))
    finally:
        PyBuffer_Release(&view)
    acp_set_previous(1)
    return out


def kind_of(name) -> int:
    """Return the number of an atomic by its name, for `atomic_many`."""
    return next(kind for kind, word in _names.items() if word == name)


def columns_length(*arguments) -> int:
    """Return how many elements a call for many has."""
    lengths = [len(x) for x in arguments
               if x is not None and not is_scalar(x) and hasattr(x, "__len__")]
    return max(lengths) if lengths else 1
