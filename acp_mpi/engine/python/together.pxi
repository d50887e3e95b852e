# Common acts of processes: waiting for words, barriers, names.

_compare = {"==": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}


cdef Sources writers(object ranks, object losses):
    # The ranks that end a wait for a word when they are lost; None: all.
    if ranks is None:
        return None
    if losses is not None:
        raise TypeError("wait_until: both ranks= and losses= were given; either the losses of some "
                        "ranks end it, or their number")
    try:
        given = list(ranks)
    except TypeError:
        raise TypeError(f"wait_until: ranks={ranks!r:.60} is no list of ranks; name those that may "
                        "write there") from None
    if not given:
        raise ValueError("wait_until: ranks= names nobody; name those that may write there, or "
                         "leave it out")
    need("wait_until")  # what gave the ranks may be Python code
    return Sources(tuple([rank_of(each, "wait_until") for each in given]))


cdef int64_t count_of_losses(object losses) except -2:
    # -1: any that is not accepted.
    if losses is None:
        return -1
    losses = as_int(losses, "wait_until", "a number of losses")
    if not 0 <= losses < 1 << 32:
        raise ValueError(f"wait_until: losses={losses} is no number of ranks; acp.losses() says how "
                         "many are lost now")
    return losses


def wait_until(ga: Int, op: str, value: Int, timeout: float | None = None, *, size: Int = 8,
               ranks: Iterable[Int] | None = None, losses: Int | None = None) -> None:
    """Wait until the word at `ga`, memory of this process, compares so with `value`.

    `op` is one of == != < <= > >=; `size` 4 or 8 bytes, aligned. The word is taken as unsigned,
    or as signed if `value` is negative. Asleep meanwhile; any operation of any rank that writes
    there wakes it (a plain store by this process does not). TimeoutError after `timeout` seconds,
    PeerLostError after the loss of any rank that `refresh` has not accepted: with `ranks` of one
    of these, with `losses` not before more ranks are lost than that, accepted or not. AddressError
    when another thread gives that memory back.
    """
    need("wait_until")
    cdef Sources among = writers(ranks, losses)
    cdef int64_t lost = count_of_losses(losses)
    value = as_int(value, "wait_until", "a value")
    cdef uint64_t a = address(ga, "wait_until"), v = value_of(value, "wait_until")
    cdef int64_t limit = nanoseconds(timeout, "wait_until")
    cdef bint signed = value < 0
    cdef uint64_t width = amount(size, "wait_until")
    cdef int rc, what
    cdef acp_word word
    if not isinstance(op, str) or op not in _compare:
        raise ValueError(f"wait_until: {op!r} is not one of {' '.join(_compare)}")
    if width != 4 and width != 8:
        raise ValueError(f"wait_until: a word has 4 or 8 bytes, not {size}")
    what = _compare[op]
    if width == 4 and (value < -(1 << 31) if signed else v >> 32):
        raise OverflowError(f"wait_until: the value {value} does not fit a word of 4 bytes")
    if acp_word_find(lane0, a, <uint32_t>width, &word) != ACP_OK:
        if acp_lane_fault(lane0).status == ACP_E_PRIVATE and acp_ga_rank(a) != rank():
            raise _errors.AddressError(
                f"wait_until: {a:#x} is a word of rank {acp_ga_rank(a)}; only own words can be waited "
                "for: have that rank wait, or write to a word of this one"
            )
        raise_fault("wait_until", lane0)
    cdef acp_sources *those = held_by(among)
    cdef acp_engine *e = hold("wait_until")
    with nogil:
        rc = acp_word_wait(e, &word, <acp_compare>what, v, signed, those, lost, limit)
    acp_engine_exit(e)
    if rc == ACP_E_UNREGISTERED:  # by another thread, meanwhile
        raise _errors.from_fault("wait_until", rc, a, width, acp_ga_rank(a))
    if rc == ACP_E_TIMEOUT:
        raise TimeoutError(
            f"wait_until: the word at {a:#x} did not become {op} {value} within {timeout} s; give "
            "more time, or look at who is to write there"
        )
    ended("wait_until", rc, missed(rc, -1, those))


cdef int meet_by(str function, const uint32_t *ranks, uint32_t count, uint32_t purpose,
                 int64_t end) except -1:
    cdef int64_t who, limit = left_until(end)
    cdef int rc
    cdef acp_engine *e = hold(function)
    with nogil:
        rc = acp_barrier(e, ranks, count, purpose, limit)
    who = acp_trouble_rank(e)
    acp_engine_exit(e)
    return ended(function, rc, who)


def meet(str function, purpose: int, list met_in: list[str] | None = None) -> None:
    """Wait in `function` for all living ranks; those with another `purpose` do not count.

    `met_in` gets one element more when they have met, whatever a signal handler raises then.
    """
    need(function)
    meet_by(function, NULL, 0, purpose, ACP_FOREVER)
    if met_in is not None:
        met_in.append(function)


cdef int listed(object ranks, uint32_t *chosen, uint32_t count) except -1:
    # The ranks in order; each exists, none twice, the caller among them.
    cdef uint32_t i, j, rank
    cdef bint here = False
    for i in range(count):
        rank = rank_of(ranks[i], "barrier")
        here = here or rank == acp_rank(engine)
        j = i
        while j > 0 and chosen[j - 1] > rank:
            chosen[j] = chosen[j - 1]
            j -= 1
        if j > 0 and chosen[j - 1] == rank:
            raise _errors.RankError(f"barrier: rank {rank} is named twice in {ranks}")
        chosen[j] = rank
    if not here:
        raise _errors.RankError(
            f"barrier: the calling rank {acp_rank(engine)} is not among {ranks}")
    return 0


cdef int meet_all(str function, object timeout) except -1:
    cdef int64_t end = end_of(nanoseconds(timeout, function))
    finish_all(function, left_until(end))
    meet_by(function, NULL, 0, 0, end)
    hear_late_notes(function)
    return 0


def barrier(ranks=None, timeout: float | None = None) -> None:
    """Complete this process's operations, then wait for the listed ranks; None: for all, as `sync`.

    Collective over `ranks`, which contain the caller. Raises RankError for a rank that does not
    exist, one that is named twice or an absent caller; PeerLostError; TimeoutError after
    `timeout` seconds.
    """
    need("barrier")
    if ranks is None:
        meet_all("barrier", timeout)
        return
    cdef uint32_t few[64]
    cdef uint32_t *chosen = few
    cdef uint32_t count
    cdef int64_t end = end_of(nanoseconds(timeout, "barrier"))
    if type(ranks) not in (list, tuple, range):
        try:
            ranks = sorted(ranks)
        except TypeError:
            raise TypeError(f"barrier: {ranks!r} is no list of ranks; barrier() waits for all of "
                            "them") from None
        need("barrier")  # what gave the ranks may be Python code
    count = len(ranks)
    if count > 64:
        chosen = <uint32_t *>c_malloc(count * sizeof(uint32_t))
        if chosen == NULL:
            raise MemoryError
    try:
        listed(ranks, chosen, count)
        finish_all("barrier", left_until(end))
        meet_by("barrier", chosen, count, 0, end)
    finally:
        if chosen != few:
            c_free(chosen)


def sync(timeout: float | None = None) -> None:
    """Complete this process's operations, then wait for all ranks (paper 003, table 1).

    Collective over the living ranks. Raises the errors of operations that no call completed,
    PeerLostError if a rank has died that `refresh` has not accepted, Error if one is in finalize,
    TimeoutError after `timeout` seconds. When all have met: Error for a collective that was over
    here before others found that the calls did not belong together.
    """
    if engine == NULL:
        no_engine("sync")
    meet_all("sync", timeout)


cdef object asked_about_name(str function, int rc, int64_t whose):
    if rc == ACP_E_TAKEN:
        return whose
    if rc == ACP_E_DAMAGED:  # `whose` keeps the name
        raise _errors.from_fault(function, rc, 0, 0, whose, EBADMSG)
    ended(function, rc)
    return None


def name_publish(low: int, high: int, Block block, bint replace) -> int | None:
    """Have a 128-bit name stand for a block, which goes with it, for every rank.

    Return None, or the rank that has published the name; then nothing has happened.
    """
    need("publish")
    cdef uint64_t key[2]
    cdef uint64_t value[2]
    cdef int64_t whose = -1
    cdef int rc
    key[0], key[1], value[0], value[1] = low, high, block.ga, block.bytes
    cdef acp_engine *e = hold("publish")
    with nogil:
        rc = acp_publish(e, key, value, ACP_GIVEN | (ACP_REPLACE if replace else 0), &whose,
                         ACP_FOREVER)
    block.owned = rc == ACP_E_TAKEN or rc == ACP_E_SYSTEM
    acp_names_bury(acp_engine_lane(e))
    acp_engine_exit(e)
    return asked_about_name("publish", rc, whose)


def name_withdraw(low: int, high: int) -> int | None:
    """Have a 128-bit name stand for nothing.

    Return None, or the rank that has published it, -1 if none has; then nothing has happened.
    """
    need("withdraw")
    cdef uint64_t key[2]
    cdef int64_t whose = -1
    cdef int rc
    key[0], key[1] = low, high
    cdef acp_engine *e = hold("withdraw")
    with nogil:
        rc = acp_withdraw(e, key, &whose, ACP_FOREVER)
    acp_names_bury(acp_engine_lane(e))
    acp_engine_exit(e)
    return asked_about_name("withdraw", rc, whose)


def name_publish_again() -> None:
    """Give the names of this process to the ranks that keep them in place of lost ones."""
    need("refresh")
    cdef int64_t whose
    cdef int rc
    cdef acp_engine *e = hold("refresh")
    with nogil:
        rc = acp_publish_again(e, &whose, ACP_FOREVER)
    acp_engine_exit(e)
    asked_about_name("refresh", rc, whose)


def name_lookup(low, high, timeout: float | None) -> tuple[int, int]:
    """Return the two words under a 128-bit name, once a rank has stored them."""
    need("lookup")
    cdef uint64_t key[2]
    cdef uint64_t value[2]
    cdef int64_t limit = nanoseconds(timeout, "lookup")
    cdef int rc
    key[0], key[1] = low, high
    cdef acp_engine *e = hold("lookup")
    with nogil:
        rc = acp_lookup(e, key, value, limit)
    acp_engine_exit(e)
    asked_about_name("lookup", rc, <int64_t>value[0])
    return value[0], value[1]
