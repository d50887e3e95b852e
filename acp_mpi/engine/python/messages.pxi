# messages.h, as Cython sees it.

cdef extern from "core/messages.h" nogil:
    const int64_t ACP_ANY
    ctypedef struct acp_envelope:
        uint64_t context
        int64_t source, tag
        uint64_t size, note
        acp_sources *among
    const uint32_t ACP_SHORT_MOST
    ctypedef struct acp_short:
        acp_envelope envelope
    ctypedef struct acp_request
    ctypedef struct acp_flag:
        pass
    bint acp_flag_is_set(const acp_flag *)
    ctypedef struct acp_step:
        pass
    ctypedef struct acp_plan:
        const acp_step *steps
        uint32_t count, messages
        int fold, type
        const uint32_t *ranks
        uint32_t members
        const uint8_t *eager
    bint acp_plan_mark(const acp_plan *, uint8_t *)
    ctypedef struct acp_collective:
        pass
    const int ACP_COLLECTIVE_FOLD

    acp_sources *acp_sources_new(const uint32_t *, uint32_t)
    void acp_sources_free(acp_sources *)
    int64_t acp_sources_lost(acp_engine *, acp_sources *)
    const int ACP_E_TYPE
    bint acp_note_fits(uint64_t, uint64_t)
    int acp_send(acp_lane *, uint32_t, const acp_envelope *, const void *, acp_request **)
    bint acp_send_short(acp_lane *, uint32_t, const acp_envelope *, const void *)
    bint acp_short_look(acp_engine *, const acp_envelope *, acp_short *)
    bint acp_short_take(const acp_short *, void *)
    int acp_short_soon(acp_engine *, const acp_envelope *, bint)
    int acp_hand_on(acp_lane *, const acp_envelope *, const void *, acp_request **)
    int acp_receive(acp_lane *, const acp_envelope *, void *, acp_request **)
    bint acp_request_done(const acp_request *)
    bint acp_request_soon(acp_engine *, acp_request *)
    int acp_request_wait(acp_engine *, acp_request *, int64_t)
    int acp_wait_any(acp_engine *, acp_request **, uint32_t, acp_collective **, uint32_t,
                     const acp_flag **, uint32_t, int64_t)
    int acp_request_cancel(acp_lane *, acp_request *)
    const void *acp_request_data(acp_lane *, acp_request *)
    int acp_request_pull(acp_lane *, acp_request *)
    bint acp_request_pulls(const acp_request *)
    bint acp_request_brought(const acp_request *)
    void acp_request_into(acp_request *, void *, uint64_t)
    int acp_request_look(const acp_request *, acp_envelope *)
    int acp_request_end(acp_lane *, acp_request *, acp_envelope *)
    int acp_probe(acp_lane *, const acp_envelope *, acp_envelope *, uint64_t *)
    int acp_probe_wait(acp_engine *, const acp_envelope *, acp_envelope *, uint64_t *, int64_t)
    void acp_context_ends(acp_engine *, uint64_t)
    int acp_receive_taken(acp_lane *, uint64_t, void *, uint64_t, acp_request **)
    int acp_collective_begin(acp_engine *, const acp_plan *, void **, uint64_t, uint64_t,
                             acp_collective **)
    int acp_collective_run(acp_collective *, int64_t)
    int acp_collective_run_for(acp_collective *, int64_t)
    void acp_collective_release(acp_collective *)
    bint acp_collective_done(acp_collective *)
    int acp_collective_wait(acp_collective *, int64_t)
    void acp_collective_due(const acp_collective *, void **, const void **, const void **,
                            uint64_t *)
    int64_t acp_collective_called(const acp_collective *)
    void acp_collective_folded(acp_collective *)
    int64_t acp_collective_trouble(const acp_collective *, uint64_t *, uint64_t *)
    void acp_collective_lost(acp_collective *, uint32_t)
    void acp_collective_astray(acp_collective *, uint64_t)
    void acp_collective_end(acp_collective *)
    bint acp_collective_settled(const acp_collective *)
