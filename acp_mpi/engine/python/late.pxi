# Late notes: decision 26. A rank that only gives in a collective may be through before another rank finds a mismatch.
# Each rank that raises for one leaves a note with all members, and waits until the notes are there. When all have met
# in sync, barrier or finalize, each member looks at its notes, and raises for calls that have not raised there.

DEF WORDS = 8            # of acp_post, before the notes
DEF LATE = 1 << 57       # in `why`: of an earlier call
DEF SHORT = 0xFFFFFFFF   # bits of the number of a call

cdef extern from *:
    bint __sync_bool_compare_and_swap(uint64_t *, uint64_t, uint64_t) nogil

cdef dict known = {}  # addresses of Contexts that live, by the upper half of their bases


cdef inline uint64_t note_name(Contexts contexts, uint64_t call) noexcept:
    return contexts.base & ~<uint64_t>SHORT | call & SHORT


cdef int leave_late_notes(Contexts contexts, uint64_t call, uint64_t why, object ranks) except -1:
    # The name of the call comes last, so that its reader finds the reason, too.
    cdef uint64_t at = 8 * (WORDS + 2 * (contexts.base % ACP_LATE_NOTES))
    for one in ranks:
        if engine == NULL or one == acp_rank(engine):
            continue
        try:
            put(acp_post(engine, one) + at + 8, int(why & ~<uint64_t>LATE).to_bytes(8, "little"))
            put(acp_post(engine, one) + at, int(note_name(contexts, call)).to_bytes(8, "little"))
        except _errors.Error:  # the member has died, or the job is over
            continue
    return 0


cdef int hear_late_notes(str function) except -1:
    cdef uint64_t *notes
    cdef int i
    if engine == NULL:  # another thread has finalized meanwhile
        return 0
    notes = acp_late_notes(engine)
    for i in range(ACP_LATE_NOTES):
        if notes[2 * i]:
            hear_note(function, notes + 2 * i)
    return 0


cdef int hear_note(str function, uint64_t *note) except -1:
    cdef uint64_t name = note[0], why = note[1], call = name & SHORT
    cdef Contexts contexts
    cdef uint64_t where = known.get(name >> 32, 0)
    if not where:
        return 0
    contexts = <Contexts><void *>where
    if call > contexts.calls or call in contexts.under_way:
        return 0  # the call has not ended here yet
    if not __sync_bool_compare_and_swap(note, name, 0) or call <= contexts.failed:
        return 0  # a later note has come, for the next meeting; or this rank has raised already
    contexts.failed = call
    raise _errors.from_collective(function, _errors.Status.MISMATCH, -1, 0, 0, why | LATE)


def hear_late(function: str) -> None:
    """Raise what a late note says of a call that was over here, when all have met."""
    hear_late_notes(function)


cdef int forget_late_notes() except -1:
    cdef uint64_t *notes
    known.clear()
    if engine != NULL:
        notes = acp_late_notes(engine)
        for i in range(2 * ACP_LATE_NOTES):
            notes[i] = 0
    return 0
