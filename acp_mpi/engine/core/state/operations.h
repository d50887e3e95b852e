/* Operations under way. */
#ifndef ACP_STATE_OPERATIONS_H
#define ACP_STATE_OPERATIONS_H

#include "core/engine.h"

#include <stdatomic.h>

struct bounce;
struct chain_failure;
struct op;

#define BACKGROUND_BYTES ((uint64_t)1 << 20)   /* larger ones are the progress thread's work */
#define SLICE_BYTES ((uint64_t)256 << 10)
#define HALVES_BYTES ((uint64_t)2 << 20)        /* copies from this size on are shared by two owners */
#define CHUNK_BYTES ((uint64_t)64 << 10)       /* of a part of a transfer over a ring or a link */
#define BOUNCE_CHUNKS 4u
#define OPS 256u
#define RESERVE_BLOCKS 3u

struct operations_state {
    _Atomic acp_handle_t last, watermark;
    _Atomic uint32_t outstanding;
    _Atomic uint32_t failure_count;
    struct op *table; /* OPS entries, by handle */
    _Atomic uint64_t bytes_away; /* bytes that owners move for this process now */
    struct acp_failure *failures;
    uint32_t failure_room;
    uint64_t failures_dropped;
    struct op *waiting; /* operations behind their order */
    struct op *stalled, **stalled_end; /* operations without room on their road, the oldest first */
    _Atomic uint32_t stalled_count;
    _Atomic uint32_t barred_count; /* stalled operations that met a taken lock: no event will restart them */
    struct op *work, **work_tail; /* operations that the leader runs in slices */
    _Atomic bool work_pending;
    bool work_kicked; /* a leader has been called for it */
    struct op *tasks; /* commands of other processes, under way here */
    struct op *task_pool;
    uint64_t task_serial;
    struct bounce *bounce_pool;
    uint32_t bounce_count;
    unsigned char *call_space; /* arguments and results of calls of peers */
    uint32_t task_count;
    void *reserve[RESERVE_BLOCKS]; /* spare memory for messages by link */
    _Atomic uint64_t polled_at; /* time of the last poll in vain that registered for losses */
    bool guards; /* a peer relies on this process to report losses elsewhere (any_source.c) */
    uint64_t doubted_at; /* time of the last questions about commands, ns */
};

/* Of a peer. */
struct peer_ops {
    struct chain_failure *chain_failures;
    uint32_t chain_failure_count, chain_failure_room;
    uint64_t asked;    /* number of the command that it was asked about last; 0: it has answered, and nothing is left */
    uint32_t silences; /* periods since then without an answer */
};

#endif
