# A wait for the first of several requests and collectives.

def wait_any(str function, requests: Sequence[Request], collectives: Sequence[Collective],
             timeout: float | None = None) -> None:
    """Wait until one of the engine's is done, or a collective has something for Python to do.

    TimeoutError after `timeout` seconds. A collective cannot end meanwhile: its request's lock.
    """
    need(function)
    cdef uint32_t count = 0, collective_count = len(collectives), other_count = 0, i
    cdef Py_ssize_t most = len(requests)
    cdef int64_t limit = nanoseconds(timeout, function)
    cdef acp_engine *e
    cdef acp_request **all
    cdef acp_collective **together
    cdef const acp_flag **others
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
    all = <acp_request **>c_malloc((2 * most + collective_count) * sizeof(void *) + 1)
    if all == NULL:
        raise MemoryError
    others = <const acp_flag **>(all + most)
    together = <acp_collective **>(others + most)
    for i in range(collective_count):
        one = collectives[i]
        together[i] = one.under_way
    for r in requests:
        if not isinstance(r, ChannelRequest):
            all[count] = r.request
            count += 1
        r.waiting += 1
    for r in requests:  # behind those of the engine: a signal handler finds out that all are waited for here
        if isinstance(r, ChannelRequest):
            all[count + other_count] = r.identity()
            others[other_count] = acp_channel_op_done((<ChannelRequest>r).op)
            other_count += 1
    names = [str(r) for r in requests[:4]] + [one.function for one in collectives[:4]]
    what = f"{function} for {', '.join(names)}"
    e = hold(function)
    begin_to_await(&awaited, what, all, most)
    with nogil:
        rc = acp_wait_any(e, all, count, together, collective_count, others, other_count, limit)
    end_awaiting(&awaited)
    acp_engine_exit(e)
    c_free(all)
    for r in requests:
        r.waiting -= 1
    if rc == ACP_E_TIMEOUT:
        raise TimeoutError(f"{what}: nothing within the given time; are the other sides where they "
                           "call their halves?")
    ended(function, rc)
