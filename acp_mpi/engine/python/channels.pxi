# Declarations of core/channels.h.

cdef extern from "core/channels.h" nogil:
    const uint32_t ACP_CHANNEL_SLOTS_MOST
    const int64_t ACP_CHANNEL_GLANCE
    const uint64_t ACP_CHANNEL_SIZE_MOST, ACP_CHANNEL_MESSAGE_MOST, ACP_CHANNEL_LONG
    ctypedef struct acp_channel
    ctypedef struct acp_channel_shape:
        uint64_t size, type
        uint32_t slots, sends
        bint segments
    cdef enum acp_channel_event:
        ACP_CHANNEL_READY
        ACP_CHANNEL_MET
        ACP_CHANNEL_EMPTY
    ctypedef struct acp_piece:
        const void *data
        uint64_t size, rest, number
        bint first
    ctypedef struct acp_channel_look:
        bint connected, closed
        uint64_t pending, held, messages, waits
        acp_channel_shape other
    uint64_t acp_channel_memory(const acp_channel *)
    uint64_t acp_channel_bytes(uint64_t, uint32_t)
    int acp_channel_new(acp_lane *, uint32_t, const acp_channel_shape *, acp_ga_t, acp_channel **)
    int acp_channel_open(acp_channel *, int64_t)
    void *acp_channel_slot(acp_channel *)
    int acp_channel_reserve(acp_channel *, bint)
    int acp_channel_commit(acp_channel *, const void *, uint64_t, uint64_t, bint, int64_t)
    int acp_channel_send_short(acp_channel *, const void *, uint64_t)
    int acp_channel_send_into(acp_channel *, const void *, uint64_t)
    int acp_channel_take(acp_channel *, int64_t, acp_piece *)
    int acp_channel_take_into(acp_channel *, void *, uint64_t, int64_t, acp_piece *)
    int acp_channel_take_next(acp_channel *, int64_t, acp_piece *)
    void acp_channel_release(acp_channel *, uint64_t)
    void acp_channel_give_turn(acp_channel *)
    int acp_channel_state(acp_channel *)
    bint acp_channel_is_far(acp_channel *)
    int acp_channel_await(acp_channel *, acp_channel_event, int64_t)
    int acp_channel_select(acp_channel **, uint32_t, uint32_t, acp_request *, int64_t, uint32_t *)
    void acp_channel_look_at(acp_channel *, acp_channel_look *)
    ctypedef struct acp_channel_op
    acp_channel_op *acp_channel_begin(acp_channel *, void *, uint64_t)
    const acp_flag *acp_channel_op_done(const acp_channel_op *)
    int acp_channel_op_wait(acp_channel_op *, int64_t)
    int acp_channel_op_cancel(acp_channel_op *)
    int acp_channel_op_end(acp_channel_op *, uint64_t *)
    void acp_channel_close(acp_channel *)
    void acp_channel_free(acp_channel *)
    void acp_channels_end(acp_engine *)
