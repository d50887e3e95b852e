# A collective that is called again with buffers of the same kind: its plan is at hand.

from libc.string cimport memcmp as c_memcmp, memset as c_memset, strlen

DEF FORMAT = 4  # bytes of a buffer's format that are compared, the end among them

cdef dict lately = {}  # by function: what it was called with last


cdef class Contexts:
    """Contexts of the calls of a team, the same on all members: all count their calls alike.

    Late notes are of them, too: see late.pxi.
    """
    cdef uint64_t base, calls
    cdef uint64_t failed  # the last call that has raised here
    cdef set under_way    # calls that may still raise by themselves, without those of `repeat`

    def __init__(self, base: int):
        self.base = base
        self.under_way = set()

    def __dealloc__(self):
        if known is not None and known.get(self.base >> 32) == <uint64_t><void *>self:
            del known[self.base >> 32]

    def begin(self) -> int:
        """Return the number of the call that has taken a context last; it is under way."""
        known[self.base >> 32] = <uint64_t><void *>self
        self.under_way.add(self.calls)
        return self.calls

    def end(self, call: int) -> None:
        """Have a call no longer under way."""
        self.under_way.discard(call)

    def fail(self, call: int, error: BaseException, ranks: Sequence[int]) -> None:
        """Know that a call has raised here; after a mismatch leave late notes with `ranks`."""
        self.failed = max(self.failed, call)
        if getattr(error, "why", 0):
            leave_late_notes(self, call, error.why, ranks)

    cdef uint64_t take(self) noexcept:
        cdef uint64_t x
        self.calls += 1
        x = self.base + (self.calls + 1) * <uint64_t>0x9E3779B97F4A7C15
        x = (x ^ x >> 30) * <uint64_t>0xBF58476D1CE4E5B9
        x = (x ^ x >> 27) * <uint64_t>0x94D049BB133111EB
        x ^= x >> 31
        return x if x else 1

    def next(self) -> int:
        """Return the context of the next call."""
        return self.take()


cdef struct shape:
    Py_ssize_t size, width
    char format[FORMAT]


cdef bint shape_of(const Py_buffer *view, shape *out) noexcept:
    # False: its elements have no name that is so short, or do not lie as C wants them.
    cdef Py_ssize_t width = view.itemsize
    cdef const char *name = view.format
    if name == NULL or width <= 0 or width > 16 or width & (width - 1) or strlen(name) >= FORMAT:
        return False
    out.size, out.width = view.len, width
    c_memset(out.format, 0, FORMAT)
    c_memcpy(out.format, name, strlen(name))
    return not <size_t>view.buf & (width - 1)


cdef bint look(object x, bint writable, Py_buffer *view, shape *out) noexcept:
    # The buffer, contiguous; False: it is none, and what is wrong is said elsewhere.
    try:
        PyObject_GetBuffer(x, view, PyBUF_FORMAT | PyBUF_ND | (PyBUF_WRITABLE if writable else 0))
    except Exception:
        return False
    if shape_of(view, out):
        return True
    PyBuffer_Release(view)
    return False


cdef bint alike(const shape *a, const shape *b) noexcept:
    return a.size == b.size and a.width == b.width and not c_memcmp(a.format, b.format, FORMAT)


cdef bint fits(object now, object then):
    # A number, a name or None.
    return now is then or type(now) is type(then) and now == then


cdef bint fits_all(object now, tuple then):
    if then is None or now is None:
        return now is then
    return (type(now) is list or type(now) is tuple) and tuple(now) == then


cdef class Lately:
    """The last arguments of one function, called by all living members, and their plan."""
    cdef Plan plan
    cdef Contexts contexts
    cdef uint32_t procs
    cdef uint64_t refreshes
    cdef object op, root
    cdef tuple counts, out_counts
    cdef bint gives, takes, over  # `x` may lie exactly over `out`
    cdef bint spreads, top        # bcast: its only buffer is `out`, or the root's `x`
    cdef shape given, wanted

    cdef bint same(self, object op, object root, object counts, object out_counts):
        return (self.procs == acp_procs(engine) and self.refreshes == refreshes
                and fits(op, self.op) and fits(root, self.root)
                and fits_all(counts, self.counts) and fits_all(out_counts, self.out_counts))

    cdef bint apart(self, const Py_buffer *a, const Py_buffer *b) noexcept:
        cdef const char *x = <const char *>a.buf
        cdef const char *y = <const char *>b.buf
        return x + a.len <= y or y + b.len <= x or self.over and x == y


cdef object spread_of(bint top, object x, object out):
    # The buffer of a bcast; None: it is not the only one.
    if not top:
        return None if type(out) is tuple else out
    return x if type(out) is tuple or out is x else None


def remember(str function, Collective done, Contexts contexts, bint top, x, out, op, root, counts,
             out_counts) -> None:
    """Have `repeat` know this call, which all that live have just made and which went well."""
    cdef Lately l = Lately.__new__(Lately)
    cdef Py_buffer view
    lately.pop(function, None)
    if engine == NULL or done.plan.folder is not None or type(op) not in (str, type(None)):
        return
    if type(root) not in (int, type(None)):
        return
    l.plan, l.contexts, l.top = done.plan, contexts, top
    l.procs, l.refreshes = acp_procs(engine), refreshes
    l.op, l.root = op, root
    l.counts = None if counts is None else tuple(counts)
    l.out_counts = None if out_counts is None else tuple(out_counts)
    l.spreads = function == "bcast"
    l.over = op is not None and function != "reduce_scatter"
    l.gives, l.takes = done.gave, done.took
    if l.spreads:
        out = spread_of(top, x, out)
    if l.gives:
        if not look(x, False, &view, &l.given):
            return
        PyBuffer_Release(&view)
    if l.takes:
        if out is None or not look(out, not (l.spreads and top), &view, &l.wanted):
            return
        PyBuffer_Release(&view)
    lately[function] = l


def forget_collectives() -> None:
    """Remember no call any more: the ranks, or their memory, are others."""
    lately.clear()
    forget_late_notes()


def repeat(str function, x, out, op, root, counts, out_counts) -> bool:
    """Carry out a call that is as the last one of `function` was; False: it is not."""
    cdef Lately l = <Lately>lately.get(function)
    cdef Collective c
    cdef shape given, wanted
    if l is None or engine == NULL or not l.same(op, root, counts, out_counts):
        return False
    if l.spreads:
        out = spread_of(l.top, x, out)
        if out is None:
            return False
    c = Collective.__new__(Collective)
    if l.gives:
        c.has_given = look(x, False, &c.given, &given)
        if not c.has_given or not alike(&given, &l.given):
            return False
    if l.takes:
        c.has_wanted = look(out, not (l.spreads and l.top), &c.wanted, &wanted)
        if not c.has_wanted or not alike(&wanted, &l.wanted):
            return False
    if l.gives and l.takes and not l.apart(&c.given, &c.wanted):
        return False
    if lately.get(function) is not l:  # a buffer of a class with Python code has finalized
        return False
    try:
        c.begin(function, l.plan, l.contexts.take())
    except Exception:  # no room: the long way tells the others, in the same context
        l.contexts.calls -= 1
        return False
    cdef uint64_t call = l.contexts.calls
    try:
        c.carry(ACP_FOREVER)
    except BaseException as error:
        l.contexts.fail(call, error, [l.plan.ranks[i] for i in range(l.plan.plan.members)])
        raise
    return True
