# Words that a kernel stores in global memory, and nobody rings for.

from posix.time cimport nanosleep

cdef extern from "<sys/prctl.h>" nogil:
    int prctl(int, unsigned long)
    const int PR_SET_TIMERSLACK

DEF WATCHED = 512
DEF AWAKE = 100000  # ns: a sleep of a nanosecond may take 15000
DEF PAUSE_MOST = 50000  # ns between two looks

WATCHED_MOST = WATCHED  # words of an array


cdef class Watch:
    """Looks at arrays of words in global memory, without Python's lock; for one thread, which does nothing else."""
    cdef uint64_t words[WATCHED]
    cdef acp_fault fault
    cdef bint stopped
    cdef readonly int at  # the array that `look` has ended with

    def stop(self) -> None:
        """Have `look` end, the next one if none is under way; for any thread."""
        self.stopped = True

    def look(self, places: bytes) -> bool:
        """Wait until a word of the array `at` is not 0; False: `stop` was called.

        `places`: address and number of words of each array, as words. It looks on for 100 microseconds, then after a
        64th of the time that it has looked in vain, but each 50 microseconds. Raises what `get` does.
        """
        cdef const uint64_t *place = <const uint64_t *><const char *>places
        cdef int count = len(places) // 16, i = 0, rc = ACP_E_BUSY
        cdef uint64_t pending = 0
        cdef int64_t begun = clock(), since
        cdef timespec pause
        cdef acp_engine *e = hold("ring")
        pause.tv_sec = 0
        try:
            with nogil:
                prctl(PR_SET_TIMERSLACK, 1)
            while True:
                with nogil:
                    while rc == ACP_E_BUSY and not self.stopped:
                        if i == count:
                            since = clock() - begun
                            if since < AWAKE:
                                sched_yield()
                            else:
                                pause.tv_nsec = min(since >> 6, PAUSE_MOST)
                                nanosleep(&pause, NULL)
                            i = 0
                        rc = self.read(e, place[2 * i], place[2 * i + 1], &pending)
                        self.at = i
                        i += 1
                if pending:
                    wait_alone("ring", pending, ACP_FOREVER, self)
                    pending, rc = 0, ACP_OK if self.any_of(place[2 * self.at + 1]) else ACP_E_BUSY
                elif rc == ACP_E_BUSY:
                    self.stopped = False
                    return False
                if rc == ACP_OK:
                    return True
                if rc != ACP_E_BUSY:
                    raise exception_of("ring", &self.fault)
        finally:
            acp_engine_exit(e)

    cdef int read(self, acp_engine *e, uint64_t ga, uint64_t n, uint64_t *pending) noexcept nogil:
        # ACP_E_BUSY: all words are 0, as far as could be seen.
        cdef acp_lane *lane = acp_lane_take(e)
        cdef int rc
        if lane == NULL:
            return ACP_E_BUSY
        rc = acp_get(lane, self.words, ga, 8 * n, pending)
        if rc != ACP_OK:
            self.fault = acp_lane_fault(lane)[0]
        acp_lane_give(lane)
        return ACP_E_BUSY if rc == ACP_OK and not pending[0] and not self.any_of(n) else rc

    cdef bint any_of(self, uint64_t n) noexcept nogil:
        cdef uint64_t i
        for i in range(n):
            if self.words[i]:
                return True
        return False
