# engine.h, as Cython sees it.

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t

cdef extern from "core/engine.h" nogil:
    ctypedef uint64_t acp_ga_t
    ctypedef uint64_t acp_handle_t
    ctypedef struct acp_engine
    ctypedef struct acp_lane
    const uint64_t ACP_HANDLE_ALL
    const uint64_t ACP_HANDLE_NULL
    const uint64_t ACP_HANDLE_CONT
    const int64_t ACP_FOREVER
    const int ACP_ROW_SIZE
    const int ACP_COLORS
    const uint64_t ACP_CALL_MOST
    enum:
        ACP_OK
        ACP_E_UNREGISTERED
        ACP_E_PRIVATE
        ACP_E_RANK
        ACP_E_LOST
        ACP_E_TIMEOUT
        ACP_E_INTERRUPTED
        ACP_E_BUSY
        ACP_E_ARGUMENT
        ACP_E_FULL
        ACP_E_HANDLE
        ACP_E_CLOSED
        ACP_E_SYSTEM
        ACP_E_DAMAGED
        ACP_E_TRUNCATED
        ACP_E_TAKEN
        ACP_E_DESTROYED
        ACP_E_LEFT
        ACP_E_MISMATCH
        ACP_E_DRIVER
        ACP_TICK_SIGNAL
        ACP_TICK_ALONE
    ctypedef enum acp_kind:
        ACP_COPY
        ACP_CAS4, ACP_CAS8, ACP_SWAP4, ACP_SWAP8, ACP_ADD4, ACP_ADD8
        ACP_XOR4, ACP_XOR8, ACP_OR4, ACP_OR8, ACP_AND4, ACP_AND8
    ctypedef enum acp_doing:
        pass
    ctypedef enum acp_compare:
        pass
    ctypedef struct acp_word:
        pass
    ctypedef struct acp_fault:
        int status
        int error
        acp_ga_t ga
        uint64_t size
        int64_t rank
        uint64_t low, high
    ctypedef struct acp_failure:
        acp_handle_t handle
        acp_fault fault
        uint32_t kind
    ctypedef int (*acp_tick_fn)(void *, int) noexcept nogil
    ctypedef struct acp_config:
        uint8_t secret[32]
        uint8_t job[16]
        uint64_t node
        uint64_t memory_limit
        uint64_t starter_size
        uint32_t host
        uint32_t wide
        char interfaces[256]
        uint32_t path
        uint32_t links
        uint32_t links_open
        uint32_t service
        uint32_t ptracer
        uint64_t window_size
        uint32_t window_committed
        uint64_t peer_timeout_ns
        uint64_t unexpected_max
        acp_tick_fn tick
    ctypedef struct acp_column:
        const char *data
        int64_t stride
    ctypedef struct acp_memory_statistics:
        uint64_t limit, committed, used, starter, segments, private_segments
    ctypedef struct acp_call "struct acp_call":
        uint8_t method
        acp_ga_t object
        uint64_t a, b
        const void *in_ "in"
        uint64_t in_size
        void *out
        uint64_t out_room, out_size
        uint64_t result[2]
    ctypedef struct acp_heap_statistics:
        uint64_t size, used, free, largest, blocks, fragments, committed, limit
    ctypedef struct acp_road_info:
        const char *road
        const char *memory
        const char *registered
        uint32_t lost

    int64_t acp_ga_rank(acp_ga_t)
    uint32_t acp_ga_color(acp_ga_t)
    uint64_t acp_memory_total()
    int acp_engine_create(const acp_config *, acp_engine **, acp_fault *)
    void acp_engine_row(const acp_engine *, uint8_t *)
    int acp_engine_join(acp_engine *, uint32_t, uint32_t)
    int acp_engine_learn(acp_engine *, uint32_t, const uint8_t *, uint32_t)
    void acp_engine_joined(acp_engine *, uint32_t, uint32_t, uint32_t)
    void acp_engine_leave(acp_engine *, uint32_t, uint32_t)
    void acp_engine_widen(acp_engine *)
    void acp_row_of(const acp_engine *, uint32_t, uint8_t *)
    bint acp_known(acp_engine *, uint64_t)
    int acp_table_add(acp_engine *, uint32_t, const uint8_t *, uint32_t)
    int acp_table_place(const acp_engine *, uint8_t *)
    int acp_table_map(acp_engine *, const uint8_t *)
    void acp_engine_halt(acp_engine *)
    void acp_engine_resume(acp_engine *)
    int acp_engine_reset(acp_engine *, const uint32_t *, uint32_t)
    int acp_lifeline(acp_engine *, int)
    bint acp_engine_leaving(acp_engine *)
    bint acp_engine_closed(const acp_engine *)
    bint acp_engine_foreign(const acp_engine *)
    void acp_engine_forked(acp_engine *)
    void acp_engine_close(acp_engine *)
    void acp_engine_free(acp_engine *)
    void acp_engine_hold(acp_engine *)
    void acp_engine_enter(acp_engine *)
    void acp_engine_exit(acp_engine *)
    void acp_engine_bury(acp_engine *)
    acp_lane *acp_engine_lane(acp_engine *)
    acp_lane *acp_lane_take(acp_engine *)
    void acp_lane_give(acp_lane *)
    const acp_fault *acp_lane_fault(const acp_lane *)
    void acp_lane_previous(acp_lane *, acp_handle_t)
    uint32_t acp_rank(const acp_engine *)
    uint32_t acp_procs(const acp_engine *)
    int64_t acp_slot_of(const acp_engine *, uint32_t)
    uint32_t acp_mates(const acp_engine *)
    bint acp_ranks_of(const acp_engine *, uint32_t, uint32_t, uint32_t *)
    int acp_memory_alloc(acp_lane *, uint64_t, uint32_t, acp_ga_t *, void **)
    int acp_window_alloc(acp_lane *, uint64_t, uint32_t, acp_ga_t *, void **)
    bint acp_window_keeps_arrays(const acp_engine *)
    uint64_t ACP_WINDOW_ARRAY
    int acp_segment_register(acp_lane *, void *, uint64_t, uint32_t, acp_ga_t *)
    int acp_segment_retire(acp_lane *, acp_ga_t, uint64_t, uint64_t *)
    void acp_memory_drop(acp_lane *, void *, uint64_t)
    int acp_segment_quiet(acp_engine *, uint64_t, int64_t)
    acp_ga_t acp_query_ga(acp_engine *, const void *, uint64_t)
    int acp_query_address(acp_lane *, acp_ga_t, uint64_t, void **)
    void acp_forget_address(acp_engine *, acp_ga_t)
    acp_ga_t acp_starter(acp_engine *, uint32_t)
    void acp_memory_statistics_get(acp_engine *, acp_memory_statistics *)
    void acp_memory_lower(acp_engine *, uint64_t)
    int acp_check(acp_lane *, acp_ga_t, uint64_t)
    acp_handle_t acp_copy(acp_lane *, acp_ga_t, acp_ga_t, uint64_t, acp_handle_t)
    acp_handle_t acp_atomic(acp_lane *, acp_kind, acp_ga_t, acp_ga_t, uint64_t, uint64_t,
                            acp_handle_t)
    acp_handle_t acp_iput(acp_lane *, acp_ga_t, const void *, uint64_t, acp_handle_t)
    acp_handle_t acp_iput_flag(acp_lane *, acp_ga_t, const void *, acp_handle_t)
    acp_handle_t acp_iget(acp_lane *, void *, acp_ga_t, uint64_t, acp_handle_t)
    bint acp_near(acp_lane *, acp_ga_t)
    int acp_container_here(acp_lane *, acp_call *)
    int acp_container_call(acp_lane *, acp_call *, acp_handle_t *)
    int acp_put(acp_lane *, acp_ga_t, const void *, uint64_t, acp_handle_t *)
    int acp_get(acp_lane *, void *, acp_ga_t, uint64_t, acp_handle_t *)
    int acp_fetch_here(acp_lane *, acp_kind, acp_ga_t, uint64_t, uint64_t, uint64_t *)
    int acp_fetch(acp_lane *, acp_kind, acp_ga_t, uint64_t, uint64_t, uint64_t *, acp_handle_t *)
    acp_handle_t acp_copy_many(acp_lane *, acp_column, acp_column, acp_column, uint64_t,
                               acp_handle_t, uint64_t *)
    acp_handle_t acp_atomic_many(acp_lane *, acp_kind, acp_column, acp_column, acp_column,
                                 uint64_t *, uint64_t, acp_handle_t, uint64_t *)
    int acp_complete(acp_engine *, acp_handle_t, int64_t)
    int acp_wait(acp_engine *, acp_handle_t, int64_t)
    bint acp_running(const acp_engine *, acp_handle_t)
    bint acp_done(const acp_engine *, acp_handle_t)
    bint acp_quiet(const acp_engine *)
    uint32_t acp_failures_take(acp_engine *, acp_handle_t, bint, acp_failure *, uint32_t,
                               uint64_t *)
    void acp_await_alone(acp_engine *, acp_handle_t, bint)
    acp_handle_t acp_last(const acp_engine *)
    acp_handle_t acp_watermark(const acp_engine *)
    int acp_wait_room(acp_engine *, int64_t)
    int acp_word_find(acp_lane *, acp_ga_t, uint32_t, acp_word *)
    ctypedef struct acp_sources
    int acp_word_wait(acp_engine *, const acp_word *, acp_compare, uint64_t, bint, acp_sources *,
                      int64_t, int64_t)
    int acp_barrier(acp_engine *, const uint32_t *, uint32_t, uint32_t, int64_t)
    int64_t acp_trouble_rank(const acp_engine *)
    acp_ga_t acp_post(acp_engine *, uint32_t)
    const int ACP_LATE_NOTES
    uint64_t *acp_late_notes(acp_engine *)
    uint32_t acp_losses(const acp_engine *)
    bint acp_lives(acp_engine *, uint32_t)
    uint32_t acp_lost_ranks(acp_engine *, bint, uint32_t *, uint32_t)
    uint32_t acp_services(const acp_engine *, uint32_t *, uint32_t)
    void acp_refresh(acp_engine *)
    int acp_peer_doing(acp_engine *, uint32_t, acp_doing *)
    int acp_shortage(acp_engine *)
    int acp_short_error(const acp_engine *)
    uint32_t acp_links(acp_engine *, uint64_t *)
    int acp_publish(acp_engine *, const uint64_t *, const uint64_t *, uint32_t, int64_t *, int64_t)
    int acp_withdraw(acp_engine *, const uint64_t *, int64_t *, int64_t)
    int acp_publish_again(acp_engine *, int64_t *, int64_t)
    void acp_names_bury(acp_lane *)
    const uint32_t ACP_REPLACE
    const uint32_t ACP_GIVEN
    int acp_lookup(acp_engine *, const uint64_t *, uint64_t *, int64_t)
    int acp_malloc(acp_lane *, uint32_t, uint64_t, acp_call *, acp_handle_t *)
    acp_handle_t acp_icall(acp_lane *, acp_call *, acp_handle_t)
    int acp_free(acp_lane *, acp_ga_t, acp_call *, acp_handle_t *)
    int acp_heap_tidy(acp_lane *, uint32_t, acp_call *, acp_handle_t *)
    int acp_heap_look(acp_lane *, uint32_t, acp_heap_statistics *, acp_call *, acp_handle_t *)
    int acp_road(acp_lane *, uint32_t, acp_road_info *)

cdef extern from "core/layout.h" nogil:
    const int LAYOUT_VERSION

cdef extern from "python/c_api.h" nogil:
    """
    #define acp_set_previous(h) (c_api_previous = (h))
    #define acp_get_previous() (c_api_previous)
    """
    const void *c_api_functions
    const char *ACP_API_NAME
    void c_api_open(acp_engine *)
    void c_api_close()
    void c_api_forked()
    void acp_set_previous(uint64_t)
    uint64_t acp_get_previous()

cdef extern from "Python.h":
    object PyCapsule_New(const void *, const char *, void *)

_c_api = PyCapsule_New(&c_api_functions, ACP_API_NAME, NULL)  # what acp.h takes
