# The counter.


cdef class CounterHandle(Handle):
    """A counter on some rank."""

    cdef object step(self, str function, uint8_t method, object by):
        cdef acp_call here
        cdef Call away
        cdef uint64_t value = value_of(by, function)
        if engine == NULL:
            no_engine(function)
        call_fill(&here, method, self, value)
        cdef int rc = acp_container_here(lane0, &here)
        if rc == ACP_OK:
            return <int64_t>here.result[0]
        if rc != ACP_E_BUSY:
            raise_fault(function, lane0)
        away = call_new(method, self.ga, self.serial, value)
        call_run(function, away)
        return <int64_t>away.call.result[0]

    def next(self, step: Int = 1) -> int:
        """Add `step` and return the value before, a signed 8-byte integer. Atomic."""
        return self.step("Counter.next", METHOD_COUNTER_ADD, step)

    def read(self) -> int:
        """Return the value."""
        return self.step("Counter.read", METHOD_COUNTER_ADD, 0)

    def reset(self, value: Int | None = None) -> int:
        """Set the value, None: to that of the start; return the one before."""
        if value is None:
            value = int.from_bytes(self._note, "little", signed=True)
        return self.step("Counter.reset", METHOD_COUNTER_SET, value)
