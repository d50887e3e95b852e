# Messages of the library itself: bytes with a note, in a context that users' messages never meet.


cdef Request transfer_post(str function, object data, object dest, object tag, object context,
                           object note, bint wanted):
    cdef parcel p
    cdef uint32_t d
    cdef int64_t t
    need(function)
    d = mail_rank(dest, function)
    t = tag_of(tag, function, False)
    p.viewed = False
    try:
        keep = raw_parcel(data, &p, function)
        p.note = note
        return post_parcel(function, &p, keep, d, t, context, wanted)
    finally:
        unpack_nothing(&p)


def transfer_send(str function, data, dest, tag, context, note=0, timeout=None):
    """Send a buffer as bytes in `context`; as `send` otherwise."""
    cdef int64_t limit = nanoseconds(timeout, function)
    cdef Request r = transfer_post(function, data, dest, tag, context, note, False)
    if r is not None:
        request_block(r, limit)
        r.outcome()


def transfer_isend(str function, data, dest, tag, context, note=0):
    """Start sending a buffer as bytes in `context`; returns a Request."""
    return transfer_post(function, data, dest, tag, context, note, True)


cdef Request transfer_begin(str function, object buffer, object source, object tag,
                            object context, Sources among):
    need(function)
    return receive_begin(function, buffer, context, source_of(source, function),
                         tag_of(tag, function, True), True, among)


def transfer_recv(str function, buffer, source, tag, context, Status status=None,
                  timeout=None):
    """Receive bytes in `context`; returns `buffer`, or bytes without one. Fills `status`."""
    cdef int64_t limit = nanoseconds(timeout, function)
    need(function)
    return receive_blocking(function, buffer, context, source_of(source, function),
                            tag_of(tag, function, True), True, status, limit)


def transfer_irecv(str function, buffer, source, tag, context, Sources among=None):
    """Start receiving bytes in `context`; returns a Request.

    From any source it ends with PeerLostError when one of `among` dies; without, any rank.
    """
    return lasting(transfer_begin(function, buffer, source, tag, context, among))


def transfer_give_up(Request request):
    """Leave the message of a receive, if one has come already, to the next receive."""
    request_give_up(request)


def transfer_end(context):
    """Drop what is here of `context`, or still comes, and has no receive that is posted already."""
    if engine != NULL:
        strays[:] = [stray for stray in strays if (<Stray>stray).envelope.context != context]
        acp_context_ends(engine, context)


def transfer_probe(str function, source, tag, context, wait, take, timeout=None,
                   Sources among=None):
    """Look for a message in `context`: its Status, or with `take` a Message; None: none now.

    `among` as for `transfer_irecv`.
    """
    need(function)
    return look_for(function, context, source_of(source, function), tag_of(tag, function, True),
                    wait, take, True, timeout, among)
