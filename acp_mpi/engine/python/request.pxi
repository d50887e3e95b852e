# Requests: sends and receives that are not over, and what becomes of each. They belong to one thread at a time.

from cpython.ref cimport Py_REFCNT

cdef set outstanding = set()  # an unfinished request keeps its buffers, even without references
cdef uint64_t mail_era = 0  # one more with each reset: taken messages are gone
cdef Py_ssize_t sweep_at = 64  # requests
DEF ASK_AGAIN = 1000000  # ns: another rank, or thread, is about to say whether it can be taken back


cdef int sweep() except -1:
    # Finished requests without references were dropped: their buffers are free.
    global sweep_at
    cdef Request r
    for r in [each for each in outstanding if Py_REFCNT(each) <= 3]:
        if r.here() and r.waiting == 0:
            r.conclude()
    sweep_at = 2 * len(outstanding) + 64
    return 0


cdef class Request(Pending):  # type: Pending, Generic[_T_co]
    """A send or receive that goes on beside the program, from `isend` or `irecv`.

    Its buffer must not be touched before it is done. A request that is dropped goes on.
    """
    def __init__(self):
        raise TypeError("Request: isend, irecv and the like return requests; there are no others")

    @classmethod
    def __class_getitem__(cls, item):
        return _alias(cls, item)

    def __reduce__(self):
        raise TypeError(f"Request: {self!r} is of this process and cannot be pickled; send what its "
                        "wait() returns, or have the other rank begin a request of its own")

    def __repr__(self):
        state = "cancelled" if self.cancelled else "done" if self.here() else "pending"
        return f"<acp_mpi.Request {self}, {state}>"

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
        if awaited_here(self.identity()) or self.busy and self.taker == PyThread_get_thread_ident():
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
        # The request is done: take the message, or its error, once.
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
            if comes_in_parts(header):
                self.gather(header)
                self.end_it(&got)
                self.take(&got, NULL, header)
                return self.ends()
            if self.viewed:
                if self.end_it(&got) in (ACP_OK, ACP_E_TRUNCATED):
                    self.take(&got, NULL, header)
                return self.ends()
            data = self.bytes_of_it()
            if data != NULL:
                self.take(&got, data, header)
                return self.ends()
        if self.end_it(&got) == ACP_E_TYPE:
            self.refused(&got)
        return self.ends()

    cdef int refused(self, const acp_envelope *got) except -1:
        # The message stays, and so does what describes it.
        cdef Stray stray = Stray.__new__(Stray)
        self.error = refusal(self.function, got, self.result, None)
        message = None
        if got.note & 15 == DESCRIBED:
            message = look_for(self.function, got.context | HEADERS, got.source, got.note >> 4, False,
                               True, True, None, None)
        if message is None:  # another receive has both by now
            return 0
        stray.envelope, stray.data = got[0], message.recv()
        stray.envelope.context, stray.envelope.tag = got.context | HEADERS, got.note >> 4
        stray.envelope.size, stray.envelope.note = len(stray.data), BYTES
        stray_keep(stray)
        stray_hand_on(stray, self.function)
        self.error = refusal(self.function, got, self.result, stray.data)
        return 0

    cdef object header_of(self, const acp_envelope *got):
        cdef Request r
        if self.raw or got.note & 15 != DESCRIBED or self.header is not None:
            return self.header
        r = receive_begin(self.function, None, got.context | HEADERS, got.source, got.note >> 4,
                          True)
        if not r.over:
            request_block(r, ACP_FOREVER)
        self.header = mail_payload().described(r.outcome(), got.source, got.note >> 4, got.context | HEADERS)
        return self.header

    cdef object place(self):
        # Where its bytes are wanted: in device memory, in memory of the host, or in a new array.
        place = getattr(self.finish, "side", None)
        if self.viewed and place is None:
            place = PyMemoryView_FromMemory(<char *>self.view.buf, self.view.len, PyBUF_WRITE)
        return place

    cdef int gather_some(self) except -1:
        # Those that are here of a message in parts.
        cdef acp_envelope got
        if self.over or self.request == NULL or not acp_request_done(self.request):
            return 0
        if acp_request_look(self.request, &got) == ACP_OK and got.note & 15 == DESCRIBED and not self.raw:
            header = self.header_of(&got)
            if comes_in_parts(header):
                header.bring(self.function, self.place(), False)
        return 0

    cdef int gather(self, object parts) except -1:
        # All bytes come to where they are wanted; Ctrl-C ends it, and the next call goes on.
        place = self.place()
        try:
            parts.bring(self.function, place)
        except _errors.Error as error:
            self.error = error
        if type(place) is tuple:
            self.finish = None
        return 0

    cdef int take(self, const acp_envelope *got, const char *data, object header) except -1:
        # The result: the user's buffer, which is filled, or what the bytes are. Where Ctrl-C interrupts
        # it, it can be done again.
        self.known, self.message = True, got[0]
        if comes_in_parts(header):
            self.message.size, got = header.size, &self.message
            if self.error is not None:
                return 0
        try:
            if not self.viewed and comes_in_parts(header):
                self.result = header.array
                return 0
            if not self.viewed:
                self.result = raw_bytes_of(data, got.size) if self.raw else unpacked(
                    got, data, header)
                return 0
            if self.finish is not None:
                self.finish(min(got.size, <uint64_t>self.view.len))
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

    # Calls of users --------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether it is over, well or not, and a buffer filled; never waits."""
        cdef bint done = self.here()
        # A thread that waits for it concludes it; so does the call that a signal handler has interrupted.
        if done and not (self.over or self.busy or self.waiting):
            self.conclude()
        return done

    @property
    def status(self) -> Status | None:
        """The Status of the message that was received, else None."""
        return status_of(&self.message) if self.known else None

    def parts(self) -> list[Request[Any]]:
        """Return the requests of the engine that it waits for now."""
        return [] if self.over else [self]

    def wait(self, timeout: float | None = None) -> _T_co:
        """Wait until it is done; return what was received, None of a send.

        Raises the error of the operation; TimeoutError after `timeout` seconds, and it goes on.
        """
        if not self.over and not self.settle(nanoseconds(timeout, self.function)):
            raise self.late()
        self.claimed = True
        return self.outcome()

    def test(self) -> bool:
        """Return True if it is done, and raises its error then; `wait` has the result."""
        if not self.here():
            return False
        if not self.over:
            self.conclude()
        self.claimed = True
        self.outcome()
        return True

    def cancel(self) -> bool:
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
        # A waiting thread has been woken, and must find that it is over, not a request to take.
        if awaited_here(self.identity()):  # this is a signal handler: the wait around it ends it
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


cdef bint comes_in_parts(object header) noexcept:
    return header is not None and type(header) is not tuple


cdef object ended_with_reset(object what):
    return _errors.Error(f"{what}: reset came before it was done; wait for requests before that")


cdef int forget_messages(str why) except -1:
    # All messages end, by reset or with the job; threads that wait for a request are woken.
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
