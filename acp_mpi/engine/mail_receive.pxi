# Receives: posted where senders find them.

DEF MAIL_SHORT = 256  # bytes that come with their envelope


cdef Request receive_new(str function, object buffer, uint64_t context, int64_t source,
                         int64_t tag, bint raw):
    cdef Request r = Request.__new__(Request)
    r.function, r.context, r.peer, r.tag, r.raw = function, context, source, tag, raw
    if buffer is not None:
        r.finish = plain_buffer(buffer, &r.view, True, function)
        r.viewed = True
        r.result = buffer
        need(function)  # the buffer may be of a class with Python code
    return r


cdef Request receive_begin(str function, object buffer, uint64_t context, int64_t source,
                           int64_t tag, bint raw, Sources among=None):
    cdef mail_call c
    cdef Request r = receive_new(function, buffer, context, source, tag, raw)
    cdef Stray stray = stray_find(context, source, tag, True) if strays else None
    if stray is not None:
        try:
            return receive_stray(r, stray)
        except BaseException:
            stray_keep(stray)
            raise
    c.envelope.context, c.envelope.source, c.envelope.tag = context, source, tag
    c.envelope.size, c.room = room_of(r), r.view.buf if r.viewed else NULL
    c.envelope.among = held_by(among)
    mail_do(function, do_receive, &c, True, source)
    r.request = c.request
    return r


cdef uint64_t room_of(Request r) noexcept:
    return <uint64_t>r.view.len if r.viewed else 0xffffffffffffffff


cdef Request receive_stray(Request r, Stray stray):
    # Where Ctrl-C interrupts it the stray is as it was, and its caller keeps it.
    cdef uint64_t n
    r.header = stray.header
    if stray.late is not None:
        r.number = stray.number
        r.request, stray.late.request = stray.late.request, NULL
        acp_request_into(r.request, r.view.buf if r.viewed else NULL, room_of(r))
        return r
    n = len(stray.data)
    header = stray.header = r.header_of(&stray.envelope)
    if r.viewed:
        copy_bytes(r.view.buf, PyBytes_AS_STRING(stray.data), min(n, <uint64_t>r.view.len))
    if n < stray.envelope.size:
        cut_short(r, &stray.envelope, n)
    else:
        r.take(&stray.envelope, PyBytes_AS_STRING(stray.data), header)
    r.ends()
    return r


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
    if view.len > MAIL_SHORT or strchr(view.format, OBJECT) != NULL or acp_receive(
            lane0, &c.envelope, view.buf, &c.request) != ACP_OK:
        PyBuffer_Release(&view)
        return receive_begin("recv", array, OWN_CONTEXT, source, tag, False)
    if (come(c.request) and acp_request_look(c.request, &got) == ACP_OK
            and (got.note & 15) in (BYTES, ARRAY) and got.size <= <uint64_t>view.len):
        acp_request_end(lane0, c.request, NULL)  # its bytes are here: it cannot fail
        PyBuffer_Release(&view)
        return None
    r = Request.__new__(Request)
    r.function, r.context, r.peer, r.tag = "recv", OWN_CONTEXT, source, tag
    r.request, r.view, r.viewed, r.result = c.request, view, True, array
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


cdef Request lasting(Request r):
    # It outlives the call that began it.
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


def recv(buffer=None, source=ANY_SOURCE, tag=ANY_TAG, status=None, timeout=None):
    """Receive a message from rank `source` under `tag`; return `buffer`, or what was sent.

    With a writable `buffer` its bytes are filled, TruncationError if the message is longer (the
    rest of it is lost). Without one returns the object, an array like the one that was sent, or the
    bytes of another buffer. Messages of one rank that fit come in the order of their sends.
    `status` is filled. Raises PeerLostError if that rank has died, TimeoutError after `timeout`
    seconds; no message is lost by that or by Ctrl-C.
    """
    cdef int64_t limit = nanoseconds(timeout, "recv")
    if engine == NULL:
        no_engine("recv")
    cdef Request r
    cdef Status room = room_for(status, "recv")
    cdef int64_t s = source_of(source, "recv"), t = tag_of(tag, "recv", True)
    if ndarray_type is None:
        know_numpy()
    if (room is None and limit == ACP_FOREVER and not strays and ndarray_type is not None
            and type(buffer) is ndarray_type):
        r = receive_at_once(buffer, s, t)
        if r is None:
            return buffer
    else:
        r = receive_begin("recv", buffer, OWN_CONTEXT, s, t, False)
    return received(r, room, limit)


def irecv(buffer=None, source=ANY_SOURCE, tag=ANY_TAG):
    """Start receiving as `recv` does; returns a Request, whose `wait` returns the message."""
    if engine == NULL:
        no_engine("irecv")
    return lasting(receive_begin("irecv", buffer, OWN_CONTEXT, source_of(source, "irecv"),
                                 tag_of(tag, "irecv", True), False))


def sendrecv(x, dest, sendtag=0, buffer=None, source=ANY_SOURCE, recvtag=ANY_TAG,
             status=None, timeout=None):
    """Send `x` and receive, neither before the other; returns what `recv` does."""
    cdef Request sending, receiving
    cdef Status room = room_for(status, "sendrecv")
    cdef int64_t end = end_of(nanoseconds(timeout, "sendrecv"))
    if engine == NULL:
        no_engine("sendrecv")
    receiving = receive_begin("sendrecv", buffer, OWN_CONTEXT, source_of(source, "sendrecv"),
                              tag_of(recvtag, "sendrecv", True), False)
    try:
        sending = post("sendrecv", x, dest, sendtag, False)
        if sending is not None:
            request_block(sending, left_until(end))
            sending.outcome()
    except BaseException:
        request_give_up(receiving)
        raise
    return received(receiving, room, left_until(end))
