# Messages of the library itself: bytes with a note, in a context that users' messages never meet.


def transfer_isend(str function, data, dest: int, tag: int, context: int,
                   note: int = 0) -> Request | None:
    """Start sending a buffer as bytes in `context`; returns a Request, None if that was all."""
    cdef payload p
    cdef uint32_t d
    cdef int64_t t
    need(function)
    d = mail_rank(dest, function)
    t = tag_of(tag, function, False)
    p.viewed = False
    try:
        keep = raw_payload(data, &p, function)
        p.note = note
        return post_payload(function, &p, keep, d, t, context, False)
    finally:
        unpack_nothing(&p)


def transfer_soon(str function, buffer, source: int, tag: int, context: int, Status status) -> Any:
    """Receive short bytes in `context` that are here, or come within a moment; None: there are none.

    Returns `buffer`, or bytes without one, and fills `status`. What does not fit stays.
    """
    cdef acp_envelope want
    need(function)
    want.context, want.source, want.tag = context, source_of(source, function), tag_of(tag, function, True)
    want.size, want.among = 0, NULL
    result = received_at_once(function, buffer, &want, True, True, status)
    return None if result is NOTHING_HERE else result


def transfer_irecv(str function, buffer, source: int, tag: int, context: int,
                   Sources among=None) -> Request:
    """Start receiving bytes in `context`; returns a Request.

    From any source it ends with PeerLostError when one of `among` dies; without, any rank.
    """
    need(function)
    return lasting(receive_begin(function, buffer, context, source_of(source, function),
                                 tag_of(tag, function, True), True, among))


def transfer_give_up(Request request) -> None:
    """Leave the message of a receive, if one has come already, to the next receive."""
    request_give_up(request)


def transfer_end(context: int) -> None:
    """Drop what is here of `context`, or still comes, and has no receive that is posted already."""
    if engine != NULL:
        strays[:] = [stray for stray in strays if (<Stray>stray).envelope.context != context]
        acp_context_ends(engine, context)


def transfer_probe(str function, source: int, tag: int, context: int, wait: bool, take: bool,
                   timeout: float | None = None, Sources among=None) -> Any:
    """Look for a message in `context`: its Status, or with `take` a Message; None: none now.

    `among` as for `transfer_irecv`.
    """
    need(function)
    return look_for(function, context, source_of(source, function), tag_of(tag, function, True),
                    wait, take, True, timeout, among)
