# Receives: posted where senders find them.

DEF MAIL_SHORT = 256  # bytes that come with their envelope
DEF SHORT_MOST = 8192  # ACP_SHORT_MOST
DEF MOMENT = 1000000  # ns: a receive with less time does not poll for a message
cdef object NOTHING_HERE = object()


cdef Request receive_new(str function, object buffer, uint64_t context, int64_t source,
                         int64_t tag, bint raw):
    cdef Request r = Request.__new__(Request)
    r.function, r.context, r.peer, r.tag, r.raw = function, context, source, tag, raw
    if buffer is not None:
        r.finish = plain_buffer(buffer, &r.view, True, function)
        r.viewed = True
        r.result = buffer
        r.want = 0 if raw else wanted_by(buffer, &r.view)
        need(function)  # the buffer may be of a class with Python code
    return r


cdef Request receive_begin(str function, object buffer, uint64_t context, int64_t source,
                           int64_t tag, bint raw, Sources among=None):
    cdef mail_call c
    cdef Request r = receive_new(function, buffer, context, source, tag, raw)
    if source == NOBODY:
        return receive_nothing(r)
    cdef Stray stray = stray_find(context, source, tag, True) if strays else None
    if stray is not None:
        try:
            return receive_stray(r, stray)
        except BaseException:
            stray_keep(stray)
            raise
    c.envelope.context, c.envelope.source, c.envelope.tag = context, source, tag
    c.envelope.size, c.room = room_of(r), r.view.buf if r.viewed else NULL
    c.envelope.note = r.want
    c.envelope.among = held_by(among)
    mail_do(function, do_receive, &c, True, source)
    r.request = c.request
    return r


cdef Request receive_nothing(Request r):
    r.known, r.message.note = True, BYTES
    r.message.source, r.message.tag, r.message.size = _sys.modules["mpi4py.MPI"].PROC_NULL, OF_ANY_TAG, 0
    r.ends()
    return r


cdef uint64_t room_of(Request r) noexcept:
    return <uint64_t>r.view.len if r.viewed else 0xffffffffffffffff


cdef Request receive_stray(Request r, Stray stray):
    # Where Ctrl-C interrupts it the stray is as it was, and its caller keeps it.
    cdef uint64_t n
    if not acp_note_fits(r.want, stray.envelope.note):
        stray_keep(stray)
        r.refused(&stray.envelope)
        r.ends()
        return r
    r.header = stray.header
    if stray.late is not None:
        r.number = stray.number
        r.request, stray.late.request = stray.late.request, NULL
        acp_request_into(r.request, r.view.buf if r.viewed else NULL, room_of(r))
        return r
    n = len(stray.data)
    header = stray.header = r.header_of(&stray.envelope)
    if comes_in_parts(header):
        r.gather(header)
    elif r.viewed:
        copy_bytes(r.view.buf, PyBytes_AS_STRING(stray.data), min(n, <uint64_t>r.view.len))
    if n < stray.envelope.size:
        cut_short(r, &stray.envelope, n)
    else:
        r.take(&stray.envelope, PyBytes_AS_STRING(stray.data), header)
    r.ends()
    return r


cdef bint ring_soon(const acp_envelope *want, acp_short *message, bint waits) noexcept:
    # A short message is in a ring, or comes there within a moment.
    cdef acp_engine *e = engine
    cdef int rc
    if acp_short_look(e, want, message):
        return True
    if not waits:
        return False
    rc = acp_short_soon(e, want, True)
    if rc == ACP_E_BUSY:
        acp_engine_enter(e)
        with nogil:
            rc = acp_short_soon(e, want, False)
        if engine != e:  # another thread may have finalized meanwhile
            rc = ACP_E_CLOSED
        acp_engine_exit(e)
    # A message that another receive has left meanwhile comes before it.
    return rc == ACP_OK and not strays and acp_short_look(e, want, message)


cdef bint taken_into(const Py_buffer *view, const acp_envelope *want, bint waits, Status status) except -1:
    # One that fits, and is not to be made into anything else.
    cdef acp_short m
    if not ring_soon(want, &m, waits and <uint64_t>view.len <= ACP_SHORT_MOST):
        return False
    if (m.envelope.size > <uint64_t>view.len or not acp_note_fits(want.note, m.envelope.note)
            or want.note and m.envelope.note & 15 == DESCRIBED):
        return False
    if not acp_short_take(&m, view.buf):
        return False
    if status is not None:
        status.fill(&m.envelope)
    return True


cdef Stray stray_of(const acp_envelope *m, const char *data):
    cdef Stray stray = Stray.__new__(Stray)
    stray.envelope, stray.data = m[0], raw_bytes_of(data, m.size)
    return stray


cdef object taken_out(str function, const acp_envelope *want, bint raw, bint waits, Status status):
    # A message's object; NOTHING_HERE. After Ctrl-C in unpickling the next receive gets the message.
    cdef acp_short m
    cdef char data[SHORT_MOST]
    cdef Stray stray
    if not ring_soon(want, &m, waits) or m.envelope.note & 15 == DESCRIBED or not acp_short_take(&m, data):
        return NOTHING_HERE
    if status is not None:
        status.fill(&m.envelope)
    if raw:
        return raw_bytes_of(data, m.envelope.size)
    try:
        return unpacked(&m.envelope, data, None)
    except Exception:
        raise
    except BaseException:
        stray = stray_of(&m.envelope, data)
        stray_keep(stray)
        stray_hand_on(stray, function)
        raise


cdef object received_at_once(str function, object buffer, acp_envelope *want, bint raw,
                             bint waits, Status status):
    cdef Py_buffer view
    if strays:
        return NOTHING_HERE
    if buffer is None:
        return taken_out(function, want, raw, waits, status)
    finish = plain_buffer(buffer, &view, True, function)
    try:
        want.note = 0 if raw else wanted_by(buffer, &view)
        need(function)  # the buffer may be of a class with Python code
        if finish is None and taken_into(&view, want, waits, status):
            return buffer
    finally:
        PyBuffer_Release(&view)
    return NOTHING_HERE


cdef Request receive_at_once(object array, int64_t source, int64_t tag):
    # A short message into an array that is here, or comes within a moment, needs no Request: None.
    cdef Py_buffer view
    cdef acp_envelope got
    cdef mail_call c
    cdef Request r
    try:
        PyObject_GetBuffer(array, &view, PyBUF_FORMAT | PyBUF_WRITABLE)
    except (BufferError, ValueError):
        return receive_begin("recv", array, OWN_CONTEXT, source, tag, False)
    c.request = NULL
    c.envelope.context, c.envelope.source, c.envelope.tag = OWN_CONTEXT, source, tag
    c.envelope.size, c.envelope.among = view.len, NULL
    if <uint64_t>view.len > ACP_SHORT_MOST or strchr(view.format, OBJECT) != NULL:
        PyBuffer_Release(&view)
        return receive_begin("recv", array, OWN_CONTEXT, source, tag, False)
    c.envelope.note = wanted_by(array, &view)
    if taken_into(&view, &c.envelope, True, None):
        PyBuffer_Release(&view)
        return None
    if engine == NULL:  # another thread has finalized meanwhile
        PyBuffer_Release(&view)
        no_engine("recv")
    if view.len > MAIL_SHORT or acp_receive(lane0, &c.envelope, view.buf, &c.request) != ACP_OK:
        PyBuffer_Release(&view)
        return receive_begin("recv", array, OWN_CONTEXT, source, tag, False)
    if (come(c.request) and acp_request_look(c.request, &got) == ACP_OK
            and (got.note & 15) in (BYTES, ARRAY) and got.size <= <uint64_t>view.len):
        acp_request_end(lane0, c.request, NULL)  # its bytes are here: it cannot fail
        PyBuffer_Release(&view)
        return None
    r = Request.__new__(Request)
    r.function, r.context, r.peer, r.tag = "recv", OWN_CONTEXT, source, tag
    r.request, r.view, r.viewed, r.result, r.want = c.request, view, True, array, c.envelope.note
    return r


cdef bint come(acp_request *request) noexcept:
    cdef acp_engine *e = engine
    cdef bint here = acp_request_done(request)
    if here:
        return True
    acp_engine_enter(e)
    with nogil:
        here = acp_request_soon(e, request)
    here = here and engine == e  # another thread may have finalized meanwhile
    acp_engine_exit(e)
    return here


cdef object receive_blocking(str function, object buffer, uint64_t context, int64_t source, int64_t tag,
                             bint raw, Status status, int64_t limit):
    cdef acp_envelope want
    want.context, want.source, want.tag = context, source, tag
    want.size, want.among = 0, NULL
    result = NOTHING_HERE if source == NOBODY else received_at_once(
        function, buffer, &want, raw, limit > MOMENT, status)
    if result is NOTHING_HERE:
        need(function)  # another thread may have finalized meanwhile
        result = received(receive_begin(function, buffer, context, source, tag, raw), status, limit)
    return result


cdef Request lasting(Request r):
    # The request goes on after the call that began it.
    if not r.over:
        r.goes_on()
    return r


cdef Status room_for(object status, str function):
    if status is None or isinstance(status, Status):
        return status
    raise TypeError(f"{function}: status={status!r:.60} is no Status of acp_mpi; give acp.Status()")


cdef object received(Request r, Status status, int64_t limit):
    if not r.over:
        request_block(r, limit)
    if status is not None and r.known:
        status.fill(&r.message)
    return r.outcome()


def recv(buffer: _Buffer = None, source: Int = ANY_SOURCE, tag: Int = ANY_TAG,
         status: Status | None = None,
         timeout: float | None = None) -> Any if buffer is None else _Buffer:
    """Receive a message from rank `source` under `tag`; return `buffer`, or what was sent.

    With a writable `buffer` its bytes are filled, TruncationError if the message is longer (the
    rest of it is lost). Without one returns the object, an array like the one that was sent, or the
    bytes of another buffer. Messages of one rank that fit come in the order of their sends.
    `status` is filled. Raises PeerLostError if that rank has died, TimeoutError after `timeout`
    seconds; no message is lost by that or by Ctrl-C. Where mpi4py is loaded its ANY_SOURCE and
    ANY_TAG mean the same; from its PROC_NULL nothing comes, and `buffer`, or None, is returned.
    """
    cdef int64_t limit = nanoseconds(timeout, "recv")
    if engine == NULL:
        no_engine("recv")
    cdef Request r
    cdef Status room = room_for(status, "recv")
    cdef int64_t s = source_of(source, "recv"), t = tag_of(tag, "recv", True)
    if ndarray_type is None and buffer is not None and type(buffer) is not bytearray:
        know_numpy()
    if (room is None and limit == ACP_FOREVER and not strays and s != NOBODY
            and ndarray_type is not None and type(buffer) is ndarray_type):
        r = receive_at_once(buffer, s, t)
        if r is None:
            return buffer
        return received(r, room, limit)
    return receive_blocking("recv", buffer, OWN_CONTEXT, s, t, False, room, limit)


def irecv(buffer: _Buffer = None, source: Int = ANY_SOURCE,
          tag: Int = ANY_TAG) -> Request[Any] if buffer is None else Request[_Buffer]:
    """Start receiving as `recv` does; returns a Request with a `wait` that returns the message."""
    if engine == NULL:
        no_engine("irecv")
    return lasting(receive_begin("irecv", buffer, OWN_CONTEXT, source_of(source, "irecv"),
                                 tag_of(tag, "irecv", True), False))


def sendrecv(x, dest: Int, sendtag: Int = 0, buffer: _Buffer = None, source: Int = ANY_SOURCE,
             recvtag: Int = ANY_TAG, status: Status | None = None,
             timeout: float | None = None) -> Any if buffer is None else _Buffer:
    """Send `x` and receive, neither before the other; returns what `recv` does."""
    cdef Request sending, receiving
    cdef Status room = room_for(status, "sendrecv")
    cdef int64_t end = end_of(nanoseconds(timeout, "sendrecv"))
    if engine == NULL:
        no_engine("sendrecv")
    receiving = receive_begin("sendrecv", buffer, OWN_CONTEXT, source_of(source, "sendrecv"),
                              tag_of(recvtag, "sendrecv", True), False)
    try:
        sending = post("sendrecv", x, dest, sendtag, False, timeout, receiving)
        if sending is not None:
            request_block(sending, left_until(end))
            sending.outcome()
    except BaseException:
        request_give_up(receiving)
        raise
    return received(receiving, room, left_until(end))
