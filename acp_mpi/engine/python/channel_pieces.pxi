# Messages of a channel in pieces of a slot: as they are sent, from memory of the host or as they leave a device, and as
# they come.

cdef int channel_push(Channel c, const char *data, uint64_t n, int64_t limit) except -1:
    cdef int64_t end = end_of(limit) if limit else 0
    cdef int rc = channel_open_slot(c, limit)
    if n >= ACP_CHANNEL_LONG and not acp_channel_is_far(c.end):
        with nogil:
            rc = acp_channel_send_into(c.end, data, n)
        if rc != ACP_E_HANDLE:
            acp_channel_give_turn(c.end)
            return c.failed("send", rc)
    rc = channel_push_pieces(c, data, n, n, True, limit, end)
    acp_channel_give_turn(c.end)
    return c.failed("send", rc)


cdef int channel_push_parts(Channel c, object parts, int64_t limit) except -1:
    # Of one message, as they leave a device.
    cdef int64_t end = end_of(limit) if limit else 0
    cdef uint64_t left = parts.side[2], n
    cdef int rc = channel_open_slot(c, limit)
    cdef bint first = True
    try:
        for room, size in parts.each():
            n = size
            rc = channel_push_pieces(c, <char *>(<Block>room).memory, n, left, first, limit, end)
            parts.back(room)
            left -= n
            first = False
            if rc != ACP_OK:
                break
    finally:
        acp_channel_give_turn(c.end)
    return c.failed("send", rc)


cdef int channel_open_slot(Channel c, int64_t limit) except -1:
    # A free one; and the turn.
    cdef int rc = acp_channel_open(c.end, ACP_CHANNEL_GLANCE if limit else 0)
    if rc == ACP_E_TIMEOUT and limit:
        with nogil:
            rc = acp_channel_open(c.end, limit)
    return c.failed("send", rc)


cdef int channel_push_pieces(Channel c, const char *data, uint64_t n, uint64_t rest, bint first, int64_t limit, int64_t end):
    # The next `n` bytes of a message of which `rest` are to come.
    cdef uint64_t at = 0, part
    cdef int rc = ACP_OK
    cdef bint far = acp_channel_is_far(c.end)
    while True:
        if not first:
            rc = acp_channel_await(c.end, ACP_CHANNEL_READY, 0)
            if rc == ACP_E_TIMEOUT and limit:
                limit = left_until(end)
                with nogil:
                    rc = acp_channel_await(c.end, ACP_CHANNEL_READY, limit)
            if rc != ACP_OK:
                return rc
        part = min(c.size, n - at)
        if far:
            limit = left_until(end) if limit else 0
        if far or part > SMALL:
            with nogil:
                rc = acp_channel_commit(c.end, data + at, part, rest - at, first, limit)
        else:
            rc = acp_channel_commit(c.end, data + at, part, rest - at, first, limit)
        first = False
        at += part
        if at >= n or rc != ACP_OK:
            return rc


cdef int channel_gather(Channel c, str function, int64_t limit, acp_piece *p, Py_buffer *into=NULL,
                object finish=None) except -1:
    # The next message, with the turn: True: whole in its slot, or in the buffer; False: it was longer than a slot, and
    # is in `gathered`.
    cdef int64_t end = end_of(limit) if limit else 0
    cdef bint long_one = into != NULL and <uint64_t>into.len >= ACP_CHANNEL_LONG
    if finish is not None and long_one:  # in pieces, if its parts may go to a device meanwhile
        long_one = mail_payload().filling(function, finish, into.len, c.size) is None
    cdef int rc
    c.demand(function, False)
    rc = acp_channel_take(c.end, ACP_CHANNEL_GLANCE if limit and not long_one else 0, p)
    if rc == ACP_E_TIMEOUT and limit:
        with nogil:
            if long_one:
                rc = acp_channel_take_into(c.end, into.buf, into.len, limit, p)
            else:
                rc = acp_channel_take(c.end, limit, p)
    c.failed(function, rc)
    c.half = False
    try:
        while True:
            if p.first and (p.rest <= c.size or (long_one and p.data == into.buf)):
                c.gathered = None
                return True
            channel_add_piece(c, function, p, finish)
            if c.gathered is not None and c.filled == <uint64_t>len(c.gathered):
                return False
            rc = acp_channel_take_next(c.end, 0, p)
            if rc == ACP_E_TIMEOUT and limit:
                limit = left_until(end)
                with nogil:
                    rc = acp_channel_take_next(c.end, limit, p)
            c.failed(function, rc)
    except BaseException:
        whole, c.gathered = c.gathered, None
        try:
            if whole is not None:
                c.gathered = whole if type(whole) is bytearray else whole.kept()
        finally:
            c.half = c.gathered is not None
            acp_channel_give_turn(c.end)
        raise


cdef int channel_add_piece(Channel c, str function, acp_piece *p, object finish) except -1:
    # Pieces of a message whose sender has given up, and begun another, are dropped.
    try:
        if p.first:
            c.gathered, c.filled = None, 0
            if finish is not None:
                c.gathered = mail_payload().filling(function, finish, p.rest, c.size)
            if c.gathered is None:
                c.gathered = bytearray(p.rest)
        if c.gathered is not None and len(c.gathered) - c.filled == p.rest:
            if type(c.gathered) is bytearray:
                copy_bytes(PyByteArray_AS_STRING(c.gathered) + c.filled, p.data, p.size)
            else:
                c.gathered.add(PyMemoryView_FromMemory(<char *>p.data, p.size, PyBUF_READ))
            c.filled += p.size
    finally:
        acp_channel_release(c.end, p.number)
    return 0
