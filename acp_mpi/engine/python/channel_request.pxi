# Sends and receives of channels that go on beside the program.


cdef class ChannelRequest(Request):  # type: Request[_T_co]
    """What `Channel.isend` and `irecv` return."""
    cdef Channel channel
    cdef acp_channel_op *op  # NULL: it has ended there
    cdef int result_of_op

    def __str__(self):
        return f"{self.function} {'to' if self.sends else 'from'} rank {self.peer} by a channel"

    cdef Request begin(self, Channel channel, str function, void *data, uint64_t size):
        self.channel, self.function, self.sends, self.peer = channel, function, channel.sends, channel.peer
        need(function)
        acp_engine_enter(channel.e)
        with nogil:
            self.op = acp_channel_begin(channel.end, data, size)
        acp_engine_exit(channel.e)
        if self.op == NULL:
            raise MemoryError(f"{function}: a request")
        self.goes_on()
        if self.here():
            self.conclude()
        return self

    cdef void let_go(self) noexcept:
        cdef uint64_t size
        if self.op != NULL and not acp_engine_foreign(self.home):
            # A thread inside `reserve` of an end that a reset has closed ends it later.
            if acp_flag_is_set(acp_channel_op_done(self.op)) or acp_engine_closed(self.home):
                acp_channel_op_end(self.op, &size)
        self.op = NULL
        Request.let_go(self)

    cdef bint here(self) except -1:
        if self.over or self.op == NULL:
            return True
        need(self.function)
        return acp_flag_is_set(acp_channel_op_done(self.op))

    cdef acp_request *identity(self) noexcept:
        return <acp_request *>self.op

    cdef int block(self, acp_engine *e, acp_request *request, int64_t limit) noexcept nogil:
        return acp_channel_op_wait(<acp_channel_op *>request, limit)

    cdef int sent(self) except -1:
        return self.received()

    cdef int received(self) except -1:
        cdef uint64_t size
        if self.op != NULL:
            self.result_of_op = acp_channel_op_end(self.op, &size)
            self.op = NULL
            self.message.source, self.message.size, self.message.note = self.peer, size, BYTES
            self.known = not self.sends and self.result_of_op in (ACP_OK, ACP_E_TRUNCATED)
        try:
            if self.known and self.finish is not None:
                self.finish(min(self.message.size, <uint64_t>self.view.len))
            if self.known and self.result_of_op != ACP_OK:
                truncated(self.function, self.message.size, self.view.len)
            self.channel.failed(self.function, self.result_of_op)
        except Exception as error:
            self.error = error
        return self.ends()

    cdef int drop(self) except -1:
        self.result = None
        return self.ends()

    cdef bint withdraw(self) except -1:
        cdef int rc = ACP_E_BUSY
        while rc == ACP_E_BUSY and not (self.over or self.busy or self.op == NULL):
            need(self.function)
            rc = acp_channel_op_cancel(self.op)
            if rc == ACP_OK:
                return self.withdrawn()
            with nogil:
                sched_yield()
        return False


cdef int truncated(str function, uint64_t size, Py_ssize_t length) except -1:
    raise _errors.TruncationError(f"{function}: a message of {size} bytes and a buffer of {length}; what fits is there, "
                                  "the rest is lost: give a larger one, or none")
