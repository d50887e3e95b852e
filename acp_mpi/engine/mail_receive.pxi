# Receives: posted where senders find them.


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
                           int64_t tag, bint raw):
    cdef mail_call c
    cdef Request r = receive_new(function, buffer, context, source, tag, raw)
    cdef Stray stray = stray_find(context, source, tag, True) if strays else None
    if stray is not None:
        return receive_stray(r, stray)
    c.envelope.context, c.envelope.source, c.envelope.tag = context, source, tag
    c.envelope.size, c.room = room_of(r), r.view.buf if r.viewed else NULL
    mail_do(function, do_receive, &c, True, source)
    r.request = c.request
    return r


cdef uint64_t room_of(Request r) noexcept:
    return <uint64_t>r.view.len if r.viewed else 0xffffffffffffffff


cdef Request receive_stray(Request r, Stray stray):
    cdef uint64_t n = len(stray.data)
    try:
        header = r.header_of(&stray.envelope)
    except BaseException:
        strays.insert(0, stray)
        raise
    if r.viewed:
        copy_bytes(r.view.buf, PyBytes_AS_STRING(stray.data), min(n, <uint64_t>r.view.len))
    r.take(&stray.envelope, PyBytes_AS_STRING(stray.data), header)
    r.ends()
    return r


cdef Request lasting(Request r):
    # It outlives the call that began it.
    if not r.over:
        r.goes_on()
    return r


cdef object received(Request r, Status status, int64_t limit):
    if not r.over:
        r.block(limit)
    if status is not None and r.known:
        status.fill(&r.message)
    return r.outcome()


def recv(buffer=None, source=ANY_SOURCE, tag=ANY_TAG, Status status=None, timeout=None):
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
    return received(receive_begin("recv", buffer, OWN_CONTEXT, source_of(source, "recv"),
                                  tag_of(tag, "recv", True), False), status, limit)


def irecv(buffer=None, source=ANY_SOURCE, tag=ANY_TAG):
    """Start receiving as `recv` does; returns a Request, whose `wait` returns the message."""
    if engine == NULL:
        no_engine("irecv")
    return lasting(receive_begin("irecv", buffer, OWN_CONTEXT, source_of(source, "irecv"),
                                 tag_of(tag, "irecv", True), False))


def sendrecv(x, dest, sendtag=0, buffer=None, source=ANY_SOURCE, recvtag=ANY_TAG,
             Status status=None, timeout=None):
    """Send `x` and receive, neither before the other; returns what `recv` does."""
    cdef Request sending, receiving
    cdef int64_t limit = nanoseconds(timeout, "sendrecv")
    if engine == NULL:
        no_engine("sendrecv")
    receiving = receive_begin("sendrecv", buffer, OWN_CONTEXT, source_of(source, "sendrecv"),
                              tag_of(recvtag, "sendrecv", True), False)
    try:
        sending = post("sendrecv", x, dest, sendtag, False)
        if sending is not None:
            sending.block(limit)
            sending.outcome()
    except BaseException:
        receiving.give_up()
        raise
    return received(receiving, status, limit)
