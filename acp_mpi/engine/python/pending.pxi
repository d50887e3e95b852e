# The engine's request of a send or receive: its life, waits for it, its bytes and its end.


@cython.freelist(32)
cdef class Pending:
    """A request of the engine, and the buffer that it holds. Of `Request`, which adds no attribute."""
    cdef acp_request *request  # NULL: over, or nothing to wait for
    cdef acp_engine *home
    cdef Py_buffer view
    cdef bint viewed, sends, raw, over, busy
    cdef bint dropped  # taken back by a signal handler, in a wait for it
    cdef unsigned long taker  # busy: the thread that takes its result
    cdef readonly bint cancelled
    cdef readonly bint claimed  # `wait`, `waitany` or `test` has handed its result out
    cdef int waiting
    cdef uint64_t context
    cdef int64_t peer, tag
    cdef str function
    cdef object keep, finish, result, error
    cdef object header  # how the array looks, once received: Ctrl-C may come before the array is made
    cdef bint known
    cdef acp_envelope message  # known: what was received
    cdef uint64_t number  # of the stray with the same message
    cdef uint64_t want    # the note that fits; 0: any

    def __str__(self):
        return f"{self.function} {whom(self.sends, self.peer, self.tag)}"

    def __dealloc__(self):
        self.let_go()

    cdef void let_go(self) noexcept:
        # Of the request in the engine, unless that has ended with it, and of the buffer.
        if self.home != NULL and (self.home == engine or not acp_engine_foreign(self.home)):
            if self.request != NULL and not acp_engine_closed(self.home):
                acp_request_end(acp_engine_lane(self.home), self.request, NULL)
            acp_engine_free(self.home)
        self.home = NULL
        self.request = NULL
        if self.viewed:
            self.viewed = False
            PyBuffer_Release(&self.view)

    cdef int goes_on(self) except -1:
        # The request goes on when the call that began it returns.
        self.home = engine
        acp_engine_hold(engine)
        if len(outstanding) >= sweep_at:
            sweep()
        outstanding.add(self)
        return 0

    cdef int ends(self) except -1:
        if self.home != NULL:
            outstanding.discard(self)
        elif self.request != NULL and engine != NULL:  # bytes that were taken out of the heap
            acp_request_end(lane0, self.request, NULL)
            self.request = NULL
        self.let_go()
        self.keep = self.finish = None
        self.over = True
        return 0

    cdef bint here(self) except -1:
        # Whether it is done; where it began in a parent process, or a job that has ended, it raises.
        if self.over or self.request == NULL:
            return True
        need(self.function)
        return acp_request_done(self.request)

    cdef acp_request *identity(self) noexcept:
        return self.request

    cdef int block(self, acp_engine *e, acp_request *request, int64_t limit) noexcept nogil:
        return acp_request_wait(e, request, limit)

    cdef int attend(self, int64_t limit) except? -100:
        # Waits without the interpreter lock; returns what ended the wait.
        cdef acp_engine *e
        cdef acp_request *request = self.identity()
        cdef acp_awaited awaited
        cdef int rc
        if self.here():
            return ACP_OK
        e = hold(self.function)
        begin_to_await(&awaited, self, &request, 1)
        self.waiting += 1
        with nogil:
            rc = self.block(e, request, limit)
        self.waiting -= 1
        end_awaiting(&awaited)
        acp_engine_exit(e)
        if rc == ACP_E_CLOSED:
            need(self.function)
        return rc

    cdef int end_it(self, acp_envelope *got) except? -100:
        # Ends the request in the engine, which may copy what has come; returns how it went.
        cdef int rc
        cdef acp_lane *lane = NULL
        cdef acp_request *request = self.request
        need(self.function)
        if self.viewed and not self.sends and self.view.len > SMALL:
            lane = acp_lane_take(engine)
        self.request = NULL
        if lane == NULL:
            rc = acp_request_end(lane0, request, got)
            return self.went(rc, lane0)
        with nogil:
            rc = acp_request_end(lane, request, got)
        try:
            return self.went(rc, lane)
        finally:
            acp_lane_give(lane)

    cdef int went(self, int status, acp_lane *lane) except? -100:
        if status == ACP_E_CLOSED:
            self.error = ended_with_reset(self)
        elif status != ACP_OK and status != ACP_E_TRUNCATED and status != ACP_E_TYPE:
            self.error = message_error(self.function, status, lane, self.peer)
        return status

    cdef int fetch(self) except -1:
        # The bytes that stayed with the sender; Ctrl-C ends it, and the next call goes on.
        cdef int rc
        cdef acp_lane *lane
        cdef acp_request *request = self.request
        if not acp_request_pulls(request):
            return 0
        lane = acp_lane_take(engine)
        if lane == NULL:
            rc = acp_request_pull(lane0, request)
        else:
            self.waiting += 1  # a reset by another thread leaves it to this one
            with nogil:
                rc = acp_request_pull(lane, request)
            self.waiting -= 1
            acp_lane_give(lane)
        if rc == ACP_E_INTERRUPTED:
            return -1  # the exception of a signal handler is set
        need(self.function)
        return 0

    cdef const char *bytes_of_it(self) except? NULL:
        # Of a message without a buffer; it may have to be fetched from its sender.
        cdef const void *data
        cdef acp_lane *lane = acp_lane_take(engine)
        if lane == NULL:
            return <const char *>acp_request_data(lane0, self.request)
        self.waiting += 1
        with nogil:
            data = acp_request_data(lane, self.request)
        self.waiting -= 1
        acp_lane_give(lane)
        need(self.function)
        return <const char *>data
