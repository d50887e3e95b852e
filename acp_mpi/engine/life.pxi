# Start and end, and what this process knows of the job.

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset


def create(*, bytes secret, bytes job, node, memory_limit, starter_size, bytes address,
           path, ptracer, peer_timeout, window_size, window_committed):
    """Make the engine of this process; `join` tells it who else there is.

    `secret` has 32 bytes, `job` 16, `address` 16 (IPv6 or mapped IPv4); sizes in bytes,
    `peer_timeout` in seconds; the window part is committed at once, or sparse. Raises HeapFullError before anything is touched if the memory limit
    is beyond the machine's.
    """
    global engine, lane0, forked
    cdef acp_config config
    cdef acp_fault fault
    cdef int rc
    memset(&config, 0, sizeof(config))
    memcpy(config.secret, PyBytes_AS_STRING(secret), 32)
    memcpy(config.job, PyBytes_AS_STRING(job), 16)
    memcpy(config.address, PyBytes_AS_STRING(address), 16)
    config.node = node
    config.memory_limit = memory_limit
    config.starter_size = starter_size
    config.path = path
    config.ptracer = ptracer
    config.window_size = window_size
    config.window_committed = window_committed
    config.peer_timeout_ns = <uint64_t>(peer_timeout * 1e9)
    config.tick = on_tick
    with nogil:
        rc = acp_engine_create(&config, &engine, &fault)
    if rc != ACP_OK:
        engine = NULL
        raise exception_of("init", &fault)
    forked = False
    lane0 = acp_engine_lane(engine)


def row():
    """Return the 64 bytes by which others know this process."""
    need("row")
    cdef uint8_t data[64]
    acp_engine_row(engine, data)
    return (<char *>data)[:64]


def join(bytes rows, slot):
    """Append rows of members, 64 bytes each; the first call names this process's slot."""
    need("join")
    cdef int rc = acp_engine_join(engine, <const uint8_t *>PyBytes_AS_STRING(rows),
                                  len(rows) // ACP_ROW_SIZE, slot)
    if rc != ACP_OK:
        raise_status("init", rc)


def remap(slots):
    """Make rank r the process in slots[r]; every address but the starter's dies."""
    need("reset")
    cdef uint32_t count = len(slots), i
    cdef uint32_t *map = <uint32_t *>malloc(count * sizeof(uint32_t) + 1)
    if map == NULL:
        raise MemoryError
    for i in range(count):
        map[i] = slots[i]
    cdef int rc = acp_engine_reset(engine, map, count)
    free(map)
    if rc != ACP_OK:
        raise_status("reset", rc)


def leaving():
    """Tell all that this rank is in finalize."""
    need("finalize")
    with nogil:
        acp_engine_leaving(engine)


def close():
    """End threads and links; addresses die, mappings stay while an array refers to them."""
    global engine, lane0
    cdef acp_engine *old = engine
    if old == NULL:
        return
    engine = NULL
    lane0 = NULL
    with nogil:
        acp_engine_close(old)
    held.clear()
    acp_engine_free(old)


def is_open():
    """Return whether there is an engine."""
    return engine != NULL


def rank():
    """Return the rank of the calling process (seed 003, table 1)."""
    if engine == NULL:
        no_engine("rank")
    return acp_rank(engine)


def procs():
    """Return the highest rank of the job + 1 (seed 003, table 1)."""
    if engine == NULL:
        no_engine("procs")
    return acp_procs(engine)


def slot_of(rank):
    """Return the slot of `rank`."""
    need("slot_of")
    return acp_slot_of(engine, rank_of(rank, "slot_of"))


def lost_ranks():
    """Return the list of ranks that have died."""
    need("ranks")
    cdef uint32_t n = acp_procs(engine), i
    cdef uint32_t *lost = <uint32_t *>malloc(n * sizeof(uint32_t) + 1)
    if lost == NULL:
        raise MemoryError
    n = acp_lost_ranks(engine, lost, n)
    result = sorted([lost[i] for i in range(n)])
    free(lost)
    return result


def refresh():
    """Accept the losses: from now on `sync` and `finalize` mean the living."""
    need("refresh")
    acp_refresh(engine)


def doing(rank):
    """Return what `rank` waits for (acp_doing), or -1 if it does not answer."""
    need("doing")
    cdef uint32_t r = rank_of(rank, "doing")
    cdef acp_doing what
    cdef int rc
    cdef acp_engine *e = hold("doing")
    with nogil:
        rc = acp_peer_doing(e, r, &what)
    acp_engine_free(e)
    return <int>what if rc == ACP_OK else -1


def road(rank):
    """Return (road, how its memory was opened, road to its registered memory, lost)."""
    need("road")
    cdef acp_road_info info
    cdef uint32_t r = rank_of(rank, "road")
    if acp_road(lane0, r, &info) != ACP_OK:
        raise_fault("road", lane0)
    return (info.road.decode(), info.memory.decode(), info.registered.decode(), bool(info.lost))
