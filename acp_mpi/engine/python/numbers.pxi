# Python numbers become addresses, values and handles; what is none is refused with the reason.

from cpython.long cimport PyLong_AsUnsignedLongLong, PyLong_AsUnsignedLongLongMask
from cpython.number cimport PyIndex_Check, PyNumber_Index
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cdef extern from "Python.h":
    bint PyLong_CheckExact(object)
    object PyNumber_Subtract(object, object)
    long long PyLong_AsLongLongAndOverflow(object, int *overflow) except? -1

HANDLE_NULL = 0
HANDLE_ALL = ACP_HANDLE_ALL
HANDLE_CONT = ACP_HANDLE_CONT
GA_NULL = 0


cdef object as_int(object x, str function, str what):
    if PyLong_CheckExact(x):
        return x
    several = getattr(x, "ndim", 0) != 0
    if PyIndex_Check(x) and not several:  # arrays of NumPy have that method, too
        x = PyNumber_Index(x)
        need(function)  # that may be Python code: it, or another thread meanwhile, may have finalized
        return x
    hint = ""
    if several:
        hint = "; give one element of it, or use a function for many"
    elif hasattr(x, "is_integer"):
        hint = "; NumPy makes a float of int64 and uint64 together: keep to one of them"
    raise TypeError(f"{function}: {what} must be an integer, not {type(x).__name__} {x!r:.80}{hint}")


cdef uint64_t slow_address(object x, str function) except? 0xffffffffffffffff:
    x = as_int(x, function, "a global address")
    if 0 <= x < 1 << 63:
        return PyLong_AsUnsignedLongLong(x)
    raise _errors.AddressError(
        f"{function}: {x} is not a global address: one is an int from 1 to 2**63 - 1")


cdef inline uint64_t address(object x, str function) except? 0xffffffffffffffff:
    cdef int overflow = 0
    cdef long long ga
    if PyLong_CheckExact(x):
        ga = PyLong_AsLongLongAndOverflow(x, &overflow)
        if ga >= 0 and not overflow:
            return ga
    return slow_address(x, function)


cdef inline uint64_t amount(object x, str function) except? 0xffffffffffffffff:
    x = x if PyLong_CheckExact(x) else as_int(x, function, "a size")
    if x < 0:
        raise ValueError(f"{function}: the size {x} is negative; use 0 or more")
    if x >= 1 << 63:
        raise ValueError(f"{function}: the size {x} is larger than any region; "
                         "use less than 1 TiB")
    return PyLong_AsUnsignedLongLong(x)


cdef inline uint64_t value_of(object x, str function) except? 0xffffffffffffffff:
    cdef int overflow = 0
    cdef long long value
    if not PyLong_CheckExact(x):
        x = as_int(x, function, "a value")
    value = PyLong_AsLongLongAndOverflow(x, &overflow)
    if not overflow:
        return <uint64_t>value
    if not -(1 << 63) <= x < 1 << 64:
        raise OverflowError(f"{function}: the value {x} is outside -2**63 to 2**64 - 1")
    return PyLong_AsUnsignedLongLongMask(x)


cdef inline uint64_t handle_of(object x, str function) except? 0xffffffffffffffff:
    cdef int overflow = 0
    cdef long long handle
    if not PyLong_CheckExact(x):
        x = as_int(x, function, "a handle")
    handle = PyLong_AsLongLongAndOverflow(x, &overflow)
    if handle < 0 or overflow:
        raise ValueError(f"{function}: {x} is not a handle: one is what an operation returned, "
                         "HANDLE_NULL, HANDLE_ALL or HANDLE_CONT")
    return handle


cdef inline uint32_t rank_of(object x, str function) except? 0xffffffff:
    x = as_int(x, function, "a rank")
    if not 0 <= x < acp_procs(engine) and not is_somebody_new(x):
        raise _errors.RankError(
            f"{function}: there is no rank {x}, ranks are 0 to {acp_procs(engine) - 1}")
    return x


cdef object ask_for_new = None  # called when there may be more ranks than are known here


def set_ask_for_new(callback) -> None:
    """Install what is called when a rank is named that is not known: it learns of newcomers."""
    global ask_for_new
    ask_for_new = callback


cdef bint is_somebody_new(object x) except -1:
    if not 0 <= x < 1 << 21:
        return False
    if not acp_known(engine, x) and ask_for_new is not None:
        ask_for_new()
    return acp_known(engine, x)


cdef int64_t nanoseconds(object timeout, str function) except? -2:
    cdef bint here = engine != NULL
    if timeout is None:
        return ACP_FOREVER
    try:
        seconds = -1.0 if isinstance(timeout, (str, bytes, bytearray)) else float(timeout)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if here:
        need(function)  # that may be Python code, as in `as_int`
    if not seconds >= 0:
        raise ValueError(f"{function}: the timeout {timeout!r} is not a number of seconds from 0")
    return ACP_FOREVER if seconds > 9e9 else <int64_t>(seconds * 1e9)


def seconds_of(timeout: float | None, str function) -> float | None:
    """Return a timeout as a number of seconds, None: for ever. ValueError for what is none."""
    cdef int64_t limit = nanoseconds(timeout, function)
    return None if limit == ACP_FOREVER else limit / 1e9


cdef int64_t clock() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef int64_t end_of(int64_t limit) noexcept:
    # When it will have passed; what takes several waits has one limit for all of them.
    return limit if limit == ACP_FOREVER else clock() + limit


cdef int64_t left_until(int64_t end) noexcept:
    return end if end == ACP_FOREVER else max(end - clock(), 0)


def query_rank(ga: Int) -> int:
    """Return the rank that owns `ga`, -1 for the null address (paper 003, table 2)."""
    return owner(ga, "query_rank")


def owner(ga: Int, str function) -> int:
    """Return the rank that owns `ga`, -1 for null; errors name `function`."""
    need(function)
    cdef uint64_t a = address(ga, function)
    if a and not acp_known(engine, acp_ga_rank(a)):
        raise _errors.from_fault(function, ACP_E_RANK, a, 0, acp_ga_rank(a), 0, 0, 0,
                                 acp_procs(engine))
    return acp_ga_rank(a)


def existing_rank(rank: Int, str function) -> int:
    """Return `rank` if there is one; errors name `function`."""
    need(function)
    return rank_of(rank, function)


def query_color(ga: Int) -> int:
    """Return the color in `ga`, -1 for the null address (paper 003, table 2)."""
    need("query_color")
    cdef uint64_t a = address(ga, "query_color")
    return acp_ga_color(a) if a else -1


def colors() -> int:
    """Return how many colors there are (paper 003, section 2.4)."""
    return ACP_COLORS
