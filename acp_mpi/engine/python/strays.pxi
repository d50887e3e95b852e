# Blocking calls: what Ctrl-C ends leaves its message, if one has come, to the next receive.

cdef list strays = []
cdef uint64_t stray_count = 0


cdef class Stray:
    """A message that no receive has taken, with its bytes, or as a request that brings them."""
    cdef acp_envelope envelope
    cdef bytes data
    cdef object header  # how its array looks, if that has been received
    cdef Request late
    cdef uint64_t number  # in the order in which they came


cdef bint stray_fits(Stray stray, uint64_t context, int64_t source, int64_t tag) noexcept:
    return (stray.envelope.context == context
            and (source == ACP_ANY or source == stray.envelope.source)
            and (tag == ACP_ANY or tag == stray.envelope.tag))


cdef Stray stray_find(uint64_t context, int64_t source, int64_t tag, bint take):
    cdef Stray stray
    for i in range(len(strays)):
        stray = strays[i]
        if stray_fits(stray, context, source, tag):
            return strays.pop(i) if take else stray
    return None


cdef int stray_keep(Stray stray) except -1:
    # In the order in which they came, also if a receive had taken it and was interrupted, too.
    global stray_count
    cdef Py_ssize_t at = len(strays)
    if not stray.number:
        stray_count += 1
        stray.number = stray_count
    while at and (<Stray>strays[at - 1]).number > stray.number:
        at -= 1
    strays.insert(at, stray)
    return 0


cdef int stray_hand_on(Stray stray, str function) except -1:
    # To a receive of another thread, or of another request, that has waited for it meanwhile.
    cdef mail_call c
    cdef payload p
    if stray.data is None or stray.header is not None or len(stray.data) < stray.envelope.size:
        return 0
    c.envelope, c.dest = stray.envelope, stray.envelope.source
    c.data = PyBytes_AS_STRING(stray.data)
    p.viewed = False
    strays.remove(stray)
    try:
        met = mail_do(function, do_hand_on, &c, True, stray.envelope.source)
    except BaseException:
        stray_keep(stray)
        raise
    if not met:
        return stray_keep(stray)
    if c.request != NULL:
        under_way(function, &p, stray.data, &c)
    return 0


cdef int request_block(Request r, int64_t limit) except -1:
    # As settle, but nothing of it is left if it fails; no message is lost.
    try:
        if not r.settle(limit):
            if r.withdraw():
                raise r.late()
            r.settle(ACP_FOREVER)  # it has met its other half
    except BaseException:
        request_give_up(r)
        raise
    return 0


cdef int request_give_up(Request r) except -1:
    # An exception ends the call that began it.
    if engine == NULL or r.over or r.withdraw() or r.over:
        return 0
    return 0 if r.sends else to_the_next(r)


cdef Request left_behind(Request r):
    # Another request for the message, which no call waits for yet, and the buffer is free.
    cdef Request late = Request.__new__(Request)
    late.function, late.context, late.peer, late.tag = r.function, r.context, r.peer, r.tag
    late.request, r.request = r.request, NULL
    acp_request_into(late.request, NULL, 0)
    late.home = engine
    acp_engine_hold(engine)
    return late


cdef object arrive(Request r):
    # Until its bytes are here, whatever comes: they go to a buffer that is its caller's again
    # when the call has ended. Returns what a signal handler has raised meanwhile.
    cdef int rc = r.attend(ACP_FOREVER)
    raised = None
    while rc == ACP_E_INTERRUPTED:
        try:
            ended(r.function, rc)
        except BaseException as error:
            raised = error
        rc = r.attend(ACP_FOREVER)
    ended(r.function, rc)
    return raised


cdef int to_the_next(Request r) except -1:
    # Ctrl-C came when the message had: it is for the next receive.
    cdef Stray stray
    raised = arrive(r)
    if comes_in_parts(r.header):
        r.header.leave(r.function)
    stray = untaken(r)
    if stray is not None:
        stray.envelope, stray.number, stray.header = r.message, r.number, r.header
        stray_keep(stray)
        stray_hand_on(stray, r.function)
    r.ends()
    if raised is not None:
        raise raised
    return 0


cdef Stray untaken(Request r):
    # The message that has come, unless it has been taken; None if there is none.
    cdef Stray stray = Stray.__new__(Stray)
    cdef const char *data
    if r.request == NULL:  # Ctrl-C came while the view was brought to the buffer
        return of_view(r, stray) if r.known else None
    if acp_request_look(r.request, &r.message) != ACP_OK:
        return None
    if acp_request_pulls(r.request) and not acp_request_brought(r.request):
        stray.late = left_behind(r)
        return stray
    if r.viewed:
        ok = r.end_it(&r.message) in (ACP_OK, ACP_E_TRUNCATED)
        return of_view(r, stray) if ok else None
    data = r.bytes_of_it()
    if data == NULL:
        return None
    stray.data = raw_bytes_of(data, r.message.size)
    return stray


cdef Stray of_view(Request r, Stray stray):
    stray.data = raw_bytes_of(<const char *>r.view.buf,
                              min(r.message.size, <uint64_t>r.view.len))
    return stray


cdef int cut_short(Request r, const acp_envelope *got, uint64_t n) except -1:
    # As take, of a message for which the receive that Ctrl-C has ended had room for `n` bytes.
    r.known, r.message = True, got[0]
    try:
        if r.finish is not None:
            r.finish(min(n, <uint64_t>r.view.len))
        raise _errors.TruncationError(
            f"{r.function}: the message {whom(False, got.source, got.tag)} has {got.size} "
            f"bytes and came when a receive into a buffer of {n} was interrupted; the rest is "
            "gone: ask probe for the size, or receive without a buffer")
    except Exception as error:
        r.error = error
    return 0
