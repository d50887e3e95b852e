# Transfers between unregistered memory of this process and global memory; blocking ones and
# ones that return a handle.

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND
from libc.string cimport strchr

cdef extern from *:
    """
    #define buffer_given(view) ((view)->obj = NULL) /* to release it does nothing any more */
    """
    void buffer_given(Py_buffer *)

DEF OBJECT = 79  # "O": pointers to Python objects

cdef object unusual_buffer = None  # (buffer, writable, function) -> (contiguous one, finish)
cdef object device_array = None  # the type DeviceArray, once there is one


def set_device_array(type) -> None:
    """Install the type of arrays that know their own place in device memory."""
    global device_array
    device_array = type


def set_unusual_buffer(callback) -> None:
    """Install what turns a buffer that is not contiguous, or not one, into one that is."""
    global unusual_buffer
    unusual_buffer = callback


cdef object plain_buffer(object buffer, Py_buffer *view, bint writable, str function):
    # Fills `view`; returns a function to be called afterwards, or None. A memoryview gives its
    # format only together with its shape, and refuses that, too, for memory that is not contiguous.
    try:
        PyObject_GetBuffer(buffer, view, PyBUF_FORMAT | PyBUF_ND
                           | (PyBUF_WRITABLE if writable else 0))
        if view.format != NULL and strchr(view.format, OBJECT) != NULL:
            PyBuffer_Release(view)
            raise TypeError("objects")
        return None
    except (BufferError, TypeError, ValueError) as error:
        if unusual_buffer is None:
            raise
        reason = error
    plain, finish = unusual_buffer(buffer, writable, function, reason)
    PyObject_GetBuffer(plain, view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
    return finish


cdef object plain_or_side(object buffer, Py_buffer *view, bint writable, str function):
    # As plain_buffer; of device memory a tuple: block, offset, bytes, stream.
    if type(buffer) is device_array:
        return buffer._side(function)
    try:
        return plain_buffer(buffer, view, writable, function)
    except _errors.DeviceSide as side:
        return side.args


cdef class Kept:
    """A buffer that an operation in flight reads or writes."""
    cdef Py_buffer view

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef Kept kept(Py_buffer *view):
    # Takes it over, for a second one could be of other memory: what classes with __buffer__ return.
    cdef Kept k = Kept.__new__(Kept)
    k.view = view[0]
    buffer_given(view)
    return k


cdef int moved(str function, bint write, uint64_t ga, Py_buffer *view) except -1:
    # Moves the bytes of `view`; waits if the road is long.
    cdef uint64_t pending = 0
    cdef uint64_t n = view.len
    cdef void *memory = view.buf
    cdef int rc
    cdef acp_lane *lane
    need(function)  # a buffer of a class with Python code may have finalized
    while True:
        lane = acp_lane_take(engine) if n > SMALL else NULL
        if lane != NULL:
            with nogil:
                rc = acp_put(lane, ga, memory, n, &pending) if write else acp_get(
                    lane, memory, ga, n, &pending)
            try:
                if rc != ACP_OK and rc != ACP_E_BUSY:
                    raise_fault(function, lane)
            finally:
                acp_lane_give(lane)
        else:
            rc = acp_put(lane0, ga, memory, n, &pending) if write else acp_get(
                lane0, memory, ga, n, &pending)
            if rc != ACP_OK and rc != ACP_E_BUSY:
                raise_fault(function, lane0)
        if rc == ACP_OK:
            break
        wait_for_room(function)
    if pending:
        wait_alone(function, pending, ACP_FOREVER, kept(view))
    acp_set_previous(1)
    return 0


def put(ga: Int, buffer, flag: tuple[Int, Int] | None = None, stream=None) -> None:
    """Write `buffer` to address `ga`; done when it returns.

    `buffer` has the buffer protocol, `__array_interface__` or `__dlpack__`; not contiguous ones are
    packed.
    `flag=(address, value)`: the 8-byte word there is set after the data. `stream`: as in `copy`.
    Raises the errors of `copy` and those of a rank that is lost.
    """
    cdef Py_buffer view
    cdef uint64_t a
    if engine == NULL:
        no_engine("put")
    if flag is not None or stream is not None:
        if flag is None:
            wait(started("put", ga, buffer, HANDLE_NULL, True, stream))
        else:
            put_with_flag(ga, buffer, flag, stream)
        return
    a = address(ga, "put")
    side = plain_or_side(buffer, &view, False, "put")
    if type(side) is tuple:
        device_moved("put", a, side, True)
        return
    try:
        moved("put", True, a, &view)
    finally:
        PyBuffer_Release(&view)


cdef int put_with_flag(object ga, object buffer, object flag, object stream) except -1:
    # Both are sent at once; the owner of the flag's memory keeps them in order.
    cdef uint64_t word, a, target, data = 0, flagged = 0, more
    cdef bytes value_bytes
    cdef Py_buffer view
    cdef acp_failure failure, second
    cdef int rc
    cdef acp_engine *e = NULL
    try:
        where, value = flag
    except (TypeError, ValueError):
        raise TypeError(f"put: flag={flag!r} is not a pair of an address and a value") from None
    need("put")  # what gave the pair may be Python code
    a = address(where, "put")
    if a & 7:
        raise _errors.from_fault("put", _errors.Status.ALIGN, a, 8, acp_ga_rank(a))
    word = value_of(value, "put")
    if acp_check(lane0, a, 8) != ACP_OK:
        raise_fault("put", lane0)
    target = address(ga, "put")
    value_bytes = (<char *>&word)[:8]
    if stream is not None:
        wait(started("put", ga, buffer, HANDLE_NULL, True, stream))
        put(a, value_bytes)
        return 0
    side = plain_or_side(buffer, &view, False, "put")
    if type(side) is tuple:  # the device's own thread brings the data: the flag follows
        device_moved("put", target, side, True)
        put(a, value_bytes)
        return 0
    try:
        e = hold("put")
        data = begun("put", target, view.buf, view.len, ACP_HANDLE_NULL, True)
        if not data & 1:
            acp_await_alone(engine, data, True)
            held[data] = kept(&view)
        flagged = begun("put", a, <char *>value_bytes, 8, ACP_HANDLE_CONT, True, True)
        if not flagged & 1:
            acp_await_alone(engine, flagged, True)
            held[flagged] = value_bytes
        with nogil:
            rc = acp_wait(e, flagged, ACP_FOREVER)
            if rc == ACP_OK:
                rc = acp_wait(e, data, ACP_FOREVER)
        ended("put", rc)
        drop_held()
        need("put")
        if acp_failures_take(engine, data, True, &failure, 1, &more):
            acp_failures_take(engine, flagged, True, &second, 1, &more)  # the same error
            raise exception_of("put", &failure.fault)
        raise_failures(flagged, True, "put")
    except BaseException:
        forsake_operation(data)
        forsake_operation(flagged)
        raise
    finally:
        if e != NULL:
            acp_engine_exit(e)
        PyBuffer_Release(&view)
    acp_set_previous(1)
    return 0


def get(ga: Int, buffer: _Buffer, stream=None) -> _Buffer:
    """Read from address `ga` into `buffer`, all of it; returns `buffer` when it is there.

    `stream`: as in `copy`.
    """
    cdef Py_buffer view
    cdef uint64_t a
    if engine == NULL:
        no_engine("get")
    if stream is not None:
        wait(started("get", ga, buffer, HANDLE_NULL, False, stream))
        return buffer
    a = address(ga, "get")
    finish = plain_or_side(buffer, &view, True, "get")
    if type(finish) is tuple:
        device_moved("get", a, finish, False)
        return buffer
    try:
        moved("get", False, a, &view)
    finally:
        PyBuffer_Release(&view)
    if finish is not None:
        finish(view.len)
    return buffer


cdef uint64_t begun(str function, uint64_t ga, void *memory, uint64_t size, uint64_t order,
                    bint write, bint flag=False, object stream=None) except 0:
    # Unless the handle is odd the caller holds the memory until the operation is complete.
    cdef uint64_t h = 0
    need(function)  # the buffer may be of a class with Python code
    acp_lane_previous(lane0, acp_get_previous())
    while not h:
        stream_enter(stream, function)
        if flag:
            h = acp_iput_flag(lane0, ga, memory, order)
        elif write:
            h = acp_iput(lane0, ga, memory, size, order)
        else:
            h = acp_iget(lane0, memory, ga, size, order)
        stream_leave(stream)
        if not h:
            again(function)
    acp_set_previous(h)
    return h


cdef object started(str function, object ga, object buffer, object order, bint write, object stream=None):
    cdef Py_buffer view
    cdef uint64_t a, o, h
    if engine == NULL:
        no_engine(function)
    a = address(ga, function)
    o = order_of(order, function)
    finish = plain_or_side(buffer, &view, not write, function)
    if type(finish) is tuple:
        return device_begun(function, a, finish, o, write, stream, buffer)
    if finish is not None:
        PyBuffer_Release(&view)
        other = function[1:] if function[0] == "i" else "no stream"
        raise ValueError(f"{function}: the buffer is not contiguous; use {other}, or a contiguous one")
    try:
        h = begun(function, a, view.buf, view.len, o, write, False, stream)
        if not h & 1:
            held[h] = kept(&view)
            drop_held()
    finally:
        PyBuffer_Release(&view)
    return h


def iput(ga: Int, buffer, order: Int = HANDLE_NULL, stream=None) -> int:
    """Start writing `buffer`, which must not change before completion, to `ga`; a handle.

    `stream`: as in `copy`.
    """
    return started("iput", ga, buffer, order, True, stream)


def iget(ga: Int, buffer, order: Int = HANDLE_NULL, stream=None) -> int:
    """Start reading from `ga` into `buffer`; returns a handle. `stream`: as in `copy`."""
    return started("iget", ga, buffer, order, False, stream)


cdef class Cell:
    """A word that an operation may still write after an interrupted wait."""
    cdef uint64_t value


cdef object fetch(str function, acp_kind kind, object ga, object value, object compare):
    cdef uint64_t a, v, c = 0, old, pending = 0
    cdef Cell cell
    cdef int rc
    if engine == NULL:
        no_engine(function)
    a = address(ga, function)
    v = value_of(value, function)
    if kind == ACP_CAS4 or kind == ACP_CAS8:
        c = value_of(compare, function)
    rc = acp_fetch_here(lane0, kind, a, v, c, &old)
    if rc == ACP_OK:
        acp_set_previous(1)
        return old
    cell = Cell.__new__(Cell)
    while True:
        rc = acp_fetch(lane0, kind, a, v, c, &cell.value, &pending)
        if rc == ACP_OK:
            break
        again(function)
    if pending:
        wait_alone(function, pending, ACP_FOREVER, cell)
    acp_set_previous(1)
    return cell.value
