# Containers: handles, and calls of their methods wherever they are.

from cpython.bytearray cimport (PyByteArray_AS_STRING, PyByteArray_FromStringAndSize,
                                PyByteArray_Resize)

cdef extern from "core/method.h" nogil:
    enum:
        METHOD_FREE
        METHOD_CREATE
        METHOD_DESCRIBE
        METHOD_DESTROY
        METHOD_COUNTER_ADD
        METHOD_COUNTER_SET
        METHOD_SEQUENCE_LOOK
        METHOD_SEQUENCE_READ
        METHOD_SEQUENCE_RESERVE
        METHOD_SEQUENCE_SPLICE


cdef class Call:
    """A call of a method elsewhere, with the bytes of its arguments and results."""
    cdef acp_call call
    cdef object taken
    cdef bytearray brought
    cdef uint64_t pending  # what to wait for; 0: it is done, or has not begun
    cdef object filled  # in place of `brought`: what is longer than one call brings


cdef Call call_new(uint8_t method, uint64_t ga, uint64_t a, uint64_t b, bytes taken=None,
                   uint64_t room=0):
    cdef Call c = Call.__new__(Call)
    c.call.method = method
    c.call.object = ga
    c.call.a = a
    c.call.b = b
    c.taken = taken
    if taken is not None:
        c.call.in_ = PyBytes_AS_STRING(taken)
        c.call.in_size = len(taken)
    if room:
        c.brought = PyByteArray_FromStringAndSize(NULL, room)
        c.call.out = PyByteArray_AS_STRING(c.brought)
        c.call.out_room = room
    return c


cdef uint64_t call_begin(str function, Call c) except? 0xffffffffffffffff:
    # The handle to wait for, 0 if it is done. The caller keeps its buffers during the wait.
    cdef uint64_t pending = 0
    cdef int rc = ACP_E_BUSY
    cdef bint brief = c.call.in_size <= SMALL and c.call.out_room <= SMALL
    cdef acp_lane *lane
    while rc != ACP_OK:
        need(function)
        lane = NULL if brief else acp_lane_take(engine)
        brief = False  # its lock is held for longer: other threads may run meanwhile
        if lane != NULL:
            with nogil:
                rc = acp_container_call(lane, &c.call, &pending)
        else:
            rc = acp_container_call(lane0, &c.call, &pending)
        try:
            call_ended(function, rc, lane0 if lane == NULL else lane)
        finally:
            if lane != NULL:
                acp_lane_give(lane)
    c.pending = pending
    return pending


cdef int call_done(str function, Call c) except -1:
    # Until it is done, here or at the owner.
    cdef uint64_t pending = call_begin(function, c)
    if pending:
        wait_alone(function, pending, ACP_FOREVER, c)
    acp_set_previous(1)
    return 0


cdef int call_run(str function, Call c) except -1:
    # The same, and leaves of its room what was brought.
    call_done(function, c)
    if c.brought is not None:
        PyByteArray_Resize(c.brought, c.call.out_size)
    return 0


cdef int call_ended(str function, int status, acp_lane *lane) except -1:
    if status == ACP_OK:
        return 0
    if status == ACP_E_INTERRUPTED:
        return -1  # the exception of a signal handler is set
    if status != ACP_E_BUSY:
        raise_fault(function, lane)
    return wait_for_room(function)


cdef class Handle:
    """The address of a container and its serial, by which every rank finds it."""
    cdef readonly uint64_t ga
    cdef readonly uint64_t serial
    cdef readonly bytes _note

    cdef int name(self, uint64_t ga, uint64_t serial, bytes note) except -1:
        self.ga = ga
        self.serial = serial
        self._note = note
        return 0

    @classmethod
    def __class_getitem__(cls, item):
        return _alias(cls, item)

    def _found(self, uint64_t ga, uint64_t serial, bytes note) -> None:
        """Make this the handle of a container that there is."""
        self.name(ga, serial, note)

    cdef str titled(self, str method):
        # As errors name it: Vector.insert, Vector[]. What is so named already stays.
        if "." in method or (len(method) > 2 and method.endswith("[]")):
            return method
        return f"{type(self).__name__}{'' if method == '[]' else '.'}{method}"


cdef inline void call_fill(acp_call *c, uint8_t method, Handle handle, uint64_t b) noexcept:
    c.method = method
    c.object = handle.ga
    c.a = handle.serial
    c.b = b
    c.in_ = c.out = NULL
    c.in_size = c.out_room = 0


def container_create(str function, rank: Int | None, kind: int, words: Sequence[int],
                     bytes note) -> tuple[int, int]:
    """Make a container of that kind on `rank`; returns its address and serial.

    `words` are up to four numbers for the kind, `note` is what `container_describe` returns.
    """
    need(function)
    if rank is None:
        rank = acp_rank(engine)
    cdef uint32_t where = rank_of(rank, function)
    words = b"".join([int(w).to_bytes(8, "little") for w in words])
    cdef Call c = call_new(METHOD_CREATE, acp_post(engine, where), kind, 0,
                           words.ljust(32, b"\0") + note)
    try:
        call_run(function, c)
    except BaseException:
        leave_brought(c)
        raise
    return c.call.result[0], c.call.result[1]


def container_describe(str function, ga: Int) -> tuple[int, int, bytes]:
    """Return serial, kind and note of the container at `ga`."""
    need(function)
    cdef Call c = call_new(METHOD_DESCRIBE, address(ga, function), 0, 0, None, 65536)
    call_run(function, c)
    return c.call.result[0], c.call.result[1], bytes(c.brought)


def container_destroy(str function, Handle handle) -> None:
    """Give back all memory of a container; its handles are good for nothing from now on."""
    need(function)
    call_run(function, call_new(METHOD_DESTROY, handle.ga, handle.serial, 0))
