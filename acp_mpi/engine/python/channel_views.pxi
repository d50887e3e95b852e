# Messages in their slots: what is received and what is written there, and the choice among several channels.

cdef uint32_t select_turn = 0

cdef extern from "Python.h":
    int PyBuffer_FillInfo(Py_buffer *, object, void *, Py_ssize_t, int, int) except -1


@cython.no_gc_clear  # a slot in a cycle of the program is still given back
cdef class Slot:
    """The bytes of a slot, as a buffer; a received one is given back with the last view of it."""
    cdef Channel channel
    cdef char *data
    cdef Py_ssize_t size
    cdef uint64_t number
    cdef bint writable

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, not self.writable, flags)

    def __dealloc__(self):
        if self.channel is None:
            return
        if self.writable:
            acp_engine_exit(self.channel.e)
        else:
            acp_channel_release(self.channel.end, self.number)


cdef class Taken:
    """What `Channel.take` returns."""
    cdef Channel channel
    cdef int64_t limit
    cdef object view

    def __enter__(self) -> Any:
        self.view = self.channel.next_view("take", self.limit)
        return self.view

    def __exit__(self, *exc) -> None:
        view, self.view = self.view, None
        if type(view) is memoryview:
            view.release()


cdef class Reservation:
    """What `Channel.reserve` returns."""
    cdef Channel channel
    cdef int64_t limit
    cdef uint64_t count, most
    cdef object view
    cdef char *data
    cdef bint inside

    def __enter__(self) -> Any:
        cdef Slot slot
        cdef int rc
        cdef Channel c = self.channel
        if self.inside:
            raise _errors.Error("reserve: this reservation is open already; call reserve again for the next slot")
        acp_engine_enter(c.e)
        try:
            rc = acp_channel_open(c.end, ACP_CHANNEL_GLANCE if self.limit else 0)
            if rc == ACP_E_TIMEOUT and self.limit:
                with nogil:
                    rc = acp_channel_open(c.end, self.limit)
            c.failed("reserve", rc)
            rc = acp_channel_reserve(c.end, True)
            self.data = <char *>acp_channel_slot(c.end) if rc == ACP_OK else NULL
            if self.data == NULL:
                if rc == ACP_OK:
                    acp_channel_reserve(c.end, False)
                acp_channel_give_turn(c.end)
                c.failed("reserve", rc)
                raise MemoryError(f"reserve: {c.size} bytes for a slot")
        except BaseException:
            acp_engine_exit(c.e)
            raise
        self.inside = True
        slot = Slot.__new__(Slot)
        slot.data, slot.size, slot.writable = self.data, self.most * c.elements.width, True
        slot.channel = c  # it keeps the memory of the peer mapped
        c.reservation = self
        self.view = c.elements.view(slot) if self.most else memoryview(bytearray())
        return self.view

    def __exit__(self, kind, error, traceback) -> None:
        cdef Channel c = self.channel
        cdef int rc = ACP_OK
        cdef uint64_t n = self.count * c.elements.width
        if not self.inside:
            return
        self.inside = False
        c.reservation = None
        view, self.view = self.view, None
        acp_engine_enter(c.e)
        if kind is None:
            with nogil:
                rc = acp_channel_commit(c.end, self.data, n, n, True, ACP_FOREVER)
        acp_channel_reserve(c.end, False)
        acp_channel_give_turn(c.end)
        acp_engine_exit(c.e)
        if type(view) is memoryview:
            try:
                view.release()
            except BufferError:
                pass  # the program keeps a view of it, which it must not use
        else:
            view.setflags(False)
        c.failed("reserve", rc)


def select(channels: Iterable[Channel], timeout: float | None = None) -> Channel:
    """Wait until one of these receiving ends has a message, or its end, and return it; several by turns.

    A receive from it returns at once, or raises. An end whose sender has closed it is returned once and then left out;
    EndOfChannel when that is so for all. TimeoutError after `timeout` seconds.
    """
    if isinstance(channels, Channel):  # a list of it would be all that it brings
        raise TypeError("select: one Channel is not a list of them; its recv() waits for one")
    return selected(list(channels), None, nanoseconds(timeout, "select"))


def select_or(channels: list[Channel], Request also) -> Channel | None:
    """Do the same; return None when a receive is done."""
    return selected(channels, also, ACP_FOREVER)


cdef Channel selected(list listed, Request also, int64_t limit):
    global select_turn
    cdef acp_channel **all_ends
    cdef acp_request *request = NULL
    cdef uint32_t which = 0, n, i
    cdef int rc
    cdef Channel c
    for each in listed:
        if not isinstance(each, Channel):
            raise TypeError(f"select: {each!r:.60} is no Channel")
        (<Channel>each).demand("select", False)
    need("select")
    open_ones = [each for each in listed if not (<Channel>each).over]
    if not open_ones:
        raise _errors.EndOfChannel(f"select: all of the {len(listed)} channels have ended")
    n = len(open_ones)
    room = bytearray(n * sizeof(acp_channel *))
    all_ends = <acp_channel **><void *>PyByteArray_AS_STRING(room)
    for i in range(n):
        all_ends[i] = (<Channel>open_ones[i]).end
    if also is not None:
        if also.here():
            return None
        request = also.request
    acp_engine_enter(engine)
    cdef acp_engine *e = engine
    select_turn += 1
    i = select_turn
    rc = acp_channel_select(all_ends, n, i, request, 0, &which)
    if rc == ACP_E_TIMEOUT and limit:
        if also is not None:
            also.waiting += 1
        with nogil:
            rc = acp_channel_select(all_ends, n, i, request, limit, &which)
        if also is not None:
            also.waiting -= 1
    acp_engine_exit(e)
    if rc == ACP_E_TIMEOUT:
        raise TimeoutError(f"select: nothing came on {n} channels within the given time; give more time, or none at all")
    ended("select", rc)
    if which == n:
        return None
    c = open_ones[which]
    c.over = acp_channel_state(c.end) == ACP_E_LEFT
    return c


def end_channels() -> None:
    """Close all ends of channels here: a reset, or the end of the job, comes."""
    cdef acp_engine *e = engine
    if e != NULL:
        with nogil:
            acp_channels_end(e)
