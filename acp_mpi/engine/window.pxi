# The MPI window of the group: its part of this rank's memory, and the road through it.


def window_part():
    """Return (address, size, place of the test's word) of the own window part.

    HeapFullError if it could not be had.
    """
    need("init")
    cdef void *base
    cdef uint64_t size, probe
    cdef acp_fault fault
    if acp_window_part(engine, &base, &size, &probe, &fault) != ACP_OK:
        raise exception_of("init", &fault)
    return <uintptr_t>base, size, probe


def window_attach(*, user, window, comm, byte, word4, word8, any_source, any_tag, first_slot,
                  count, extent):
    """Tell the engine how to call MPI on the window; it is no road yet.

    `user` is the path of a loaded module that depends on the MPI library, the next five are MPI
    handles. The members' slots begin at `first_slot`; `extent` bytes from starter memory on are
    there on all of them. Raises LookupError if MPI's functions are not found.
    """
    need("init")
    cdef acp_window_config config
    cdef const char *missing = NULL
    path = user.encode()
    config.user = path
    config.window = window
    config.comm = comm
    config.byte = byte
    config.word4 = word4
    config.word8 = word8
    config.any_source = any_source
    config.any_tag = any_tag
    config.first_slot = first_slot
    config.count = count
    config.extent = extent
    cdef int rc = acp_window_attach(engine, &config, &missing)
    if missing != NULL:
        raise LookupError(f"{missing.decode()} is not in the MPI library that mpi4py has loaded")
    if rc != ACP_OK:
        raise MemoryError


def window_open(reads_back):
    """Make the window a road for put and get.

    `reads_back`: a flush may return before what was put is there, so that a byte is fetched then.
    """
    need("init")
    acp_window_open(engine, reads_back)


def window_close(keep):
    """End all MPI calls of the engine; `keep` the memory mapped even after `close`."""
    need("finalize")
    with nogil:
        acp_window_close(engine)
    if keep:
        acp_engine_hold(engine)


def window_put(rank, place, value):
    """Put an 8-byte word to a place in the window part of `rank` by MPI, and flush."""
    need("init")
    cdef uint64_t word = value, at = place
    cdef uint32_t target = rank
    cdef int rc
    cdef acp_engine *e = hold("init")
    with nogil:
        rc = acp_window_put(e, target, at, &word, 8)
    acp_engine_free(e)
    if rc != ACP_OK:
        raise_status("init", rc)


def window_visit(rank, come):
    """Have `rank` drive MPI from now on (`come`), or no longer."""
    need("init")
    cdef int rc = acp_window_visit(engine, rank, come)
    if rc != ACP_OK:
        raise_status("init", rc, rank)
