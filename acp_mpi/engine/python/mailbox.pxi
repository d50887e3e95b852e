# Messages: what all calls of them share.

from cpython.ref cimport PyObject

DEF OWN_CONTEXT = 0  # of acp.send; collectives and communicators have contexts of their own
DEF HEADERS = 0x8000000000000000  # in a context: form of arrays that have no room for it in a note
DEF LAST_TAG = 0x4000000000000000

DEF FROM_ANY = -1001  # what users call so, far from what any MPI calls PROC_NULL
DEF OF_ANY_TAG = -1002
DEF NOBODY = -3  # an MPI's PROC_NULL, for which nothing happens

ANY_SOURCE = FROM_ANY
ANY_TAG = OF_ANY_TAG

cdef extern from "core/messages.h":
    ctypedef struct acp_request

cdef extern from *:
    """
    struct acp_awaited {
        PyObject *what;
        struct acp_request *const *requests;
        uint32_t count;
        struct acp_awaited *outer; /* in which a signal handler has come to this one */
    };
    static __thread struct acp_awaited *acp_awaited_of_thread; /* what this thread waits for */
    #define acp_set_awaited(x) (acp_awaited_of_thread = (x))
    #define acp_get_awaited() (acp_awaited_of_thread)
    """
    struct acp_awaited:
        PyObject *what
        acp_request **requests
        uint32_t count
        acp_awaited *outer
    void acp_set_awaited(acp_awaited *)
    acp_awaited *acp_get_awaited()

cdef extern from "Python.h":
    int64_t PyLong_AsLongLongAndOverflow(object, int *) except? -1
    unsigned long PyThread_get_thread_ident()

cdef extern from "sched.h" nogil:
    int sched_yield()


def awaited() -> str | None:
    """Return what the calling thread waits for, "recv from rank 3, tag 5", or None."""
    cdef acp_awaited *innermost = acp_get_awaited()
    return str(<object>innermost.what) if innermost != NULL else None


cdef inline void begin_to_await(acp_awaited *a, object what, acp_request **requests,
                                uint32_t count) noexcept:
    # Until `end_awaiting`, of the same thread; `what` says it in words.
    a.what, a.requests, a.count, a.outer = <PyObject *>what, requests, count, acp_get_awaited()
    acp_set_awaited(a)


cdef inline void end_awaiting(acp_awaited *a) noexcept:
    acp_set_awaited(a.outer)


cdef int awaited_here(const acp_request *request) noexcept:
    # In how many waits this thread is for it: more than none only in a signal handler.
    cdef acp_awaited *a = acp_get_awaited()
    cdef uint32_t i
    cdef int times = 0
    while a != NULL:
        for i in range(a.count):
            times += a.requests[i] == request
        a = a.outer
    return times


cdef class Status:
    """A received message: `source`, `tag`, `size` in bytes. Receives fill a given one."""
    cdef readonly int64_t source, tag
    cdef readonly uint64_t size, note

    def __cinit__(self):
        self.source, self.tag = FROM_ANY, OF_ANY_TAG

    cdef void fill(self, const acp_envelope *got) noexcept:
        self.source, self.tag = got.source, got.tag
        self.size, self.note = got.size, got.note

    def count(self, what=1) -> int:
        """Return the number of elements of that many bytes each, or of a NumPy type.

        ValueError if its size is not a multiple of that.
        """
        each = what if isinstance(what, int) else mail_payload().width_of(what)
        if each <= 0 or self.size % each:
            raise ValueError(f"count: a message of {self.size} bytes does not consist of elements "
                             f"of {each}; compare with the type that was sent")
        return self.size // each

    def __repr__(self):
        return f"<acp_mpi.Status source={self.source} tag={self.tag} size={self.size}>"


cdef Status status_of(const acp_envelope *got):
    cdef Status status = Status.__new__(Status)
    status.fill(got)
    return status


cdef int64_t tag_of(object tag, str function, bint wild) except? -2:
    cdef int overflow = 0
    cdef int64_t t
    if not PyLong_CheckExact(tag):
        tag = as_int(tag, function, "a tag")
    t = PyLong_AsLongLongAndOverflow(tag, &overflow)
    if not overflow and 0 <= t <= LAST_TAG:
        return t
    if wild and not overflow and (t == OF_ANY_TAG or is_of_mpi(tag, "ANY_TAG")):
        return ACP_ANY
    raise ValueError(f"{function}: {tag} is no tag; one is an integer from 0 to 2**62"
                     f"{', or ANY_TAG' if wild else ''}")


cdef bint is_of_mpi(object x, str name) except -1:
    # Is it what the MPI of this program, if it has loaded one, calls so?
    mpi = _sys.modules.get("mpi4py.MPI")
    return mpi is not None and getattr(mpi, name, None) == x


cdef int64_t source_of(object source, str function) except? -2:
    cdef int overflow = 0
    cdef int64_t r
    if PyLong_CheckExact(source):
        r = PyLong_AsLongLongAndOverflow(source, &overflow)
        if not overflow and 0 <= r < acp_procs(engine):
            return r
        if not overflow and r == FROM_ANY:
            return ACP_ANY
    else:
        source = as_int(source, function, "a rank")
    if source == FROM_ANY or is_of_mpi(source, "ANY_SOURCE"):
        return ACP_ANY
    return dest_of(source, function)


cdef inline int64_t dest_of(object dest, str function) except? -2:
    cdef int overflow = 0
    cdef int64_t r
    if PyLong_CheckExact(dest):
        r = PyLong_AsLongLongAndOverflow(dest, &overflow)
        if not overflow and 0 <= r < acp_procs(engine):
            return r
    return NOBODY if is_of_mpi(dest, "PROC_NULL") else no_mail_rank(dest, function)


cdef inline uint32_t mail_rank(object rank, str function) except? 0xffffffff:
    cdef int overflow = 0
    cdef int64_t r
    if PyLong_CheckExact(rank):
        r = PyLong_AsLongLongAndOverflow(rank, &overflow)
        if not overflow and 0 <= r < acp_procs(engine):
            return r
    return no_mail_rank(rank, function)


cdef uint32_t no_mail_rank(object rank, str function) except? 0xffffffff:
    rank = as_int(rank, function, "a rank")
    if 0 <= rank < acp_procs(engine) or is_somebody_new(rank):
        return rank
    raise _errors.RankError(f"{function}: there is no rank {rank}; ranks are 0 to "
                            f"{acp_procs(engine) - 1}")


cdef str whom(bint sends, int64_t rank, int64_t tag):
    who = "any rank" if rank == ACP_ANY else "nobody" if rank < 0 else f"rank {rank}"
    return (f"{'to' if sends else 'from'} {who}, "
            f"{'any tag' if tag < 0 else f'tag {tag}'}")


cdef object message_error(str function, int status, acp_lane *lane, int64_t rank):
    # As the lane says; `rank` is the other side where it does not.
    cdef const acp_fault *fault = acp_lane_fault(lane)
    if fault.status != status or status == ACP_E_LOST and fault.rank < 0:
        return _errors.from_fault(function, status, 0, 0, missed(status, rank, NULL))
    return exception_of(function, fault)


cdef class Sources:
    """The ranks of a context: only their deaths end a receive from any of them."""
    cdef acp_sources *held

    def __cinit__(self, tuple ranks: tuple[int, ...]):
        cdef uint32_t count = len(ranks), i
        cdef uint32_t *all = <uint32_t *>c_malloc(count * sizeof(uint32_t) + 1)
        if all == NULL:
            raise MemoryError()
        try:
            for i in range(count):
                all[i] = ranks[i]
            self.held = acp_sources_new(all, count)
        finally:
            c_free(all)
        if self.held == NULL:
            raise MemoryError()

    def __dealloc__(self):
        acp_sources_free(self.held)


cdef inline acp_sources *held_by(Sources sources) noexcept:
    return NULL if sources is None else sources.held


cdef int64_t missed(int status, int64_t rank, acp_sources *among) except? -1:
    # The lost rank that ends a wait for any source; a wait for one rank knows it.
    if status != ACP_E_LOST or rank >= 0 or engine == NULL:
        return rank
    if among != NULL:
        return acp_sources_lost(engine, among)
    lost = lost_ranks()
    return lost[0] if len(lost) == 1 else -1


# A call of the engine and what it takes, tried again while a mailbox is held by another.
cdef struct mail_call:
    acp_envelope envelope  # of what is sent, or wanted
    uint32_t dest
    const void *data
    void *room
    uint64_t size, taken  # of the room; by mprobe
    bint takes
    acp_envelope found
    acp_request *request

ctypedef int (*mail_function)(acp_lane *, mail_call *) noexcept nogil


cdef int do_send(acp_lane *lane, mail_call *c) noexcept nogil:
    return acp_send(lane, c.dest, &c.envelope, c.data, &c.request)


cdef int do_hand_on(acp_lane *lane, mail_call *c) noexcept nogil:
    return acp_hand_on(lane, &c.envelope, c.data, &c.request)


cdef int do_receive(acp_lane *lane, mail_call *c) noexcept nogil:
    return acp_receive(lane, &c.envelope, c.room, &c.request)


cdef int do_receive_taken(acp_lane *lane, mail_call *c) noexcept nogil:
    return acp_receive_taken(lane, c.taken, c.room, c.size, &c.request)


cdef int do_probe(acp_lane *lane, mail_call *c) noexcept nogil:
    return acp_probe(lane, &c.envelope, &c.found, &c.taken if c.takes else NULL)


cdef int mail_failed(str function, int status, acp_lane *lane, int64_t peer) except -1:
    if status == ACP_OK or status == ACP_E_BUSY or status == ACP_E_HANDLE:
        return 0
    if status == ACP_E_INTERRUPTED:
        return -1  # the exception of a signal handler is set
    raise message_error(function, status, lane, peer)


cdef bint mail_do(str function, mail_function what, mail_call *c, bint brief,
                  int64_t peer) except -1:
    # False: no such message. The lane of the interpreter lock's holder does not wait for a mailbox,
    # others do; long messages are not looked for.
    cdef int rc = ACP_E_BUSY
    cdef acp_lane *lane
    c.request = NULL
    if brief:
        rc = what(lane0, c)
        if rc == ACP_OK:
            return True
        mail_failed(function, rc, lane0, peer)
    while rc == ACP_E_BUSY:
        lane = acp_lane_take(engine)
        if lane == NULL:
            wait_for_room(function)
            rc = what(lane0, c)
            mail_failed(function, rc, lane0, peer)
            continue
        with nogil:
            rc = what(lane, c)
        try:
            mail_failed(function, rc, lane, peer)
        finally:
            acp_lane_give(lane)
        need(function)  # another thread may have finalized meanwhile
    return rc == ACP_OK
