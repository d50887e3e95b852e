# What processes do together: waiting for words, barriers, names.

_compare = {"==": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}


def wait_until(ga, op, value, timeout=None, *, size=8):
    """Wait until the word at `ga`, memory of this process, compares so with `value`.

    `op` is one of == != < <= > >=; `size` 4 or 8 bytes, aligned. The word is taken as unsigned,
    or as signed if `value` is negative. Asleep meanwhile; any operation of any rank that writes
    there wakes it (a plain store by this process does not). TimeoutError after `timeout` seconds.
    """
    need("wait_until")
    cdef uint64_t a = address(ga, "wait_until"), v = value_of(value, "wait_until")
    cdef int64_t limit = nanoseconds(timeout, "wait_until")
    cdef bint signed = value < 0
    cdef uint32_t width
    cdef int rc, what
    cdef acp_word word
    if op not in _compare:
        raise ValueError(f"wait_until: {op!r} is not one of {' '.join(_compare)}")
    if size not in (4, 8):
        raise ValueError(f"wait_until: a word has 4 or 8 bytes, not {size}")
    width = size
    what = _compare[op]
    if size == 4 and not signed and v >> 32:
        raise OverflowError(f"wait_until: the value {value} does not fit a word of 4 bytes")
    if acp_word_find(lane0, a, width, &word) != ACP_OK:
        raise_fault("wait_until", lane0)
    cdef acp_engine *e = hold()
    with nogil:
        rc = acp_word_wait(e, &word, <acp_compare>what, v, signed, limit)
    acp_engine_free(e)
    ended("wait_until", rc)


cdef int met(str function, int status, acp_engine *e) except -1:
    cdef int64_t who = acp_trouble_rank(e)
    acp_engine_free(e)
    return ended(function, status, who)


def meet(str function, ranks, purpose, timeout):
    """Wait in `function` for all living ranks, or for those listed: sorted, with this one."""
    need(function)
    cdef uint32_t *list = NULL
    cdef uint32_t count = 0, i, why = purpose
    cdef int64_t limit = nanoseconds(timeout, function)
    cdef int rc
    if ranks is not None:
        count = len(ranks)
        list = <uint32_t *>malloc(count * sizeof(uint32_t) + 1)
        if list == NULL:
            raise MemoryError
        for i in range(count):
            list[i] = ranks[i]
    cdef acp_engine *e = hold()
    with nogil:
        rc = acp_barrier(e, list, count, why, limit)
    free(list)
    met(function, rc, e)


def sync(timeout=None):
    """Complete this process's operations, then wait for all ranks (seed 003, table 1).

    Collective over the living ranks. Raises the errors of operations that nobody completed,
    PeerLostError if a rank has died that `refresh` has not accepted, Error if one is in finalize,
    TimeoutError after `timeout` seconds.
    """
    cdef int rc
    if engine == NULL:
        no_engine("sync")
    if not acp_quiet(engine) or held:
        complete(HANDLE_ALL, timeout)
    if timeout is not None:
        meet("sync", None, 0, timeout)
        return
    cdef acp_engine *e = hold()
    with nogil:
        rc = acp_barrier(e, NULL, 0, 0, ACP_FOREVER)
    met("sync", rc, e)


def board_put(low, high, first, second, timeout):
    """Store two words under a 128-bit name, for every rank to see."""
    need("publish")
    cdef uint64_t key[2]
    cdef uint64_t value[2]
    cdef int64_t limit = nanoseconds(timeout, "publish")
    cdef int rc
    key[0], key[1], value[0], value[1] = low, high, first, second
    cdef acp_engine *e = hold()
    with nogil:
        rc = acp_publish(e, key, value, limit)
    acp_engine_free(e)
    ended("publish", rc)


def board_get(low, high, timeout):
    """Return the two words under a 128-bit name, once somebody has stored them."""
    need("lookup")
    cdef uint64_t key[2]
    cdef uint64_t value[2]
    cdef int64_t limit = nanoseconds(timeout, "lookup")
    cdef int rc
    key[0], key[1] = low, high
    cdef acp_engine *e = hold()
    with nogil:
        rc = acp_lookup(e, key, value, limit)
    acp_engine_free(e)
    ended("lookup", rc)
    return value[0], value[1]
