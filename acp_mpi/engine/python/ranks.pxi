# The ranks that are lost, or services, as far as this process knows.

cdef enum:
    LOST_RANKS, ACCEPTED_LOSSES, SERVICE_RANKS


cdef uint32_t ranks_that_are(int what, uint32_t *out, uint32_t most) noexcept:
    if what == SERVICE_RANKS:
        return acp_services(engine, out, most)
    return acp_lost_ranks(engine, what == ACCEPTED_LOSSES, out, most)


cdef list rank_list(int what):
    need("ranks")
    cdef uint32_t n = ranks_that_are(what, NULL, 0), i
    cdef uint32_t *ranks = <uint32_t *>c_malloc(n * sizeof(uint32_t) + 1)
    if ranks == NULL:
        raise MemoryError
    n = min(ranks_that_are(what, ranks, n), n)
    result = sorted([ranks[i] for i in range(n)])
    c_free(ranks)
    return result


def lost_ranks(*, bint accepted=False) -> list[int]:
    """Return the list of ranks that have died or left; `accepted`: as `refresh` found them."""
    return rank_list(ACCEPTED_LOSSES if accepted else LOST_RANKS)


def services() -> list[int]:
    """Return the list of ranks known here that are services: `sync` and the like do without them."""
    return rank_list(SERVICE_RANKS)


def losses() -> int:
    """Return how many ranks are lost: they have died, or left though this process needed them.

    `refresh` does not lower it, the end of a service does not raise it.
    """
    need("losses")
    return acp_losses(engine)


def is_alive(rank: Int) -> bool:
    """Return whether `rank` lives, as far as this process knows; in constant time.

    False also for one that has left the job. RankError if there is no such rank.
    """
    need("is_alive")
    return acp_lives(engine, rank_of(rank, "is_alive"))
