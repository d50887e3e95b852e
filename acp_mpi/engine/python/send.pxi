# Sends: the bytes are on their way, or kept for the receiver, when the engine returns.


cdef Request under_way(str function, payload *p, object keep, const mail_call *c):
    # A request that owns the payload's buffer from now on.
    cdef Request r = Request.__new__(Request)
    r.function, r.context, r.peer, r.tag = function, c.envelope.context, c.dest, c.envelope.tag
    r.sends = True
    if c.request == NULL:
        r.over = True
        return r
    r.request, r.keep = c.request, keep
    if p.viewed:  # else there is nothing in it that a collection of garbage may look at
        r.view, r.viewed = p.view, True
        p.viewed = False
    r.goes_on()
    return r


cdef Request over_at_once(str function, int64_t tag, bint sends):
    # A request with NOBODY.
    cdef Request r = Request.__new__(Request)
    r.function, r.peer, r.tag, r.sends, r.over = function, NOBODY, tag, sends, True
    return r


cdef Request post_payload(str function, payload *p, object keep, uint32_t dest, int64_t tag,
                         uint64_t context, bint wanted):
    # None: it is done, and no request was wanted. The viewed part of the payload stays the caller's
    # unless a request takes it over.
    cdef mail_call c
    c.dest, c.data = dest, p.data
    c.envelope.context, c.envelope.tag = context, tag
    c.envelope.size, c.envelope.note = p.size, p.note
    if p.size <= ACP_SHORT_MOST and acp_send_short(lane0, dest, &c.envelope, p.data):
        c.request = NULL
    else:
        mail_do(function, do_send, &c, p.size <= SMALL, dest)
    if c.request == NULL and not wanted:
        return None
    return under_way(function, p, keep, &c)


cdef int announce(str function, bytes header, object parts, uint64_t number, uint32_t dest) except -1:
    # How the array of the next message looks; small, so that it goes at once or by itself. Its note says how many bytes
    # follow in parts.
    cdef payload p
    keep = raw_payload(header, &p, function)
    if parts is not None:
        p.note = <uint64_t>parts.size << 4 | BYTES
    post_payload(function, &p, keep, dest, number, OWN_CONTEXT | HEADERS, False)
    return 0


cdef class LeavingRequest(Request):  # type: Request[_T_co]
    """An `isend` in parts: in the engine, the receive of what the thread that sends them tells this rank in the end."""

    cdef int sent(self) except -1:
        self.end_it(NULL)
        if self.error is None:
            self.error = self.keep.failure
        return self.ends()

    cdef bint withdraw(self) except -1:
        return False


cdef Request leave_in_parts(str function, object parts, object head, tuple place, int64_t tag):
    global last_header
    cdef LeavingRequest r = LeavingRequest.__new__(LeavingRequest)
    cdef Request told
    last_header += 1
    own, number, context = acp_rank(engine), last_header & 0x7ffff, OWN_CONTEXT | HEADERS
    told = receive_begin(function, None, context, own, number, True)
    try:
        parts.start(head, place, (own, number, context))
    except BaseException:
        request_give_up(told)
        raise
    r.function, r.context, r.peer, r.tag, r.sends, r.keep = function, OWN_CONTEXT, place[0], tag, True, parts
    r.request, told.request = told.request, NULL
    r.goes_on()
    return r


cdef class Meanwhile:
    """Takes what has come of the message that a receive has met, if it comes in parts."""
    cdef Request r

    def __call__(self) -> None:
        self.r.gather_some()

    @property
    def side(self) -> tuple | None:
        """Where in device memory it goes."""
        return getattr(self.r.finish, "side", None)


cdef Meanwhile meanwhile(Request r):
    cdef Meanwhile m
    if r is None:
        return None
    m = Meanwhile.__new__(Meanwhile)
    m.r = r
    return m


cdef Request post(str function, object x, object dest, object tag, bint wanted, object timeout=None,
                  Request beside=None):
    # `beside`: a receive of the same call.
    cdef payload p
    cdef int64_t d, t
    if engine == NULL:
        no_engine(function)
    d = dest_of(dest, function)
    t = tag_of(tag, function, False)
    if d == NOBODY:
        return over_at_once(function, t, True) if wanted else None
    p.viewed = False
    try:
        keep = pack(x, &p, function)
        if p.note & 15 == DESCRIBED:
            announce(function, keep[1], keep[2], p.note >> 4, d)
            if keep[2] is not None:
                head = post_payload(function, &p, keep, d, t, OWN_CONTEXT, False)
                place = d, p.note >> 4, OWN_CONTEXT | HEADERS
                if wanted:
                    return leave_in_parts(function, keep[2], head, place, t)
                keep[2].go(head, place, timeout, meanwhile(beside))
                return None
        return post_payload(function, &p, keep, d, t, OWN_CONTEXT, wanted)
    finally:
        unpack_nothing(&p)


def send(x, dest: Int, tag: Int = 0, timeout: float | None = None) -> None:
    """Send `x` to rank `dest` under `tag`, an integer from 0; returns without waiting for `recv`.

    A buffer, also one with `__array_interface__` or `__dlpack__`, travels as its bytes, packed if it is not
    contiguous, anything else pickled; `x` may be changed when it returns. Waits only for a receiver
    that has no room for more (`ACP_UNEXPECTED_MAX`) while there is none here either: TimeoutError
    after `timeout` seconds. RankError; PeerLostError if that rank has died.
    """
    cdef int64_t limit = nanoseconds(timeout, "send")
    cdef Request r = post("send", x, dest, tag, False, timeout)
    if r is not None:
        request_block(r, limit)
        r.outcome()


def isend(x, dest: Int, tag: Int = 0) -> Request[None]:
    """Start sending `x` as `send` does; returns a Request. A buffer must not change before it is done."""
    return post("isend", x, dest, tag, True)
