# Collectives that are under way, each by its plan.

from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE

cdef inline void end_collective(acp_collective *c) noexcept:
    # A collective that has not ended may need a lane, or the lock of the thread that drives it.
    if acp_collective_settled(c):
        acp_collective_end(c)
    else:
        with nogil:
            acp_collective_end(c)


cdef class Collective:
    """One collective under way: `run` it, or `release` it and ask."""
    cdef acp_engine *home
    cdef acp_collective *under_way
    cdef Plan plan
    cdef Py_buffer given, wanted
    cdef bint has_given, has_wanted
    cdef object room
    cdef readonly object call
    cdef str function
    cdef bint gave, took  # it has read from a buffer of its caller, or written to one
    cdef readonly bint done

    def __init__(self, str function, Plan plan, given, wanted, context: int, call=None):
        # `call` gets the numbers in the plan, as it comes to them.
        need(function)
        self.call = call
        if given is not None:
            PyObject_GetBuffer(given, &self.given, PyBUF_SIMPLE)
            self.has_given = True
        if wanted is not None:
            PyObject_GetBuffer(wanted, &self.wanted, PyBUF_SIMPLE)  # writable, if it is written
            self.has_wanted = True
        self.begin(function, plan, context)

    cdef int begin(self, str function, Plan plan, uint64_t context) except -1:
        cdef void *buffers[5]
        cdef Py_buffer view
        cdef int rc, i
        cdef char *base = NULL
        self.function = function
        self.plan = plan
        self.gave, self.took = self.has_given, self.has_wanted
        buffers[0] = self.given.buf if self.has_given else NULL
        buffers[1] = self.wanted.buf if self.has_wanted else NULL
        if plan.room:
            self.room = plan.room_take()
            PyObject_GetBuffer(self.room, &view, PyBUF_WRITABLE)
            base = <char *>view.buf
            PyBuffer_Release(&view)  # `room` keeps it
        for i in range(3):
            buffers[2 + i] = base + plan.at[i] if base != NULL else NULL
        need(function)  # an array of a class with Python code may have finalized
        rc = acp_collective_begin(engine, &plan.plan, buffers, context, plan.note, &self.under_way)
        if rc != ACP_OK:
            raise_status(function, rc)
        acp_engine_enter(engine)
        self.home = engine
        return 0

    def __dealloc__(self):
        if self.under_way != NULL and not acp_engine_foreign(self.home):
            end_collective(self.under_way)
        if self.has_given:
            PyBuffer_Release(&self.given)
        if self.has_wanted:
            PyBuffer_Release(&self.wanted)
        self.leave()

    cdef int leave(self) noexcept:
        if self.home != NULL:
            acp_engine_exit(self.home)
        self.home = NULL
        return 0

    cdef int over(self) except -1:
        cdef acp_collective *ending = self.under_way
        self.done = True
        self.under_way = NULL
        end_collective(ending)
        self.leave()
        if self.room is not None:
            self.plan.room_give(self.room)
            self.room = None
        if self.has_given:
            PyBuffer_Release(&self.given)
            self.has_given = False
        if self.has_wanted:
            PyBuffer_Release(&self.wanted)
            self.has_wanted = False
        return 0

    cdef int failed(self, int rc) except -1:
        cdef uint64_t theirs = 0, why = 0
        cdef int64_t rank = acp_collective_trouble(self.under_way, &theirs, &why)
        cdef PyObject *error[3]
        cdef bint again = rc == ACP_E_CLOSED and engine != NULL and engine == self.home
        note = self.plan.note
        PyErr_Fetch(&error[0], &error[1], &error[2])  # a signal handler's, if it has ended it
        self.over()
        if rc == ACP_E_INTERRUPTED:
            PyErr_Restore(error[0], error[1], error[2])
            return -1
        if again:
            raise ended_with_reset(self.function)
        raise _errors.from_collective(self.function, rc, rank, note, theirs, why)

    cdef int fold(self) except -1:
        cdef void *where
        cdef const void *left
        cdef const void *right
        cdef uint64_t size
        cdef int64_t called = acp_collective_called(self.under_way)
        acp_collective_due(self.under_way, &where, &left, &right, &size)
        try:
            if called >= 0:
                self.call(called)
            else:
                self.plan.folder(
                    PyMemoryView_FromMemory(<char *>where, size, PyBUF_WRITE),
                    PyMemoryView_FromMemory(<char *>left, size, PyBUF_READ),
                    PyMemoryView_FromMemory(<char *>right, size, PyBUF_READ))
        except BaseException:
            self.over()  # the others are told
            raise
        with nogil:
            acp_collective_folded(self.under_way)
        return 0

    def run(self, timeout: float | None = None) -> None:
        """Carry it out in this thread; whatever goes wrong ends it, on all that depend on it."""
        cdef int64_t limit
        try:
            limit = nanoseconds(timeout, self.function)
        except BaseException:
            self.over()  # the others are told
            raise
        self.carry(limit)

    cdef int carry(self, int64_t limit) except -1:
        cdef int64_t end = end_of(limit)
        cdef int rc
        while True:
            with nogil:
                rc = acp_collective_run(self.under_way, limit)
            if rc != ACP_COLLECTIVE_FOLD:
                break
            self.fold()
            limit = left_until(end)
        if rc != ACP_OK:
            self.failed(rc)
        return self.over()

    def run_for(self, seconds: float) -> bool:
        """Carry it out in this thread for that time; return whether it has ended."""
        cdef int64_t limit = nanoseconds(seconds, self.function)
        cdef int64_t end = end_of(limit)
        cdef int rc
        while True:
            with nogil:
                rc = acp_collective_run_for(self.under_way, limit)
            if rc != ACP_COLLECTIVE_FOLD:
                break
            self.fold()
            limit = left_until(end)
        if rc == ACP_E_TIMEOUT:
            return False
        if rc != ACP_OK:
            self.failed(rc)
        self.over()
        return True

    def farewell(self, lost: int | None, why: int) -> None:
        """End it before it has begun; `lost`: the dead rank that is the reason, or None.

        `why`: of an error for calls that do not belong together, which the others are told; or 0.
        """
        if lost is not None:
            acp_collective_lost(self.under_way, lost)
        if why:
            acp_collective_astray(self.under_way, why)
        self.over()

    def release(self) -> None:
        """Let it go on by itself."""
        with nogil:
            acp_collective_release(self.under_way)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended; TimeoutError after `timeout` seconds, and it goes on."""
        cdef int64_t limit = nanoseconds(timeout, self.function)
        cdef int64_t end = end_of(limit)
        cdef int rc
        while self.under_way != NULL:
            with nogil:
                rc = acp_collective_wait(self.under_way, limit)
            if rc == ACP_COLLECTIVE_FOLD:
                self.fold()
                limit = left_until(end)
            elif rc == ACP_E_INTERRUPTED or rc == ACP_E_TIMEOUT:  # it may have ended just now
                ended(self.function, rc)
            elif rc == ACP_OK:
                self.over()
            else:
                self.failed(rc)

    def test(self) -> bool:
        """Return whether it has ended; raises why it failed."""
        if self.under_way != NULL and acp_collective_done(self.under_way):
            try:
                self.wait(0)
            except TimeoutError:
                if self.under_way == NULL:  # of the operation itself
                    raise
                return False
        return self.under_way == NULL
