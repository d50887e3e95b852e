# Completion: waiting without the interpreter lock, and errors that operations left.

cdef dict held = {}  # handle -> buffers that an operation in flight reads or writes


cdef int drop_held() except -1:
    # Buffers of finished operations; called where operations are issued and completed.
    cdef uint64_t mark
    if held and engine != NULL:
        mark = acp_watermark(engine)
        for handle in [h for h, kept in list(held.items())
                       if h <= mark or (type(kept) is not Orphans and acp_done(engine, h))]:
            left = held.pop(handle, None)  # may run a finalizer, which may come here again
            if type(left) is Orphans and engine != NULL:
                bury_orphans(handle, <Orphans>left)
    return 0


_names = {ACP_COPY: "copy", ACP_CAS4: "cas4", ACP_CAS8: "cas8", ACP_SWAP4: "swap4",
          ACP_SWAP8: "swap8", ACP_ADD4: "add4", ACP_ADD8: "add8", ACP_XOR4: "xor4",
          ACP_XOR8: "xor8", ACP_OR4: "or4", ACP_OR8: "or8", ACP_AND4: "and4", ACP_AND8: "and8"}


cdef int raise_failures(uint64_t upto, bint alone, str function=None) except -1:
    # The first error with the others as notes; each is reported once. A blocking call gives its
    # own name, the others are called by the command that failed.
    cdef acp_failure failures[16]
    cdef uint64_t more = 0
    cdef uint32_t i, n
    need("complete")
    n = acp_failures_take(engine, upto, alone, failures, 16, &more)
    if n == 0:
        return 0
    name = function or _names.get(failures[0].kind, "operation")
    first = exception_of(name, &failures[0].fault)
    first.add_note(f"handle {failures[0].handle}")
    for i in range(1, n):
        other = exception_of(_names.get(failures[i].kind, "operation"), &failures[i].fault)
        first.add_note(f"handle {failures[i].handle}: {type(other).__name__}: {other}")
    if more:
        first.add_note(f"and {more} more operations that failed")
    raise first


cdef int ended(str function, int status, int64_t rank=-1) except -1:
    # A wait's result: when interrupted, a signal handler's exception is set already.
    if status == ACP_OK:
        return 0
    if status == ACP_E_INTERRUPTED:
        return -1
    raise_status(function, status, rank)


cdef int64_t glance_end = 0  # of a glance under way; 0: there is none
cdef unsigned long glancer   # its thread


cdef inline int64_t patience(int64_t limit) noexcept:
    if glance_end == 0 or glancer != PyThread_get_thread_ident():
        return limit
    return min(limit, left_until(glance_end))


def glance(look: Callable[[], str], double seconds) -> str:
    """Return what `look` returns; nothing if it fails, or any operation of it takes longer.

    Operations that it leaves go on. Nothing, too, inside of another glance.
    """
    global glance_end, glancer
    if engine == NULL or glance_end:
        return ""
    glancer, glance_end = PyThread_get_thread_ident(), clock() + <int64_t>(seconds * 1e9)
    try:
        return look()
    except Exception:
        return ""
    finally:
        glance_end = 0


cdef int wait_for_room(str function) except -1:
    # Signals first: room may be there, and the caller lack a lock whose holder has been stopped.
    cdef int rc
    if signals_raised():
        return -1
    cdef acp_engine *e = hold(function)
    cdef int64_t limit = patience(ACP_FOREVER)
    with nogil:
        rc = acp_wait_room(e, limit)
    acp_engine_exit(e)
    ended(function, rc)
    need(function)  # another thread may have finalized meanwhile
    acp_lane_previous(lane0, acp_get_previous())
    drop_held()
    return 0


cdef int end_alone(str function, uint64_t handle, int64_t limit, object used=None) except -1:
    # `used`: what the operation reads or writes, which it keeps should it outlive this call.
    cdef int rc
    cdef acp_engine *e = hold(function)
    limit = patience(limit)
    with nogil:
        rc = acp_wait(e, handle, limit)
    acp_engine_exit(e)
    if rc != ACP_OK:
        if used is not None and rc != ACP_E_CLOSED and engine != NULL:
            held[handle] = used
        forsake_operation(handle)
    ended(function, rc)
    drop_held()
    return 0


cdef int wait_alone(str function, uint64_t handle, int64_t limit, object used=None) except -1:
    end_alone(function, handle, limit, used)
    raise_failures(handle, True, None if function == "wait" else function)
    return 0


cdef object error_alone(str function, uint64_t handle):
    # The operation's error, or None. An exception of a signal handler ends the wait as any.
    end_alone(function, handle, ACP_FOREVER)
    try:
        raise_failures(handle, True, function)
    except Exception as error:
        return error
    return None


cdef int forsake_operation(uint64_t handle) noexcept:
    # No call waits for it any more: should it fail, `complete` says so.
    if engine != NULL and handle:
        acp_await_alone(engine, handle, False)
    return 0


cdef int wait_for_all(str function, uint64_t handle, int64_t limit) except -1:
    cdef int rc
    cdef acp_engine *e = hold(function)
    with nogil:
        rc = acp_complete(e, handle, limit)
    acp_engine_exit(e)
    ended(function, rc)
    drop_held()
    raise_failures(handle, False)
    return 0


cdef int finish_all(str function, int64_t limit) except -1:
    if not acp_quiet(engine) or held:
        wait_for_all(function, ACP_HANDLE_ALL, limit)
        need(function)
    return 0


cdef inline uint64_t meant_by(object handle, str function) except? 0xffffffffffffffff:
    # HANDLE_CONT stands for the calling thread's previous operation.
    cdef uint64_t h = handle_of(handle, function)
    return acp_get_previous() if h == ACP_HANDLE_CONT else h


def complete(handle: Int = HANDLE_ALL, timeout: float | None = None) -> None:
    """Wait until operation `handle` and all before it are complete (paper 003, section 2.5).

    HANDLE_CONT is the calling thread's previous operation, here and in the calls below; null,
    unknown and finished handles return at once. Raises the first error of these operations
    with the others as notes; TimeoutError after `timeout` seconds. Ctrl-C leaves them running.
    """
    if engine == NULL:
        no_engine("complete")
    if acp_quiet(engine) and not held:
        if handle is not HANDLE_ALL:
            handle_of(handle, "complete")
        if timeout is not None:
            nanoseconds(timeout, "complete")
        return
    wait_for_all("complete", meant_by(handle, "complete"), nanoseconds(timeout, "complete"))


def inquire(handle: Int) -> bool:
    """Return True while operation `handle` or one before it is still running."""
    need("inquire")
    return acp_running(engine, meant_by(handle, "inquire"))


def wait(handle: Int, timeout: float | None = None) -> None:
    """Wait until operation `handle` alone, or with HANDLE_ALL all, is complete; raises its error."""
    need("wait")
    cdef uint64_t h = meant_by(handle, "wait")
    cdef int64_t limit = nanoseconds(timeout, "wait")
    if h == ACP_HANDLE_ALL:
        wait_for_all("wait", h, limit)
    else:
        wait_alone("wait", h, limit)


def test(handle: Int) -> bool:
    """Return True if operation `handle` alone, or with HANDLE_ALL all, is complete; raises its error then."""
    need("test")
    cdef uint64_t h = meant_by(handle, "test")
    cdef bint everything = h == ACP_HANDLE_ALL
    if acp_running(engine, h) if everything else not acp_done(engine, h):
        return False
    drop_held()
    raise_failures(h, not everything)
    return True
