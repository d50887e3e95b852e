# Start and end, and what this process knows of the job.

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdlib cimport free as c_free, malloc as c_malloc
from libc.string cimport memcpy, memset


def create(*, bytes secret, bytes job, node: int, memory_limit: int, starter_size: int, host: int,
           wide: bool, bytes interfaces, links: int, links_open: int, path: int, ptracer: bool,
           service: bool, peer_timeout: float, unexpected_max: int, window_size: int,
           window_committed: bool) -> None:
    """Make the engine of this process; `join` gives it the members.

    `secret` has 32 bytes, `job` 16; `wide` says that the job spans hosts, `interfaces` on which
    networks others may connect then (b"eth0,ib0", b"" all); `links` is a number of acp_protection;
    sizes in bytes, `peer_timeout` in seconds; `unexpected_max`: bytes of messages kept, 0 for a
    default; the window part is committed at once, or sparse; a `service` is none of the ranks that
    programs mean by all. Raises HeapFullError before anything is touched if the memory limit is
    beyond the machine's.
    """
    global engine, lane0, forked
    cdef acp_config config
    cdef acp_fault fault
    cdef acp_engine *made
    cdef int rc
    memset(&config, 0, sizeof(config))
    memcpy(config.secret, PyBytes_AS_STRING(secret), 32)
    memcpy(config.job, PyBytes_AS_STRING(job), 16)
    memcpy(config.interfaces, PyBytes_AS_STRING(interfaces), len(interfaces))
    config.host = host
    config.wide = wide
    config.node = node
    config.memory_limit = memory_limit
    config.starter_size = starter_size
    config.path = path
    config.links = links
    config.links_open = links_open
    config.ptracer = ptracer
    config.service = service
    config.window_size = window_size
    config.window_committed = window_committed
    config.peer_timeout_ns = <uint64_t>(peer_timeout * 1e9)
    config.unexpected_max = unexpected_max
    config.tick = on_tick
    with nogil:
        rc = acp_engine_create(&config, &made, &fault)
    if rc != ACP_OK:
        raise exception_of("init", &fault)
    forked = False
    engine, lane0 = made, acp_engine_lane(made)  # both at once, for other threads


def watch_lifeline(descriptor: int) -> None:
    """End this process, and close the descriptor of a pipe, when its last writer has gone."""
    need("init")
    cdef int rc = acp_lifeline(engine, descriptor)
    if rc != ACP_OK:
        raise_status("init", rc)


def memory_total() -> int:
    """Return the bytes of memory of this machine, or of what its control groups allow this process."""
    return acp_memory_total()


LAYOUT = LAYOUT_VERSION  # in the row of each process


def row() -> bytes:
    """Return the 64 bytes by which others know this process."""
    need("row")
    cdef uint8_t data[64]
    acp_engine_row(engine, data)
    return (<char *>data)[:64]


def add_rows(first: int, rows) -> None:
    """Add the rows of the slots from `first` on to this node's table, 64 bytes each.

    The first call makes the table unless `map_table` has found one. Rows that are there already
    must be the same.
    """
    need("init")
    cdef Py_buffer view
    cdef uint32_t count, slot = first
    cdef int rc = ACP_OK
    PyObject_GetBuffer(rows, &view, PyBUF_SIMPLE)
    count = view.len // ACP_ROW_SIZE
    if count:
        rc = acp_table_add(engine, slot, <const uint8_t *>view.buf, count)
    PyBuffer_Release(&view)
    if rc != ACP_OK:
        raise_status("init", rc)


def table_place() -> bytes:
    """Return the 64 bytes by which the others of the node find the table that this one made."""
    need("init")
    cdef uint8_t place[64]
    cdef int rc = acp_table_place(engine, place)
    if rc != ACP_OK:
        raise_status("init", rc)
    return (<char *>place)[:64]


def map_table(bytes place) -> bool:
    """Map the table of another process of the node; return whether the system lets us."""
    cdef int rc
    cdef const uint8_t *where = <const uint8_t *>PyBytes_AS_STRING(place)
    cdef acp_engine *e = hold("init")
    with nogil:
        rc = acp_table_map(e, where)
    acp_engine_exit(e)
    return rc == ACP_OK


def join(count: int, slot: int) -> None:
    """Take in `count` more members, the next in the table; the first call names the own slot."""
    need("init")
    cdef int rc = acp_engine_join(engine, count, slot)
    if rc != ACP_OK:
        raise_status("init", rc)
    c_api_open(engine)


def row_of(slot: int) -> bytes:
    """Return the 64 bytes of the member in a slot that is known here."""
    need("refresh")
    cdef uint8_t data[64]
    acp_row_of(engine, rank_of(slot, "refresh"), data)
    return (<char *>data)[:64]


def learn(rows) -> None:
    """Take in all members of the job, 64 bytes each from slot 0 on; some of them are known."""
    need("refresh")
    cdef Py_buffer view
    cdef int rc = ACP_OK
    PyObject_GetBuffer(rows, &view, PyBUF_SIMPLE)
    cdef uint32_t count = view.len // ACP_ROW_SIZE
    rc = acp_engine_learn(engine, 0, <const uint8_t *>view.buf, count)
    PyBuffer_Release(&view)
    if rc != ACP_OK:
        raise_status("refresh", rc)


def bury() -> None:
    """Give back what is mapped and open of members that have ended; if busy, another time."""
    need("refresh")
    acp_engine_bury(engine)


def set_joined(slots: range, founders: int) -> None:
    """Set the range of slots that joined together, and the number of members that began the job."""
    global everybody
    need("init")
    acp_engine_joined(engine, slots.start, slots.stop, founders)
    everybody = slots


def leave(slots: range) -> None:
    """Let a range of slots end the job for themselves, and the others go on."""
    need("leave")
    acp_engine_leave(engine, slots.start, slots.stop)


def widen() -> None:
    """From now on `sync` waits for all known members."""
    global everybody
    need("refresh")
    acp_engine_widen(engine)
    if acp_rank(engine) not in services():  # to a service it is those that joined with it
        everybody = range(acp_procs(engine))


cdef object everybody = None  # a range of slots; None: all that joined at first


def together() -> Sequence[int]:
    """Return the ranks that `sync` waits for, rising: those that joined together, or all known."""
    need("sync")
    ranks = range(acp_procs(engine)) if everybody is None else sorted(ranks_of(everybody))
    others = services()
    return ranks if not others or acp_rank(engine) in others else [r for r in ranks if r not in others]


def mates() -> int:
    """Return how many ranks of the job live on this node as this one joins, itself included."""
    need("init")
    return acp_mates(engine)


def lower_limit(limit: int) -> None:
    """Lower the limit of this rank's memory to that size, or to what is committed already."""
    need("init")
    acp_memory_lower(engine, limit)


def halt() -> None:
    """Have nothing of this rank go to others from here to `remap`, or to `resume`; what went has arrived."""
    cdef acp_engine *e = hold("reset")
    with nogil:
        acp_engine_halt(e)
    acp_engine_exit(e)


def resume() -> None:
    """Go on where `halt` has stopped, unless `remap` has come."""
    if engine != NULL:
        acp_engine_resume(engine)


def remap(slots) -> None:
    """Make rank r the process in slots[r]; every address but the starter's dies."""
    need("reset")
    cdef uint32_t count = len(slots), i
    cdef acp_engine *e
    cdef uint32_t *map = <uint32_t *>c_malloc(count * sizeof(uint32_t) + 1)
    if map == NULL:
        raise MemoryError
    for i in range(count):
        map[i] = slots[i]
    e = hold("reset")
    cdef int rc = acp_engine_reset(e, map, count)
    if rc == ACP_OK:  # with the interpreter's lock throughout: threads that wait find them forgotten
        forget_messages("reset came")
    acp_engine_exit(e)
    c_free(map)
    if rc != ACP_OK:
        raise_status("reset", rc)


def leaving() -> None:
    """Tell all that this rank is in finalize."""
    cdef acp_engine *e = hold("finalize")
    with nogil:
        acp_engine_leaving(e)
    acp_engine_exit(e)


def close() -> None:
    """End threads and links; addresses die, mappings stay while an array refers to them."""
    global engine, lane0, everybody
    cdef acp_engine *old = engine
    if old == NULL:
        return
    forget_messages("the job ended")
    everybody = None
    engine = NULL
    lane0 = NULL
    with nogil:
        c_api_close()
        acp_engine_close(old)
    held.clear()
    acp_engine_free(old)


def is_open() -> bool:
    """Return whether there is an engine."""
    return engine != NULL


def rank() -> int:
    """Return the rank of the calling process (paper 003, table 1)."""
    if engine == NULL:
        no_engine("rank")
    return acp_rank(engine)


def procs() -> int:
    """Return the highest rank of the job + 1 (paper 003, table 1)."""
    if engine == NULL:
        no_engine("procs")
    return acp_procs(engine)


def size() -> int:
    """Return `procs()`."""
    if engine == NULL:
        no_engine("size")
    return acp_procs(engine)


def slot_of(rank: int) -> int:
    """Return the slot of `rank`."""
    need("slot_of")
    return acp_slot_of(engine, rank_of(rank, "slot_of"))


def ranks_of(slots: range) -> Sequence[int]:
    """Return the ranks of a range of slots: that range itself if each is its slot."""
    need("groups")
    cdef uint32_t count = len(slots), first = slots.start, i
    cdef uint32_t *ranks = <uint32_t *>c_malloc(count * sizeof(uint32_t) + 1)
    if ranks == NULL:
        raise MemoryError
    result = slots
    if acp_ranks_of(engine, first, count, ranks):
        result = tuple([ranks[i] for i in range(count)])
    c_free(ranks)
    return result


cdef uint64_t refreshes = 0


def demand(str function) -> None:
    """Raise NotInitializedError that names `function` where there is no job."""
    need(function)


def membership() -> tuple[int, int]:
    """Return a value that changes with the members of the job."""
    need("collective")
    return acp_procs(engine), refreshes


def refresh() -> None:
    """Accept the losses: from now on `sync` and `finalize` mean the living."""
    global refreshes
    need("refresh")
    acp_refresh(engine)
    refreshes += 1


def doing(rank: int) -> int:
    """Return what `rank` waits for (acp_doing), or -1 if it does not answer."""
    need("doing")
    cdef uint32_t r = rank_of(rank, "doing")
    cdef acp_doing what
    cdef int rc
    cdef acp_engine *e = hold("doing")
    with nogil:
        rc = acp_peer_doing(e, r, &what)
    acp_engine_exit(e)
    return <int>what if rc == ACP_OK else -1


def shortage() -> int:
    """Return for want of what (an errno) this process cannot open a connection, or 0."""
    need("shortage")
    return acp_shortage(engine)


def links() -> tuple[int, int, int]:
    """Return how many connections of links are open, how many open files there may be, and for want of what
    (an errno) one more connection was not opened.
    """
    need("links")
    cdef uint64_t limit
    cdef uint32_t count = acp_links(engine, &limit)
    return count, limit, acp_short_error(engine)


def road(rank: int) -> tuple[str, str, str, bool]:
    """Return (road, how its memory was opened, road to its registered memory, lost)."""
    need("road")
    cdef acp_road_info info
    cdef uint32_t r = rank_of(rank, "road")
    if acp_road(lane0, r, &info) != ACP_OK:
        raise_fault("road", lane0)
    return (info.road.decode(), info.memory.decode(), info.registered.decode(), bool(info.lost))
