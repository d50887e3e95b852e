# A wait for the first of several requests and collectives.

def wait_any(str function, requests: Sequence[Request], collectives: Sequence[Collective],
             timeout: float | None = None) -> None:
    """Wait until one of the engine's is done, or a collective has something for Python to do.

    TimeoutError after `timeout` seconds. A collective cannot end meanwhile: its request's lock.
    """
    need(function)
    cdef uint32_t count = len(requests), collective_count = len(collectives), i
    cdef int64_t limit = nanoseconds(timeout, function)
    cdef acp_engine *e
    cdef acp_request **all
    cdef acp_collective **together
    cdef Collective one
    cdef Request r
    cdef int rc
    cdef acp_awaited awaited
    for r in requests:
        if r.here():
            return
    for one in collectives:
        if one.under_way == NULL:
            return
    all = <acp_request **>c_malloc((count + collective_count) * sizeof(void *) + 1)
    if all == NULL:
        raise MemoryError
    together = <acp_collective **>(all + count)
    for i in range(collective_count):
        one = collectives[i]
        together[i] = one.under_way
    for i in range(count):
        r = requests[i]
        all[i] = r.request
        r.waiting += 1
    names = [str(r) for r in requests[:4]] + [one.function for one in collectives[:4]]
    what = f"{function} for {', '.join(names)}"
    e = hold(function)
    begin_to_await(&awaited, what, all, count)
    with nogil:
        rc = acp_wait_any(e, all, count, together, collective_count, limit)
    end_awaiting(&awaited)
    acp_engine_exit(e)
    c_free(all)
    for r in requests:
        r.waiting -= 1
    if rc == ACP_E_TIMEOUT:
        raise TimeoutError(f"{what}: nothing within the given time; are the other sides where they "
                           "call their halves?")
    ended(function, rc)
