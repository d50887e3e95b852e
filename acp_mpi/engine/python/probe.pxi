# Looking for a message, and taking one out of the queue to receive it later.


cdef void taken_drop(acp_engine *e, uint64_t taken) noexcept:
    # The message is not wanted: its memory is given back.
    cdef acp_request *request = NULL
    cdef acp_lane *lane = acp_lane_take(e)
    if lane == NULL:
        if acp_receive_taken(acp_engine_lane(e), taken, NULL, 0, &request) == ACP_OK:
            acp_request_end(acp_engine_lane(e), request, NULL)
        return
    with nogil:
        if acp_receive_taken(lane, taken, NULL, 0, &request) == ACP_OK:
            acp_request_end(lane, request, NULL)
    acp_lane_give(lane)


cdef class Message:
    """A message that `mprobe` has taken out of the queue: only its `recv` or `irecv` has it."""
    cdef uint64_t taken
    cdef Stray stray
    cdef acp_engine *home
    cdef readonly Status status
    cdef bint raw, nothing
    cdef uint64_t era

    def __init__(self):
        raise TypeError("Message: mprobe and improbe return messages; there are no others")

    def __repr__(self):
        return f"<acp_mpi.Message source={self.status.source} tag={self.status.tag} " \
               f"size={self.status.size}>"

    def __dealloc__(self):
        if self.home == NULL or acp_engine_foreign(self.home):
            return
        if self.taken and self.era == mail_era and not acp_engine_closed(self.home):
            taken_drop(self.home, self.taken)
        acp_engine_free(self.home)

    def __reduce__(self):
        raise TypeError(f"Message: {self!r} is of this process and cannot be pickled; receive it, and "
                        "send what it is")

    cdef Request begin(self, str function, object buffer):
        cdef Request r
        cdef mail_call c
        cdef Stray stray = self.stray
        cdef acp_envelope got
        got.source, got.tag = self.status.source, self.status.tag
        got.size, got.note = self.status.size, self.status.note
        need(function)
        if self.era != mail_era:
            raise ValueError(f"{function}: {self!r} ended with reset; receive messages before it")
        if self.nothing:
            return receive_nothing(receive_new(
                function, buffer, OWN_CONTEXT, NOBODY, ACP_ANY, False))
        if stray is None and not self.taken:
            raise ValueError(f"{function}: {self!r} has been received; mprobe finds the next one")
        r = receive_new(function, buffer, OWN_CONTEXT, self.status.source, self.status.tag,
                        self.raw)
        if not acp_note_fits(r.want, self.status.note):
            raise refusal(function, &got, buffer, None)
        if stray is not None:
            self.stray = None  # no other thread takes it, too
            try:
                return receive_stray(r, stray)
            except BaseException:
                self.stray = stray
                raise
        c.taken, self.taken = self.taken, 0
        c.size, c.room = room_of(r), r.view.buf if r.viewed else NULL
        try:
            here = mail_do(function, do_receive_taken, &c, True, self.status.source)
        except BaseException:
            self.taken = c.taken
            raise
        if not here:
            raise ValueError(f"{function}: {self!r} is not here; it can be received once")
        r.request = c.request
        return r

    def recv(self, buffer: _Buffer = None,
             timeout: float | None = None) -> Any if buffer is None else _Buffer:
        """Receive it; returns `buffer`, or what was sent, and raises what `recv` does."""
        cdef int64_t limit = nanoseconds(timeout, "Message.recv")
        return received(self.begin("Message.recv", buffer), None, limit)

    def irecv(self, buffer: _Buffer = None) -> Request[Any] if buffer is None else Request[_Buffer]:
        """Start receiving it; returns a Request."""
        return lasting(self.begin("Message.irecv", buffer))


cdef class Probe:
    """The description of a probe's wait."""
    cdef str function
    cdef int64_t source, tag

    def __str__(self):
        return f"{self.function} {whom(False, self.source, self.tag)}"


cdef int probe_waiting(str function, mail_call *c, int64_t limit) except -1:
    cdef acp_engine *e
    cdef acp_awaited awaited
    cdef int rc = ACP_E_BUSY
    cdef Probe what = Probe.__new__(Probe)
    what.function, what.source, what.tag = function, c.envelope.source, c.envelope.tag
    while rc == ACP_E_BUSY:  # no lane
        e = hold(function)
        begin_to_await(&awaited, what, NULL, 0)
        with nogil:
            rc = acp_probe_wait(e, &c.envelope, &c.found, &c.taken if c.takes else NULL, limit)
        end_awaiting(&awaited)
        acp_engine_exit(e)
        if rc == ACP_E_BUSY:
            wait_for_room(function)
    if rc == ACP_E_TIMEOUT:
        raise TimeoutError(f"{what}: nothing came within the given time; is it sent to this rank?")
    if rc == ACP_E_CLOSED:
        need(function)
        raise ended_with_reset(what)
    ended(function, rc, missed(rc, c.envelope.source, c.envelope.among))
    need(function)
    return 0


cdef object look_for(str function, uint64_t context, int64_t source, int64_t tag, bint wait,
                     bint take, bint raw, object timeout, Sources among):
    # A Status, or the Message itself; None if there is none.
    cdef mail_call c
    cdef Message message
    cdef int64_t limit = nanoseconds(timeout, function)
    cdef Stray stray = stray_find(context, source, tag, take) if strays else None
    if source == NOBODY:
        return look_at_nothing(take)
    c.envelope.context, c.envelope.source, c.envelope.tag = context, source, tag
    c.envelope.among, c.takes = held_by(among), take
    if stray is not None:
        c.found = stray.envelope
    elif not mail_do(function, do_probe, &c, True, source):
        if not wait:
            return None
        probe_waiting(function, &c, limit)
    if not raw and c.found.note & 15 == DESCRIBED and c.found.size == 0:
        c.found.size = bytes_in_parts(function, &c.found, context, stray)
    if not take:
        return status_of(&c.found)
    message = Message.__new__(Message)
    message.status, message.raw, message.stray = status_of(&c.found), raw, stray
    message.era = mail_era
    if stray is None:
        message.taken, message.home = c.taken, engine
        acp_engine_hold(engine)
    return message


cdef uint64_t bytes_in_parts(str function, const acp_envelope *found, uint64_t context, Stray stray) except? 0:
    # Of a message whose bytes come behind its header.
    if stray is not None and stray.header is not None:
        return stray.header.size if comes_in_parts(stray.header) else 0
    header = look_for(function, context | HEADERS, found.source, found.note >> 4, True, False, True, None, None)
    return (<Status>header).note >> 4


cdef object look_at_nothing(bint take):
    cdef Message message = Message.__new__(Message)
    message.status, message.nothing, message.era = Status.__new__(Status), True, mail_era
    message.status.source = _sys.modules["mpi4py.MPI"].PROC_NULL
    return message if take else message.status


cdef object users_look(str function, object source, object tag, bint wait, bint take,
                       object timeout):
    if engine == NULL:
        no_engine(function)
    return look_for(function, OWN_CONTEXT, source_of(source, function),
                    tag_of(tag, function, True), wait, take, False, timeout, None)


def probe(source: Int = ANY_SOURCE, tag: Int = ANY_TAG, timeout: float | None = None) -> Status:
    """Wait for a message that `recv` would take; return its Status and leave it where it is.

    Raises PeerLostError if that rank has died, TimeoutError after `timeout` seconds.
    """
    return users_look("probe", source, tag, True, False, timeout)


def iprobe(source: Int = ANY_SOURCE, tag: Int = ANY_TAG) -> Status | None:
    """Return the Status of a message that `recv` would take, None if there is none now."""
    return users_look("iprobe", source, tag, False, False, None)


def mprobe(source: Int = ANY_SOURCE, tag: Int = ANY_TAG, timeout: float | None = None) -> Message:
    """Wait for a message and take it out of the queue: no other thread can receive it.

    Returns a Message with `status`, `recv` and `irecv`; raises what `probe` does.
    """
    return users_look("mprobe", source, tag, True, True, timeout)


def improbe(source: Int = ANY_SOURCE, tag: Int = ANY_TAG) -> Message | None:
    """Take a message out of the queue as `mprobe` does; None if there is none now."""
    return users_look("improbe", source, tag, False, True, None)
