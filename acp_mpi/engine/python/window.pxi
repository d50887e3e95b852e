# The MPI window of the group: its part of this rank's memory, and the road through it.

cdef extern from "core/mpi_window.h" nogil:
    ctypedef struct acp_window_config:
        const char *user
        uintptr_t window, comm, byte, word4, word8
        int any_source, any_tag
        uint32_t first_slot, count
        uint64_t starter_end, arrays_begin, arrays_end, heap_begin, heap_end
    ctypedef struct acp_window_part:
        void *base
        uint64_t size, probe, arrays_begin, arrays_end, heap_begin, heap_end
    int acp_window_own(const acp_engine *, acp_window_part *, acp_fault *)
    int acp_window_attach(acp_engine *, const acp_window_config *, const char **)
    void acp_window_open(acp_engine *, bint)
    void acp_window_close(acp_engine *)
    int acp_window_put(acp_engine *, uint32_t, uint64_t, const void *, uint64_t)
    int acp_window_visit(acp_engine *, uint32_t, bint)


def window_part() -> tuple[int, int, int, int, int, int, int]:
    """Return (address, size, place of the test's word, arrays from, to, heap from, to) of the own window part.

    HeapFullError if it could not be had.
    """
    need("init")
    cdef acp_window_part part
    cdef acp_fault fault
    if acp_window_own(engine, &part, &fault) != ACP_OK:
        raise exception_of("init", &fault)
    return (<uintptr_t>part.base, part.size, part.probe, part.arrays_begin, part.arrays_end,
            part.heap_begin, part.heap_end)


def window_attach(*, user: str, window: int, comm: int, byte: int, word4: int, word8: int,
                  any_source: int, any_tag: int, first_slot: int, count: int, starter_end: int,
                  arrays_begin: int, arrays_end: int, heap_begin: int, heap_end: int) -> None:
    """Tell the engine how to call MPI on the window; it is not a road yet.

    `user` is the path of a loaded module that depends on the MPI library, the next five are MPI
    handles. The members' slots begin at `first_slot`; all of them have starter memory up to
    `starter_end` bytes into their window part, arrays from `arrays_begin` to `arrays_end`, and heap
    from `heap_begin` to `heap_end`. Raises LookupError if MPI's functions are not found.
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
    config.starter_end = starter_end
    config.arrays_begin = arrays_begin
    config.arrays_end = arrays_end
    config.heap_begin = heap_begin
    config.heap_end = heap_end
    cdef int rc = acp_window_attach(engine, &config, &missing)
    if missing != NULL:
        raise LookupError(f"{missing.decode()} is not in the MPI library that mpi4py has loaded")
    if rc != ACP_OK:
        raise MemoryError


def window_open(reads_back: bool) -> None:
    """Make the window a road for put and get.

    `reads_back`: a flush may return before what was put is there, so that a byte is fetched then.
    """
    need("init")
    acp_window_open(engine, reads_back)


def window_close(keep: bool) -> None:
    """End all MPI calls of the engine; `keep` the memory mapped even after `close`."""
    cdef acp_engine *e = hold("finalize")
    with nogil:
        acp_window_close(e)
    if keep:
        acp_engine_hold(e)
    acp_engine_exit(e)


def window_put(rank: int, place: int, value: int) -> None:
    """Put an 8-byte word to a place in the window part of `rank` by MPI, and flush."""
    need("init")
    cdef uint64_t word = value, at = place
    cdef uint32_t target = rank
    cdef int rc
    cdef acp_engine *e = hold("init")
    with nogil:
        rc = acp_window_put(e, target, at, &word, 8)
    acp_engine_exit(e)
    if rc != ACP_OK:
        raise_status("init", rc)


def window_visit(rank: int, come: bool) -> None:
    """Have `rank` drive MPI from now on (`come`), or no longer."""
    need("init")
    cdef int rc = acp_window_visit(engine, rank, come)
    if rc != ACP_OK:
        raise_status("init", rc, rank)
