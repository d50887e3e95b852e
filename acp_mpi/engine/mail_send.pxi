# Sends: the bytes are on their way, or kept for the receiver, when the engine returns.


cdef int dispatch(str function, uint32_t dest, const acp_envelope *envelope, const void *data,
                  acp_request **request) except -1:
    # A lane of its own waits for the lock of the mailbox; the caller's does not.
    cdef int rc = ACP_E_BUSY
    cdef acp_lane *lane
    if envelope.size <= SMALL:
        rc = acp_send(lane0, dest, envelope, data, request)
    while rc == ACP_E_BUSY:
        lane = acp_lane_take(engine)
        if lane == NULL:
            wait_for_room(function)
            rc = acp_send(lane0, dest, envelope, data, request)
        else:
            with nogil:
                rc = acp_send(lane, dest, envelope, data, request)
            acp_lane_give(lane)
            need(function)
    if rc != ACP_OK:
        raise message_error(function, rc, dest)
    return 0


cdef Request under_way(str function, parcel *p, object keep, acp_request *request,
                       const acp_envelope *envelope, uint32_t dest):
    # A request that owns the parcel's buffer from now on.
    cdef Request r = Request.__new__(Request)
    r.function, r.context, r.peer, r.tag = function, envelope.context, dest, envelope.tag
    r.sends = True
    if request == NULL:
        r.over = True
        return r
    r.request, r.keep = request, keep
    r.view, r.viewed = p.view, p.viewed
    p.viewed = False
    r.goes_on()
    return r


cdef Request post_parcel(str function, parcel *p, object keep, uint32_t dest, int64_t tag,
                         uint64_t context, bint wanted):
    # None: it is done, and no request was wanted. What of the parcel is viewed stays the caller's
    # unless a request takes it over.
    cdef acp_envelope envelope
    cdef acp_request *request = NULL
    envelope.context, envelope.source, envelope.tag = context, acp_rank(engine), tag
    envelope.size, envelope.note = p.size, p.note
    dispatch(function, dest, &envelope, p.data, &request)
    if request == NULL and not wanted:
        return None
    return under_way(function, p, keep, request, &envelope, dest)


cdef int announce(str function, bytes header, uint64_t number, uint32_t dest,
                  uint64_t context) except -1:
    # How the array of the next message looks; small, so that it goes at once or by itself.
    cdef parcel p
    keep = raw_parcel(header, &p, function)
    post_parcel(function, &p, keep, dest, number, context | HEADERS, False)
    return 0


cdef Request post(str function, object x, object dest, object tag, bint wanted):
    cdef parcel p
    cdef uint32_t d
    cdef int64_t t
    if engine == NULL:
        no_engine(function)
    d = mail_rank(dest, function)
    t = tag_of(tag, function, False)
    p.viewed = False
    try:
        keep = pack(x, &p, function)
        if p.note & 15 == DESCRIBED:
            announce(function, keep[1], p.note >> 4, d, OWN_CONTEXT)
        return post_parcel(function, &p, keep, d, t, OWN_CONTEXT, wanted)
    finally:
        unpack_nothing(&p)


def send(x, dest, tag=0, timeout=None):
    """Send `x` to rank `dest` under `tag`, an integer from 0; returns without waiting for `recv`.

    What has the buffer protocol or `__array_interface__` travels as its bytes, packed if it is not
    contiguous, anything else pickled; `x` may be changed when it returns. Waits only for a receiver
    that has no room for more (`ACP_UNEXPECTED_MAX`) while there is none here either: TimeoutError
    after `timeout` seconds. RankError; PeerLostError if that rank has died.
    """
    cdef Request r = post("send", x, dest, tag, False)
    if r is not None:
        r.block(nanoseconds(timeout, "send"))
        r.outcome()


def isend(x, dest, tag=0):
    """Start sending `x` as `send` does; returns a Request. A buffer must not change before it."""
    return post("isend", x, dest, tag, True)
