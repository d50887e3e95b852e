# Containers: handles, and calls of their methods wherever they are.

from cpython.bytes cimport PyBytes_FromStringAndSize

cdef extern from "method.h" nogil:
    enum:
        METHOD_CREATE
        METHOD_DESCRIBE
        METHOD_DESTROY
        METHOD_COUNTER_ADD
        METHOD_COUNTER_SET


cdef class Call:
    """A call whose method runs elsewhere, with the bytes that it takes and brings."""
    cdef acp_call call
    cdef object taken
    cdef object brought

    cdef object bytes_back(self):
        return PyBytes_FromStringAndSize(<char *>self.call.out, self.call.out_size)


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
        c.brought = PyBytes_FromStringAndSize(NULL, room)
        c.call.out = PyBytes_AS_STRING(c.brought)
        c.call.out_room = room
    return c


cdef int call_run(str function, Call c) except -1:
    # Until it is done, here or at the owner; one that an exception interrupts keeps its buffers.
    cdef uint64_t pending = 0
    cdef int rc
    while True:
        need(function)
        rc = acp_container_call(lane0, &c.call, &pending)
        if rc == ACP_OK:
            break
        call_again(function, rc)
    if pending:
        held[pending] = c
        wait_alone(function, pending, ACP_FOREVER)
    acp_set_previous(1)
    return 0


cdef int call_again(str function, int status) except -1:
    if status == ACP_E_INTERRUPTED:
        return -1  # the exception of a signal handler is set
    if status != ACP_E_BUSY:
        raise_fault(function, lane0)
    return wait_for_room(function)


cdef class Handle:
    """The address of a container and its serial, by which every rank finds it."""
    cdef readonly uint64_t ga
    cdef readonly uint64_t serial
    cdef readonly bytes note

    cdef int name(self, uint64_t ga, uint64_t serial, bytes note) except -1:
        self.ga = ga
        self.serial = serial
        self.note = note
        return 0

    def found(self, uint64_t ga, uint64_t serial, bytes note):
        """Make this the handle of a container that there is."""
        self.name(ga, serial, note)


cdef inline void call_fill(acp_call *c, uint8_t method, Handle handle, uint64_t b) noexcept:
    c.method = method
    c.object = handle.ga
    c.a = handle.serial
    c.b = b
    c.in_ = c.out = NULL
    c.in_size = c.out_room = 0


def container_create(str function, rank, kind, words, bytes note):
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
    call_run(function, c)
    return c.call.result[0], c.call.result[1]


def container_describe(str function, ga):
    """Return serial, kind and note of the container at `ga`."""
    need(function)
    cdef Call c = call_new(METHOD_DESCRIBE, address(ga, function), 0, 0, None, 65536)
    call_run(function, c)
    return c.call.result[0], c.call.result[1], c.bytes_back()


def container_destroy(str function, Handle handle):
    """Give back all memory of a container; its handles are good for nothing from now on."""
    need(function)
    call_run(function, call_new(METHOD_DESTROY, handle.ga, handle.serial, 0))
