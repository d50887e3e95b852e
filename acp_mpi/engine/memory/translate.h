/* Memory: this rank's own, the peers', and how an address becomes a place in either. */
#ifndef ACP_REACH_H
#define ACP_REACH_H

#include "core/engine_state.h"

/* arena.c: the memory of this rank */
int memory_create(acp_engine *e, acp_fault *fault);
void memory_close(acp_engine *e); /* the descriptor */
void memory_reset(acp_engine *e);
void memory_release(acp_engine *e);
/* Around a call of the system on a memory file, the own one or a peer's, without the space lock: until it
 * has ended no descriptor is closed, whose number another file would get. False: they are, or soon. */
bool memory_enter(acp_engine *e);
void memory_leave(acp_engine *e);
void memory_await(acp_engine *e); /* all have left; from `stopping` on nobody enters */
static inline uint64_t page_up(uint64_t n)
{
    return (n + PAGE - 1) & ~(PAGE - 1);
}

/* segment.c: what of it has addresses */
void range_push(struct range **list, uint32_t *count, uint32_t *room, struct range r);

/* commit.c: the memory behind it */
int memory_commit(acp_engine *e, uint64_t offset, uint64_t size, acp_fault *fault);
void memory_count(acp_engine *e, int64_t bytes); /* committed, or not any more */
uint64_t heap_committed(const acp_engine *e);    /* counted apart: any process makes it grow */

/* retire.c: the end of segments */
void memory_unpunched(struct memory *m, uint64_t offset, uint64_t bytes);
void memory_punch(acp_engine *e);          /* with the space lock, which it lets go meanwhile */
bool segment_retirees_step(acp_engine *e); /* true: some remain */
void retirees_close(acp_engine *e);

/* directory.c */

/* A directory entry as read in one piece. */
struct region {
    uint64_t offset, length, target;
    uint32_t generation, kind, color, slot;
};
int directory_publish(acp_engine *e, const struct region *region);
int directory_replace(acp_engine *e, const struct region *old, const struct region *left,
                      const struct region *right);
int directory_find(const struct control *c, uint64_t offset, struct region *out);
static inline const _Atomic uint32_t *directory_order(const struct control *c)
{
    return (const _Atomic uint32_t *)((const char *)c + ORDER_OFFSET);
}
static inline const struct entry *directory_entries(const struct control *c)
{
    return (const struct entry *)((const char *)c + ENTRIES_OFFSET);
}

/* rank_table.c: the rows of all members, once per node */
static inline const uint32_t *table_slots(const acp_engine *e)
{
    return (const uint32_t *)(const void *)(e->table.base + TABLE_SLOTS);
}
void table_close(acp_engine *e); /* the descriptor */
void table_free(acp_engine *e);  /* the mapping */
bool table_genuine(const acp_engine *e, int fd, uint32_t uid, uint64_t nonce);
struct row table_row(const acp_engine *e, uint32_t slot);
uint64_t table_node(const acp_engine *e, uint32_t slot);
bool table_read(const acp_engine *e, int fd, uint32_t first, struct row *rows, uint32_t count);
/* Slots below procs, rising: the lowest of each node, and those of this node. */
const uint32_t *table_firsts(const acp_engine *e, uint32_t *count);
const uint32_t *table_mates(const acp_engine *e, uint32_t *count);
bool table_together(const acp_engine *e); /* has each node only what meets there? */
/* rank_table_append.c */
int table_permute(acp_engine *e, uint32_t first, const uint32_t *slots, uint32_t count);
int table_map(acp_engine *e, int fd); /* the table in that file, mapped */
const unsigned char *table_bytes(const acp_engine *e, uint32_t slot);
void table_pack(const acp_engine *e, const struct row *row, unsigned char *out);
/* The slots that rise from `array` on, and how many of `have` are below `limit`. */
const uint32_t *table_below(const acp_engine *e, uint64_t array, uint32_t have, uint32_t limit,
                            uint32_t *count);

/* peer.c: who is there, and the memory of the node's */
int peers_join(acp_engine *e, uint32_t count, uint32_t own_slot); /* the rows are in the table */
/* unmap.c */
void peers_close(acp_engine *e); /* descriptors */
void peers_free(acp_engine *e);  /* mappings */
struct peer *peer_of_slot(acp_engine *e, uint32_t slot);
struct peer *peer_known(acp_engine *e, uint32_t slot); /* NULL: never talked to */
int peer_attach(acp_engine *e, struct peer *p); /* its relation, or a status */
void peer_watch(acp_engine *e, struct peer *p);
bool own_want(int error); /* the peer has no part in it that nothing is left here */
void peers_look(acp_engine *e); /* at those whose end wakes nobody */
void link_watch(acp_engine *e, struct peer *p, uint32_t color); /* of one of another node */
void peer_mark_lost(acp_engine *e, struct peer *p); /* from anywhere; the leader does the rest */
void peer_said_lost(acp_engine *e, struct peer *p); /* as another process says */
bool peer_left(const struct peer *p); /* in order, while the others go on */
bool peer_leaves(const struct peer *p); /* it is in finalize, and all that it has sent before is here */
int peer_gone(const struct peer *p); /* why nothing comes from it any more: ACP_E_LOST, ACP_E_FINALIZING; ACP_OK */
void peers_cast_out(acp_engine *e);
struct peer *peer_next(acp_engine *e, struct peer *after); /* of those ever talked to */
bool peer_line_dead(acp_engine *e, struct doors *doors, uint32_t line);
int translate(acp_lane *lane, acp_ga_t ga, uint64_t size, struct translation *out,
              enum reach *reach);
const struct translation *lane_miss(acp_lane *lane, uint32_t role, acp_ga_t ga, uint64_t size);
void lane_flush(acp_lane *lane);

static inline bool covers(const struct translation *t, acp_ga_t ga, uint64_t size)
{
    uint64_t at = ga - t->low;
    return at < t->length && size <= t->length - at;
}

/* The owner of `ga` if this lane has asked for it lately and only a link leads there: more cannot be
 * known of such an address here. */
static inline struct peer *far_owner(const acp_lane *lane, acp_ga_t ga)
{
    const acp_engine *e = lane->engine;
    int64_t rank = acp_ga_rank(ga);
    if (ga >> 63 || ga == ACP_GA_NULL || rank >= (int64_t)e->procs)
        return NULL;
    uint32_t slot = slot_of_rank(e, (uint32_t)rank);
    struct peer *p = lane->peers[slot % LANE_PEERS];
    return p && p->slot == slot && p->relation == RELATION_REMOTE && !p->lost ? p : NULL;
}

/* The region of `ga` if this lane may load and store there, else NULL: with a status in the
 * lane's fault, or ACP_OK there when only another road leads to it. */
static inline const struct translation *lane_find(acp_lane *lane, uint32_t role, acp_ga_t ga,
                                                  uint64_t size)
{
    const struct translation *t = &lane->recent[role];
    if (likely(covers(t, ga, size) && *t->generation == t->live && !t->peer->lost))
        return t;
    return lane_miss(lane, role, ga, size);
}

#define ROLE_DST 0u
#define ROLE_SRC 1u

/* Brackets one access: while the flag is odd the owner does not let the memory go. False if
 * the region has died; then nothing is entered. */
static inline bool enter(const struct translation *t, uint32_t role)
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

static inline void leave(const struct translation *t, uint32_t role)
{
    _Atomic uint32_t *busy = &t->busy[role];
    uint32_t seen = atomic_load_explicit(busy, memory_order_relaxed);
    atomic_store_explicit(busy, seen + 1, memory_order_release);
}

/* newcomers.c: those who join later */
bool growth_reaches(acp_engine *e, uint64_t slot); /* is there one, as far as can be learnt here? */
/* Does a living process hold a line here as that one, though its table cannot be read? */
bool growth_left_word(acp_engine *e, uint32_t slot);
struct span growth_everybody(const acp_engine *e, uint32_t purpose);
void growth_leaves(acp_lane *lane, struct peer *p, const struct message *m); /* as it says */
struct message growth_farewell(const acp_engine *e, uint64_t word);
void growth_show_table(acp_engine *e);
uint32_t growth_known_to(const acp_engine *e, const struct peer *p); /* slots, at the least */
void growth_told(acp_engine *e, const struct message *m, const unsigned char *payload,
                 uint64_t size);

/* attach.c: opening the memory of a process of the node */
int attach_open(acp_engine *e, struct peer *p, uint8_t *opened, bool *later);
/* The table with that nonce, of which `place` has the descriptor; its own, or -1. With the space lock. */
int attach_table(acp_engine *e, const struct row *place, uint64_t nonce);
int giver_open(acp_engine *e);
void giver_serve(acp_engine *e);
void spare_open(acp_engine *e); /* a descriptor at hand for when there is no other */

#endif
