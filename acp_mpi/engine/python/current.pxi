# The engine of this process, and how its faults become exceptions.

from libc.errno cimport EBADMSG, errno as c_errno

_alias = type(list[int])  # what Map[str, int] is, as types.GenericAlias, without its module
from acp_mpi import errors as _errors

cdef acp_engine *engine = NULL
cdef acp_lane *lane0 = NULL  # of the holder of the interpreter lock
cdef bint forked = False
cdef object long_wait = None  # called once by a wait that lasts a minute


cdef int no_engine(str function) except -1:
    if forked:
        raise _errors.NotInitializedError(
            f"{function}: this is a forked child; it may read arrays, but acp_mpi belongs to its "
            "parent: start processes with the spawn method instead")
    raise _errors.NotInitializedError(f"{function}: call acp.init() first")


cdef inline int need(str function) except -1:
    if engine == NULL:
        no_engine(function)
    return 0


cdef acp_engine *hold(str function) except NULL:
    # Around a wait without the interpreter lock: another thread may finalize meanwhile, or have
    # done so since this call began.
    need(function)
    acp_engine_enter(engine)
    return engine


cdef object exception_of(str function, const acp_fault *fault):
    cdef uint32_t procs = acp_procs(engine) if engine != NULL else 0
    return _errors.from_fault(function, fault.status, fault.ga, fault.size, fault.rank,
                              fault.error, fault.low, fault.high, procs)


cdef int raise_fault(str function, acp_lane *lane) except -1:
    raise exception_of(function, acp_lane_fault(lane))


cdef int raise_status(str function, int status, int64_t rank=-1) except -1:
    cdef int error = c_errno if status == ACP_E_SYSTEM else 0
    raise _errors.from_fault(function, status, 0, 0, rank, error)


cdef int on_tick(void *context, int reason) noexcept nogil:
    with gil:
        return tick_with_gil(reason)


cdef int tick_with_gil(int reason) noexcept:
    # An exception that a signal handler raised stays set; the wait ends and its caller sees it.
    if reason == ACP_TICK_SIGNAL:
        return signals_raised()
    if reason == ACP_TICK_ALONE:
        return nobody_else()
    try:
        if long_wait is not None:
            long_wait()
    except Exception:
        return 0  # a diagnosis that fails must not end the wait
    except BaseException as end:  # Ctrl-C: to be raised where the wait was called
        PyErr_SetObject(type(end), end)
        return 1
    return 0


cdef int nobody_else() noexcept:
    # Neither a thread of this process, nor a rank of a group that joined unnoticed.
    if PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get())) != NULL:
        return 0
    try:
        if ask_for_new is not None:
            ask_for_new()
    except Exception:
        return 0
    except BaseException:  # Ctrl-C: it comes again where the wait looks for signals
        PyErr_SetInterrupt()
        return 0
    return 1


cdef extern from "Python.h":
    ctypedef struct PyThreadState
    ctypedef struct PyInterpreterState
    PyInterpreterState *PyInterpreterState_Get()
    PyThreadState *PyInterpreterState_ThreadHead(PyInterpreterState *)
    PyThreadState *PyThreadState_Next(PyThreadState *)
    void PyErr_SetInterrupt()
    void PyErr_SetObject(object, object)
    int signals_raised "PyErr_CheckSignals"() noexcept


def _after_fork_in_child() -> None:
    global engine, lane0, forked
    if engine != NULL:
        forked = True
        acp_engine_forked(engine)
        c_api_forked()
    engine = NULL
    lane0 = NULL


def set_long_wait(callback) -> None:
    """Install what a wait calls once when it has lasted a minute."""
    global long_wait
    long_wait = callback
