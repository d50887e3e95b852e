# What the two ends of a segmented buffer tell each other: a channel whose messages have no bytes, each a full segment.


cdef class SegmentChannel(Channel):
    """One end; a message says that the next segment is full, and goes back when that is released.

    `size`: bytes of a segment; `ga`: where they are at the receiver, which it alone gives.
    """
    cdef uint64_t ga

    def __init__(self, sender: Int, receiver: Int, segments: int, size: int, ga: int):
        cdef acp_channel_shape shape
        self.join("SegmentedBuffer", sender, receiver)
        if not 1 <= segments <= ACP_CHANNEL_SLOTS_MOST:
            raise ValueError(f"SegmentedBuffer: {segments} segments; give 1 to {ACP_CHANNEL_SLOTS_MOST}")
        self.size, self.slots, self.ga = size, segments, ga
        shape.size, shape.slots, shape.type, shape.segments = size, segments, ga, True
        self.make("SegmentedBuffer", &shape, acp_channel_bytes(0, segments))

    cdef int failed(self, str function, int rc) except -1:
        cdef acp_channel_look l
        if rc == ACP_E_TIMEOUT:
            acp_channel_look_at(self.end, &l)
            what = ("released no segment" if self.sends else "acked no segment") if l.connected else "not created its end"
            raise TimeoutError(f"{function}: rank {self.peer} has {what} within the given time; give more time, or none at all")
        if rc == ACP_E_LEFT and not self.sends:
            raise _errors.EndOfChannel(f"{function}: rank {self.peer} has closed its end, and all that it acked is released")
        if rc == ACP_E_LEFT:
            raise _errors.ClosedError(f"{function}: rank {self.peer} has closed its end, and takes nothing more; close this "
                                      "one, too")
        if rc == ACP_E_MISMATCH:
            acp_channel_look_at(self.end, &l)
            raise ValueError(f"{function}: this end has {self.slots} segments of {self.size} bytes, and that of rank "
                             f"{self.peer} {l.other.slots} of {l.other.size}; give the same on both")
        return Channel.failed(self, function, rc)

    def demand_end(self, str function, source: bool) -> None:
        """Raise Error unless this end is that of the source, or of the destination."""
        if self.sends != source:
            raise _errors.Error(f"{function}: this end is the {'source' if self.sends else 'destination'}; rank {self.peer}, "
                                f"the {'destination' if self.sends else 'source'}, calls that")

    def await_other(self, str function, timeout: float | None) -> None:
        """Wait until both ends know each other, and are alike."""
        self.await_event(function, ACP_CHANNEL_MET, nanoseconds(timeout, function))

    def await_segment(self, str function, timeout: float | None) -> None:
        """Wait for a free segment at the source, a full one at the destination."""
        self.await_event(function, ACP_CHANNEL_READY, nanoseconds(timeout, function))

    def await_empty(self, str function, timeout: float | None) -> None:
        """Wait until all segments that the source has acked are released."""
        self.await_event(function, ACP_CHANNEL_EMPTY, nanoseconds(timeout, function))

    cdef int await_event(self, str function, acp_channel_event event, int64_t limit) except -1:
        cdef int rc = acp_channel_await(self.end, event, 0)
        cdef acp_engine *e = self.e
        if rc == ACP_E_TIMEOUT and limit:
            acp_engine_enter(e)
            with nogil:
                rc = acp_channel_await(self.end, event, limit)
            acp_engine_exit(e)
        return self.failed(function, rc)

    def target(self) -> int:
        """Return the address of the segments at the receiver, 0 if that is not known yet."""
        cdef acp_channel_look l
        acp_channel_look_at(self.end, &l)
        return 0 if not l.connected else l.other.type if self.sends else self.ga

    def ends(self) -> tuple[int, int]:
        """Return how many segments have been released, and how many acked."""
        cdef acp_channel_look l
        acp_channel_look_at(self.end, &l)
        if self.sends:
            return max(<object>l.messages - l.pending, 0), l.messages  # another thread may be about to count one more
        return l.messages, l.messages + l.pending

    def publish(self, str function, count: int) -> None:
        """Say that so many more segments are full: that many are free."""
        cdef acp_engine *e = self.e
        cdef uint32_t i, n = count
        cdef int rc
        acp_engine_enter(e)
        try:
            for i in range(n):
                rc = acp_channel_open(self.end, 0)
                if rc == ACP_OK:
                    with nogil:
                        rc = acp_channel_commit(self.end, NULL, 0, 0, True, ACP_FOREVER)
                    acp_channel_give_turn(self.end)
                self.failed(function, rc)
        finally:
            acp_engine_exit(e)

    def release(self, str function, count: int) -> None:
        """Give so many of the oldest segments back: that many are full."""
        cdef acp_piece p
        cdef uint32_t i, n = count
        cdef int rc
        for i in range(n):
            rc = acp_channel_take(self.end, 0, &p)
            if rc == ACP_OK:
                acp_channel_release(self.end, p.number)
                acp_channel_give_turn(self.end)
            self.failed(function, rc)
