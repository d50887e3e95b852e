# Looking for a message, and taking one out of the queue to receive it later.


cdef void taken_drop(acp_engine *e, uint64_t taken) noexcept:
    # Nobody wants the message: its memory is given back.
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
    cdef bint raw
    cdef str function

    def __repr__(self):
        return f"<acp_mpi.Message source={self.status.source} tag={self.status.tag} " \
               f"size={self.status.size}>"

    def __dealloc__(self):
        if self.home == NULL or acp_engine_foreign(self.home):
            return
        if self.taken and not acp_engine_closed(self.home):
            taken_drop(self.home, self.taken)
        acp_engine_free(self.home)

    cdef Request begin(self, str function, object buffer):
        cdef Request r
        cdef int rc = ACP_E_BUSY
        cdef acp_lane *lane
        cdef Stray stray = self.stray
        cdef void *room
        cdef uint64_t size, taken
        need(function)
        if stray is None and (not self.taken or self.home != engine):
            raise ValueError(f"{function}: {self!r} has been received; mprobe finds the next one")
        r = receive_new(function, buffer, OWN_CONTEXT, self.status.source, self.status.tag,
                        self.raw)
        room = r.view.buf if r.viewed else NULL
        size = <uint64_t>r.view.len if r.viewed else 0xffffffffffffffff
        if stray is not None:
            self.stray = None
            return receive_stray(r, stray)
        taken, self.taken = self.taken, 0
        while rc == ACP_E_BUSY:
            lane = acp_lane_take(engine)
            if lane == NULL:
                wait_for_room(function)
                rc = acp_receive_taken(lane0, taken, room, size, &r.request)
            else:
                with nogil:
                    rc = acp_receive_taken(lane, taken, room, size, &r.request)
                acp_lane_give(lane)
                need(function)
        if rc != ACP_OK:
            raise message_error(function, rc, self.status.source)
        return r

    def recv(self, buffer=None, timeout=None):
        """Receive it; returns `buffer`, or what was sent, and raises what `recv` does."""
        return received(self.begin("Message.recv", buffer), None, timeout)

    def irecv(self, buffer=None):
        """Start receiving it; returns a Request."""
        return lasting(self.begin("Message.irecv", buffer))


cdef class Probe:
    """What a probe waits for, in words."""
    cdef str function
    cdef int64_t source, tag

    def __str__(self):
        return f"{self.function} {whom(False, self.source, self.tag)}"


cdef int probe_at_once(str function, const acp_envelope *want, acp_envelope *found,
                       uint64_t *taken) except -1:
    # Whether there is one.
    cdef acp_lane *lane
    cdef int rc = acp_probe(lane0, want, found, taken)
    while rc == ACP_E_BUSY:
        lane = acp_lane_take(engine)
        if lane == NULL:
            wait_for_room(function)
            rc = acp_probe(lane0, want, found, taken)
        else:
            with nogil:
                rc = acp_probe(lane, want, found, taken)
            acp_lane_give(lane)
            need(function)
    if rc == ACP_E_HANDLE:
        return False
    if rc != ACP_OK:
        raise message_error(function, rc, want.source)
    return True


cdef int probe_waiting(str function, const acp_envelope *want, acp_envelope *found,
                       uint64_t *taken, int64_t limit) except -1:
    cdef acp_engine *e
    cdef PyObject *outer = acp_get_awaited()
    cdef int rc
    cdef Probe what = Probe.__new__(Probe)
    what.function, what.source, what.tag = function, want.source, want.tag
    e = hold(function)
    acp_set_awaited(<PyObject *>what)
    with nogil:
        rc = acp_probe_wait(e, want, found, taken, limit)
    acp_set_awaited(outer)
    acp_engine_free(e)
    if rc == ACP_E_TIMEOUT:
        raise TimeoutError(f"{what}: nothing came within the given time; is it sent to this rank?")
    if rc == ACP_E_LOST:
        raise message_error(function, rc, want.source)
    ended(function, rc)
    need(function)
    return 0


cdef object look_for(str function, uint64_t context, int64_t source, int64_t tag, bint wait,
                     bint take, bint raw, object timeout):
    # A Status, or the Message itself; None if there is none.
    cdef acp_envelope want, found
    cdef uint64_t taken = 0
    cdef Message message
    cdef int64_t limit = nanoseconds(timeout, function)
    cdef Stray stray = stray_find(context, source, tag, take) if strays else None
    want.context, want.source, want.tag, want.size, want.note = context, source, tag, 0, 0
    if stray is not None:
        found = stray.envelope
    elif not probe_at_once(function, &want, &found, &taken if take else NULL):
        if not wait:
            return None
        probe_waiting(function, &want, &found, &taken if take else NULL, limit)
    if not take:
        return status_of(&found)
    message = Message.__new__(Message)
    message.status, message.raw, message.stray = status_of(&found), raw, stray
    if stray is None:
        message.taken, message.home = taken, engine
        acp_engine_hold(engine)
    return message


cdef object users_look(str function, object source, object tag, bint wait, bint take,
                       object timeout):
    if engine == NULL:
        no_engine(function)
    return look_for(function, OWN_CONTEXT, source_of(source, function),
                    tag_of(tag, function, True), wait, take, False, timeout)


def probe(source=ANY_SOURCE, tag=ANY_TAG, timeout=None):
    """Wait for a message that `recv` would take; return its Status and leave it where it is.

    Raises PeerLostError if that rank has died, TimeoutError after `timeout` seconds.
    """
    return users_look("probe", source, tag, True, False, timeout)


def iprobe(source=ANY_SOURCE, tag=ANY_TAG):
    """Return the Status of a message that `recv` would take, None if there is none now."""
    return users_look("iprobe", source, tag, False, False, None)


def mprobe(source=ANY_SOURCE, tag=ANY_TAG, timeout=None):
    """Wait for a message and take it out of the queue: no other thread can receive it.

    Returns a Message with `status`, `recv` and `irecv`; raises what `probe` does.
    """
    return users_look("mprobe", source, tag, True, True, timeout)


def improbe(source=ANY_SOURCE, tag=ANY_TAG):
    """Take a message out of the queue as `mprobe` does; None if there is none now."""
    return users_look("improbe", source, tag, False, True, None)
