# Messages that came while Ctrl-C ended their receive: the next receive's.

cdef list strays = []
cdef uint64_t stray_count = 0


cdef class Request


cdef class Stray:
    """A message that no receive has taken, with its bytes, or as a request that brings them."""
    cdef acp_envelope envelope
    cdef bytes data
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
