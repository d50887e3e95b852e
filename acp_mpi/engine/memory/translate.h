/* Memory: this rank's own, the peers', and how an address becomes a place in either. */
#ifndef ACP_TRANSLATE_H
#define ACP_TRANSLATE_H

#include "base/likely.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"

int translate(acp_lane *lane, acp_ga_t ga, uint64_t size, struct translation *out,
              enum reach *reach);
const struct translation *translate_miss(acp_lane *lane, uint32_t role, acp_ga_t ga, uint64_t size);

static inline bool translate_covers(const struct translation *t, acp_ga_t ga, uint64_t size)
{
    uint64_t at = ga - t->low;
    return at < t->length && size <= t->length - at;
}

/* The owner of `ga` if this lane has used it lately and only a link leads there: more cannot be known of such an
 * address here. */
static inline struct peer *translate_remote(const acp_lane *lane, acp_ga_t ga)
{
    const acp_engine *e = lane->engine;
    int64_t rank = acp_ga_rank(ga);
    if (ga >> 63 || ga == ACP_GA_NULL || rank >= (int64_t)e->procs)
        return NULL;
    uint32_t slot = rank_slot_of(e, (uint32_t)rank);
    struct peer *p = lane->peers[slot % LANE_PEERS];
    return p && p->slot == slot && p->relation == RELATION_REMOTE && !p->lost ? p : NULL;
}

/* The region of `ga` if this lane may load and store there, else NULL: with a status in the
 * lane's fault, or ACP_OK there when only another road leads to it. */
static inline const struct translation *translate_find(acp_lane *lane, uint32_t role, acp_ga_t ga,
                                                       uint64_t size)
{
    const struct translation *t = &lane->recent[role];
    if (likely(translate_covers(t, ga, size) && *t->generation == t->live && !t->peer->lost))
        return t;
    return translate_miss(lane, role, ga, size);
}

#define ROLE_DST 0u
#define ROLE_SRC 1u

/* Brackets one access: while the flag is odd the owner does not let the memory go. False if
 * the region has died; then nothing is entered. */
static inline bool translate_enter(const struct translation *t, uint32_t role)
{
    _Atomic uint32_t *busy = &t->busy[role];
    uint32_t seen = atomic_load_explicit(busy, memory_order_relaxed);
    atomic_store_explicit(busy, seen + 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (unlikely(t->fence))
        atomic_thread_fence(memory_order_seq_cst);
    if (likely(atomic_load_explicit(t->generation, memory_order_acquire) == t->live))
        return true;
    atomic_store_explicit(busy, seen + 2, memory_order_release);
    return false;
}

static inline void translate_leave(const struct translation *t, uint32_t role)
{
    _Atomic uint32_t *busy = &t->busy[role];
    uint32_t seen = atomic_load_explicit(busy, memory_order_relaxed);
    atomic_store_explicit(busy, seen + 1, memory_order_release);
}

#endif
