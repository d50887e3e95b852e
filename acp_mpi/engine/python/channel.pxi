# Channels: one sender, one receiver, a ring of slots in the receiver's heap.

from cpython.bytearray cimport PyByteArray_AS_STRING


cdef class Slot  # channel_views.pxi
cdef class Taken
cdef class Reservation
cdef class ChannelRequest


cdef class Channel:
    """One end of a channel from rank `sender` to rank `receiver`: messages in order, in a ring of bounded memory.

    `size`: bytes of a slot; `slots`: messages that fit; `dtype`: of the elements, `object` for pickled objects, None for
    bytes. Local: returns at once, and only the two ranks call it; the k-th channel that one of them creates meets the
    k-th of the other with the same sender. Ends that differ raise ValueError at the first use. The ring is
    in the receiver's heap until both ends are closed or the sender has died: HeapFullError here, and never later.
    Longer messages than `size` travel in pieces. RankError for the same rank twice, or if the caller is neither.
    """
    cdef acp_channel *end
    cdef acp_engine *e
    cdef readonly uint64_t size
    cdef readonly uint32_t slots, peer
    cdef readonly object dtype
    cdef readonly bint sends
    cdef Elements elements
    cdef bint over
    cdef bint half  # a receive that did not wait for all its pieces has left them in `gathered`
    cdef Reservation reservation  # that is open
    cdef object gathered  # pieces of a long message: a bytearray, or what takes them to a device; bytes that have come
    cdef uint64_t filled

    def __init__(self, sender: Int, receiver: Int, *, size: Int = 2048, slots: Int = 8, dtype=None):
        cdef acp_channel_shape shape
        self.join("Channel", sender, receiver)
        bytes_of_slot, count = as_int(size, "Channel", "size"), as_int(slots, "Channel", "slots")
        if not 1 <= bytes_of_slot <= ACP_CHANNEL_SIZE_MOST or not 1 <= count <= ACP_CHANNEL_SLOTS_MOST:
            raise ValueError(f"Channel: size={size} and slots={slots}; a slot has 1 byte to 2**38, and a channel 1 to "
                             f"{ACP_CHANNEL_SLOTS_MOST} slots")
        self.elements = Elements(dtype, bytes_of_slot)
        self.dtype = self.elements.dtype
        self.size, self.slots = bytes_of_slot, count
        shape.size, shape.slots, shape.segments = self.size, self.slots, False
        shape.type = self.elements.hash()
        self.make("Channel", &shape, acp_channel_bytes(self.size, self.slots))

    cdef int join(self, str function, object sender, object receiver) except -1:
        cdef uint32_t source, target
        if self.end != NULL:
            raise _errors.Error(f"{function}: this one exists already; create another")
        need(function)
        source, target = rank_of(sender, function), rank_of(receiver, function)
        if source == target or acp_rank(engine) not in (source, target):
            raise _errors.RankError(
                f"{function}: sender {source} and receiver {target}: they must be two ranks, and this rank, "
                f"{acp_rank(engine)}, one of them")
        self.sends = acp_rank(engine) == source
        self.peer = target if self.sends else source
        return 0

    cdef int make(self, str function, acp_channel_shape *shape, uint64_t ring_bytes) except -1:
        cdef uint64_t ring = 0
        shape.sends = self.sends
        need(function)  # a dtype may be made by Python code
        if not self.sends:
            ring = block_take(function, acp_rank(engine), ring_bytes)
        if acp_channel_new(lane0, self.peer, shape, ring, &self.end) != ACP_OK:
            if ring:
                block_give(function, ring)
            raise_fault(function, lane0)
        self.e = engine
        return 0

    def __dealloc__(self):
        if self.end != NULL:
            acp_channel_free(self.end)

    def __reduce__(self):
        raise TypeError("Channel: an end belongs to its process and cannot be pickled; create one on each of the two ranks")

    def __repr__(self):
        way = "to" if self.sends else "from"
        state = "closed" if self.closed else "open" if self.connected else "not connected"
        return f"<acp_mpi.Channel {way} rank {self.peer}, {self.slots} slots of {self.size} bytes, {state}>"

    # --- errors

    cdef int demand(self, str function, bint sends) except -1:
        if self.end == NULL:
            raise _errors.ClosedError(f"{function}: this Channel was never created; call acp.Channel(sender, receiver)")
        if self.sends != sends:
            raise _errors.Error(f"{function}: this end {'sends' if self.sends else 'receives'}; "
                                f"{'the receiver' if self.sends else 'the sender'}, rank {self.peer}, calls that")
        return 0

    cdef int failed(self, str function, int rc) except -1:
        return 0 if rc == ACP_OK else channel_failed(self, function, rc)

    # --- sending

    def send(self, x, timeout: float | None = None) -> None:
        """Send a buffer, with a dtype an array of it, with dtype=object anything that can be pickled.

        Returns when its bytes are in the ring, or in a buffer that `recv` has; waits only while the ring is full.
        ClosedError when the receiver has closed, PeerLostError when it has died; TimeoutError after `timeout` seconds:
        nothing is sent then, nor after Ctrl-C.
        """
        cdef int64_t limit = nanoseconds(timeout, "send")
        cdef payload p
        cdef acp_engine *e = self.e
        self.demand("send", True)
        if self.elements.kind != PICKLED and not PyObject_CheckBuffer(x) and shows_memory(x):
            parts = mail_payload().leaving(x, "send", self.dtype, self.size)
            if parts is not None:
                acp_engine_enter(e)
                try:
                    channel_push_parts(self, parts, limit)
                finally:
                    parts.end()
                    acp_engine_exit(e)
                return
        keeper = self.elements.pack(x, &p, "send")
        try:
            if p.size > self.size or p.size > SMALL or acp_channel_send_short(self.end, p.data, p.size) != ACP_OK:
                acp_engine_enter(e)
                try:
                    channel_push(self, p.data, p.size, limit)
                finally:
                    acp_engine_exit(e)
        finally:
            unpack_nothing(&p)
            del keeper

    def isend(self, x) -> Request[None]:
        """Begin to send as `send` does; return a Request: its `wait()` returns once the bytes are in the ring.

        It goes on while the program computes. Sends that have begun end in order, and before a call that waits; errors of
        `send` are those of `wait` and `test`. `x` must not be changed before it is done. `close` ends it.
        """
        cdef payload p
        cdef ChannelRequest r = ChannelRequest.__new__(ChannelRequest)
        self.demand("isend", True)
        r.keep = self.elements.pack(x, &p, "isend")
        if p.viewed:
            r.view, r.viewed = p.view, True
        return r.begin(self, "isend", <void *>p.data, p.size)

    def reserve(self, n: Int | None = None, timeout: float | None = None) -> Reservation:
        """Return a context whose variable is the next slot itself, writable: an array of the dtype, or a memoryview.

        `n`: elements, or bytes without a dtype, at most those of a slot, which is the default. Leaving publishes them, or
        as many as `commit` said; an exception publishes nothing. On another node, and of slots of 2 KiB to 1 MiB, it is memory
        of this process that is sent then. The view must not be used afterwards. Errors as of `send`.
        """
        cdef Reservation r = Reservation.__new__(Reservation)
        self.demand("reserve", True)
        if self.elements.kind == PICKLED:
            raise TypeError("reserve: this channel carries pickled objects; use send")
        r.channel, r.limit = self, nanoseconds(timeout, "reserve")
        most = self.size // self.elements.width
        wanted = most if n is None else as_int(n, "reserve", "a number of elements")
        if not 0 <= wanted <= most:
            raise ValueError(f"reserve: {n} elements of {self.elements.width} bytes do not fit a slot of {self.size}; at most {most}")
        r.count = r.most = wanted
        return r

    def commit(self, n: Int) -> None:
        """Inside `reserve`: publish only the first `n` elements, or bytes, of the slot."""
        self.demand("commit", True)
        if self.reservation is None:
            raise _errors.Error("commit: no slot of this channel is reserved; call it inside `with channel.reserve()`")
        count = as_int(n, "commit", "a number of elements")
        if not 0 <= count <= self.reservation.most:
            raise ValueError(f"commit: {n} elements, and {self.reservation.most} are reserved")
        self.reservation.count = count

    # --- receiving

    cdef object place_for(self, str function, object buffer, Py_buffer *view):
        if self.elements.kind == PICKLED:
            raise TypeError(f"{function}: this channel carries pickled objects; receive by recv() without a buffer")
        if self.elements.kind == TYPED and getattr(buffer, "dtype", self.dtype) != self.dtype:
            raise TypeError(f"{function}: a buffer of {buffer.dtype} for a channel of {self.dtype}; give one of that type")
        return plain_buffer(buffer, view, True, function)

    def irecv(self, buffer: _Buffer) -> Request[_Buffer]:
        """Begin to receive as `recv(buffer)` does; return a Request: its `wait()` returns `buffer`, filled.

        It goes on while the program computes. Receives that have begun end in order, and before a call that waits; errors
        of `recv` are those of `wait` and `test`, and `status` has the size. `buffer` must not be touched before it is done.
        `close` ends it.
        """
        cdef ChannelRequest r = ChannelRequest.__new__(ChannelRequest)
        self.demand("irecv", False)
        if self.half:
            raise _errors.Error("irecv: a recv that timed out has received part of a long message; call recv for the rest of it")
        r.finish = self.place_for("irecv", buffer, &r.view)
        r.viewed, r.result = True, buffer
        return r.begin(self, "irecv", r.view.buf, r.view.len)

    def recv(self, buffer: _Buffer = None, timeout: float | None = None,
             status: Status | None = None) -> Any if buffer is None else _Buffer:
        """Receive the next message; return `buffer`, filled, or an array, bytes, or the object.

        Of a message that is shorter than `buffer` the rest of that is left alone; of a longer one comes what fits, with
        TruncationError. `status.size` becomes its bytes. EndOfChannel when the sender has closed and all is received,
        PeerLostError when it has died, after all that it had sent; TimeoutError after `timeout` seconds: no message is lost
        by that or by Ctrl-C.
        """
        cdef int64_t limit = nanoseconds(timeout, "recv")
        cdef acp_piece p
        cdef Py_buffer view
        cdef bint whole
        cdef Status room = room_for(status, "recv")
        finish = None
        if buffer is not None:
            finish = self.place_for("recv", buffer, &view)
        try:
            whole = channel_gather(self, "recv", limit, &p, &view if buffer is not None else NULL, finish)
            try:
                if not whole and type(self.gathered) is not bytearray:
                    self.gathered.finish()
                    p.data, p.rest, finish = view.buf, len(self.gathered), None
                elif not whole:
                    p.data, p.rest = PyByteArray_AS_STRING(self.gathered), len(self.gathered)
                if room is not None:
                    room.source, room.tag, room.size, room.note = self.peer, 0, p.rest, BYTES
                if buffer is None:
                    return self.elements.unpack(<const char *>p.data, p.rest, self.peer)
                if p.data != view.buf:
                    copy_bytes(view.buf, p.data, min(p.rest, <uint64_t>view.len))
            finally:
                if whole:
                    acp_channel_release(self.end, p.number)
                else:
                    self.gathered = None
                acp_channel_give_turn(self.end)
        finally:
            if buffer is not None:
                PyBuffer_Release(&view)
        if finish is not None:
            finish(min(p.rest, <uint64_t>view.len))
        if p.rest > <uint64_t>view.len:
            truncated("recv", p.rest, view.len)
        return buffer

    cdef object next_view(self, str function, int64_t limit):
        cdef acp_piece p
        cdef Slot slot
        cdef bint whole = channel_gather(self, function, limit, &p)
        try:
            if not whole or self.elements.kind == PICKLED or p.rest == 0:
                try:
                    if not whole:
                        p.data, p.rest = PyByteArray_AS_STRING(self.gathered), len(self.gathered)
                    made = self.elements.unpack(<const char *>p.data, p.rest, self.peer)
                finally:
                    if whole:
                        acp_channel_release(self.end, p.number)
                    self.gathered = None
                if self.elements.kind == RAW:
                    return memoryview(made)
                if self.elements.kind == TYPED:
                    made.flags.writeable = False
                return made
            slot = Slot.__new__(Slot)
            slot.data, slot.size, slot.number, slot.channel = <char *>p.data, p.rest, p.number, self
        finally:
            acp_channel_give_turn(self.end)
        return self.elements.view(slot)

    def take(self, timeout: float | None = None) -> Taken:
        """Return a context whose variable is the next message: a read-only view of its slot, or the object.

        The view keeps its slot as long as it lives; when views keep all of them the next call raises BufferError. Errors
        as of `recv`.
        """
        cdef Taken t = Taken.__new__(Taken)
        self.demand("take", False)
        t.channel, t.limit = self, nanoseconds(timeout, "take")
        return t

    def __iter__(self) -> Iterator[Any]:
        self.demand("iter", False)
        return self

    def __next__(self) -> Any:
        try:
            return self.next_view("next", ACP_FOREVER)
        except _errors.EndOfChannel:
            raise StopIteration from None

    def poll(self) -> bool:
        """Return True if a receive, or on the sender's end a send, would return or raise at once."""
        if self.end == NULL:
            self.demand("poll", False)
        return acp_channel_state(self.end) != ACP_E_BUSY

    # --- the end, and what it is

    def close(self) -> None:
        """Close this end; local, and at once. What was sent is still received; a sender's next call raises ClosedError."""
        if self.end != NULL:
            with nogil:  # a thread inside may need the interpreter
                acp_channel_close(self.end)

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    cdef tuple state(self):
        cdef acp_channel_look l
        if self.end == NULL:
            return 0, 0, 0, 0, False, True
        acp_channel_look_at(self.end, &l)
        return l.messages, l.waits, l.pending, l.held, l.connected, l.closed

    @property
    def memory(self) -> int:
        """Bytes that this end takes while it is open: private memory, and at the receiver the ring in its heap."""
        private = _sys.getsizeof(self) + _sys.getsizeof(self.elements)
        return private + (acp_channel_memory(self.end) if self.end != NULL else 0)

    @property
    def connected(self) -> bool:
        """True once both ends know each other."""
        return self.state()[4]

    @property
    def closed(self) -> bool:
        """True once this end is closed, by `close`, `reset` or `finalize`."""
        return self.state()[5]

    @property
    def pending(self) -> int:
        """Slots in the ring that the receiver has not taken, or of a sender those not given back."""
        return self.state()[2]

    def statistics(self) -> ChannelStatistics:
        """Return `messages` of this end so far, its `waits`, slots `pending`, and slots `held` by views."""
        from acp_mpi.comm.channels import ChannelStatistics
        return ChannelStatistics(*self.state()[:4])
