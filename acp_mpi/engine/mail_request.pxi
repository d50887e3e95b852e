# Requests: sends and receives that are not over. They belong to one thread at a time.

from cpython.ref cimport Py_REFCNT

cdef set outstanding = set()  # what is not over keeps its buffers, whoever refers to it
cdef uint64_t mail_era = 0  # one more with each reset: taken messages are gone
cdef Py_ssize_t sweep_at = 64  # requests
DEF ASK_AGAIN = 1000000  # ns: another rank, or thread, is about to say whether it can be taken back


cdef int sweep() except -1:
    # What is done, and nobody refers to, was dropped: its buffer is free.
    global sweep_at
    cdef Request r
    for r in [each for each in outstanding if Py_REFCNT(each) <= 3]:
        if r.here() and r.waiting == 0:
            r.conclude()
    sweep_at = 2 * len(outstanding) + 64
    return 0


@cython.freelist(32)
cdef class Request:
    """A send or receive that goes on beside the program, from `isend` or `irecv`.

    Its buffer must not be touched before it is done. A request that is dropped goes on.
    """
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
    cdef uint64_t number  # of the stray whose message it brings

    def __init__(self):
        raise TypeError("Request: isend, irecv and the like return requests; there are no others")

    def __str__(self):
        return f"{self.function} {whom(self.sends, self.peer, self.tag)}"

    def __repr__(self):
        state = "cancelled" if self.cancelled else "done" if self.done else "pending"
        return f"<acp_mpi.Request {self}, {state}>"

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
        # It is not over when the call that began it returns.
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

    # Waiting ----------------------------------------------------------------------------------

    cdef bint here(self) except -1:
        # Whether it is done; where it began in a parent process, or a job that has ended, it raises.
        if self.over or self.request == NULL:
            return True
        need(self.function)
        return acp_request_done(self.request)

    cdef int attend(self, int64_t limit) except? -100:
        # Waits without the interpreter lock; returns what ended the wait.
        cdef acp_engine *e
        cdef acp_request *request = self.request
        cdef acp_awaited awaited
        cdef int rc
        if self.here():
            return ACP_OK
        e = hold(self.function)
        begin_to_await(&awaited, self, &request, 1)
        self.waiting += 1
        with nogil:
            rc = acp_request_wait(e, request, limit)
        self.waiting -= 1
        end_awaiting(&awaited)
        acp_engine_exit(e)
        if rc == ACP_E_CLOSED:
            need(self.function)
        return rc

    cdef bint settle(self, int64_t limit) except -1:
        # Until its result, or its error, is here. False: not within the given time.
        cdef int rc
        while not self.over:
            rc = self.attend(limit)
            if rc == ACP_E_TIMEOUT:
                return False
            ended(self.function, rc)
            self.conclude()
        return True

    cdef object late(self):
        return TimeoutError(f"{self}: nothing within the given time; is the other side where it "
                            "calls its half?")

    cdef int yield_to_others(self) except -1:
        # Another thread has the same request, and leaves soon: it is done.
        if awaited_here(self.request) or self.busy and self.taker == PyThread_get_thread_ident():
            raise _errors.Error(
                f"{self}: the call that this signal handler has interrupted is about to return its "
                "result; ask for `done`, or take it after that call")
        if signals_raised():
            return -1
        with nogil:
            sched_yield()
        return 0

    cdef int take_turn(self) noexcept:
        self.busy, self.taker = True, PyThread_get_thread_ident()
        return 0

    cdef int conclude(self) except -1:
        # It is done: take the message, or what went wrong, once.
        while (self.busy or self.waiting) and not self.over:
            self.yield_to_others()
        if self.over:
            return 0
        self.take_turn()
        try:
            if self.dropped:
                self.drop()
            elif self.sends:
                self.sent()
            else:
                self.received()
        finally:
            self.busy = False
        return 0

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
        elif status != ACP_OK and status != ACP_E_TRUNCATED:
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

    cdef int sent(self) except -1:
        self.end_it(NULL)
        return self.ends()

    cdef int received(self) except -1:
        cdef acp_envelope got
        cdef const char *data
        need(self.function)
        if self.request == NULL:  # an interrupt came when its bytes were in the view
            if self.known:
                self.take(&self.message, NULL, None)
            return self.ends()
        if acp_request_look(self.request, &got) == ACP_OK:
            self.fetch()
            header = self.header_of(&got)  # which Ctrl-C may interrupt: the message stays
            if self.viewed:
                if self.end_it(&got) in (ACP_OK, ACP_E_TRUNCATED):
                    self.take(&got, NULL, header)
                return self.ends()
            data = self.bytes_of_it()
            if data != NULL:
                self.take(&got, data, header)
                return self.ends()
        self.end_it(&got)
        return self.ends()

    cdef object header_of(self, const acp_envelope *got):
        cdef Request r
        if self.raw or got.note & 15 != DESCRIBED or self.header is not None:
            return self.header
        r = receive_begin(self.function, None, got.context | HEADERS, got.source, got.note >> 4,
                          True)
        if not r.over:
            request_block(r, ACP_FOREVER)
        self.header = r.outcome()
        return self.header

    cdef int take(self, const acp_envelope *got, const char *data, object header) except -1:
        # The result: the user's buffer, which is filled, or what the bytes are. Where Ctrl-C interrupts
        # it, it can be done again.
        self.known, self.message = True, got[0]
        try:
            if not self.viewed:
                self.result = raw_bytes_of(data, got.size) if self.raw else unpacked(
                    got, data, header)
                return 0
            if self.finish is not None:
                self.finish()
            if got.note & 15 == OBJECT_NOTE and not self.raw:
                raise TypeError(
                    f"{self.function}: the message {whom(False, got.source, got.tag)} is a pickled "
                    "object and no buffer; receive it without one")
            if got.size > <uint64_t>self.view.len:
                raise _errors.TruncationError(
                    f"{self.function}: the message {whom(False, got.source, got.tag)} has "
                    f"{got.size} bytes and the buffer {self.view.len}; the first are in it, the "
                    "rest is gone: ask probe for the size, or receive without a buffer")
        except Exception as error:
            self.error = error
        return 0

    cdef object outcome(self):
        if self.error is not None:
            raise self.error
        return self.result

    # What users call --------------------------------------------------------------------------

    @property
    def done(self):
        """Whether it is over, well or not; never waits."""
        return self.here()

    @property
    def status(self):
        """The Status of the message that was received, else None."""
        return status_of(&self.message) if self.known else None

    def parts(self):
        """Return the requests of the engine that it waits for now."""
        return [] if self.over else [self]

    def wait(self, timeout=None):
        """Wait until it is done; return what was received, None of a send.

        Raises the error of the operation; TimeoutError after `timeout` seconds, and it goes on.
        """
        if not self.over and not self.settle(nanoseconds(timeout, self.function)):
            raise self.late()
        self.claimed = True
        return self.outcome()

    def test(self):
        """Return True if it is done, and raises its error then; `wait` has the result."""
        if not self.here():
            return False
        if not self.over:
            self.conclude()
        self.claimed = True
        self.outcome()
        return True

    def cancel(self):
        """Take it back, if it has met nothing yet; return whether that was possible.

        `wait` returns None then. A send can be taken back only while it waits for room.
        """
        if not self.over and self.withdraw():
            self.cancelled = True
        return self.cancelled

    cdef bint withdraw(self) except -1:
        cdef int rc
        while not (self.over or self.busy or self.request == NULL):
            need(self.function)
            rc = acp_request_cancel(lane0, self.request)
            if rc == ACP_OK:
                return self.withdrawn()
            if rc != ACP_E_BUSY:
                return False
            if self.attend(ASK_AGAIN) == ACP_E_INTERRUPTED:
                return -1
        return False

    cdef bint withdrawn(self) except -1:
        # Who waits for it has been woken, and must find that it is over, not a request to take.
        if awaited_here(self.request):  # this is a signal handler: the wait around it ends it
            self.dropped = True
            return True
        self.take_turn()
        try:
            while self.waiting and not self.over:
                with nogil:
                    sched_yield()
            if not self.over:  # reset may have come
                self.drop()
        finally:
            self.busy = False
        return True

    cdef int drop(self) except -1:
        need(self.function)
        acp_request_end(lane0, self.request, NULL)
        self.request = NULL
        self.result = None
        return self.ends()


cdef object ended_with_reset(object what):
    return _errors.Error(f"{what}: reset came before it was done; wait for requests before that")


cdef int forget_messages(str why) except -1:
    # All messages end, by reset or with the job; whoever waits for a request hears of it.
    global mail_era
    cdef Request r
    mail_era += 1
    strays.clear()
    for r in list(outstanding):
        r.error = _errors.Error(
            f"{r}: {why} before it was done; wait for requests before that")
        if r.waiting == 0:
            r.ends()
    outstanding.clear()
    return 0
