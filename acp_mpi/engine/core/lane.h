/* A lane: one thread's knowledge of addresses and peers, and its fault. */
#ifndef ACP_LANE_H
#define ACP_LANE_H

#include "core/layout.h"
#include "core/messages.h"

struct peer;

/* How this process reaches a place: itself, or which road leads to its owner. */
enum reach { REACH_LOAD = 0, REACH_VM, REACH_DEVICE, REACH_RING, REACH_LINK };

/* A region as one lane knows it; valid while *generation == live. */
struct translation {
    acp_ga_t low;
    uint64_t length;
    unsigned char *base; /* of `low`; NULL: not by load and store */
    const _Atomic uint32_t *generation;
    uint32_t live;
    uint32_t fence;
    _Atomic uint32_t *busy; /* this lane's two flags at the owner */
    struct peer *peer;
    uint64_t position; /* offset in the owner's memory file, or the owner's virtual address */
    uint32_t kind;
};

#define LANE_CACHE 64u
#define LANE_PEERS 16u
#define LANE_ENTRIES 32u

/* Contention of this lane with others at the word it used last (backoff.c). */
struct meetings {
    const uint64_t *word;
    uint64_t since, far; /* time to fetch the word from another processor, ns; 0: not known */
    uint32_t visits;     /* since then */
    uint32_t grace;      /* visits that are not timed */
    uint32_t vain;
    bool stood_back;
};

struct acp_lane {
    acp_engine *engine;
    uint32_t index;
    _Atomic uint32_t taken;
    _Atomic bool stale; /* knows addresses of before a reset: the next thread to take it clears them */
    bool hurries; /* the thread holds the collectives lock and must not block on any other */
    acp_handle_t previous;
    int64_t patience_ns; /* longest wait of its methods for a transaction that another holds */
    bool damaged; /* a change of this call was refused because the structure is inconsistent */
    acp_fault fault;
    struct translation recent[2]; /* by role: destination, source */
    struct translation passing[2]; /* in its place, for regions that are not to be kept */
    struct translation cache[LANE_CACHE];
    struct peer *peers[LANE_PEERS]; /* peers used lately, by slot */
    uint64_t entries[LANE_ENTRIES]; /* of the own mailbox, in no list */
    struct meetings meetings;
    uint64_t stream;   /* its operations with device memory start after what is in it */
    bool stream_handle; /* it is a handle, of a kind that has such; other kinds take their default */
    bool unordered;    /* or at once */
    uint64_t counted;  /* value of the last counter after its last add by this lane */
    bool others_count; /* others have added to that counter, too */
    uint32_t entry_count, request_count;
    acp_request *requests; /* for the next ones */
    _Atomic uint32_t nowhere[2]; /* the flags for regions that never die */
};

#define LANE_CALLER 0u
#define LANE_LEADER 1u
#define LANE_LOCKED 2u /* of a holder of the engine's lock without a lane of its own */
#define LANE_KEPT (ATTACH_LANES - 1) /* reserved for callers that cannot retry */

/* False for the leader and for holders of a lock: other threads wait for them, and signal handlers may need the
 * lock. */
static inline bool lane_may_wait(const acp_lane *lane)
{
    return lane->index != LANE_LEADER && lane->index != LANE_LOCKED && !lane->hurries;
}

int lane_fail(acp_lane *lane, int status, acp_ga_t ga, uint64_t size);
acp_lane *lane_await(acp_engine *e); /* for a short while, and not as the leader; never NULL */
void lane_flush(acp_lane *lane);

#endif
