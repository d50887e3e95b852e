/* The end of segments: addresses die at once, the memory goes back when the last operation on it has ended, and to the
 * system when a mebibyte of it has gathered. */
#include "memory/retire.h"
#include "core/membarrier.h"
#include "core/upcalls.h"
#include "memory/arena.h"
#include "memory/commit.h"
#include "memory/directory.h"
#include "memory/segment.h"
#include "memory/window_blocks.h"
#include "peers/peer.h"
#include "progress/doorbell.h"
#include "progress/wait.h"

#include <fcntl.h>
#include <stdlib.h>

#define PUNCH_BYTES ((uint64_t)1 << 20)

/* A segment that died while other processes may still be inside an operation on it. */
struct retiree {
    struct retiree *next;
    uint64_t ticket;
    struct range range; /* of offsets to give back; empty: none */
    bool committed;
    uint32_t count;
    struct {
        uint32_t line, flag, seen;
    } inside[];
};

/* Offsets without memory, or of the window part, go back to where they were taken from. */
static void offsets_give(struct memory_state *m, struct range r)
{
    if (window_blocks_holds(m, r.low))
        window_blocks_give(m, r);
    else
        segment_range_push(&m->free, r);
}

/* Released memory, with the guard behind it so that neighbours become one hole. A committed window part keeps its
 * memory. */
void retire_memory(acp_engine *e, uint64_t offset, uint64_t bytes)
{
    struct memory_state *m = &e->memory;
    struct range whole = {offset, offset + bytes + GUARD_BYTES};
    if (e->config.window_committed && window_blocks_holds(m, offset)) {
        window_blocks_give(m, whole);
        return;
    }
    segment_range_push(&m->unpunched, whole);
    m->unpunched_bytes += bytes;
}

/* Without the space lock meanwhile: 0.2 ms a mebibyte. */
void retire_punch(acp_engine *e)
{
    struct memory_state *m = &e->memory;
    struct ranges list = m->unpunched;
    uint64_t bytes = m->unpunched_bytes;
    if (!arena_enter(e))
        return;
    m->unpunched = (struct ranges){0};
    m->unpunched_bytes = 0;
    pthread_mutex_unlock(&e->space);
    for (uint32_t i = 0; i < list.count; i++)
        fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)list.at[i].low,
                  (off_t)(list.at[i].high - list.at[i].low));
    pthread_mutex_lock(&e->space);
    commit_count(e, -(int64_t)bytes);
    m->next_check = m->committed;
    for (uint32_t i = 0; i < list.count; i++)
        offsets_give(m, list.at[i]);
    free(list.at);
    arena_leave(e);
}

/* Notes the operations that are under way: their flags are odd. */
static struct retiree *retiree_new(acp_engine *e)
{
    uint32_t room = 0;
    for (uint32_t line = 0; line < ATTACH_LINES; line++)
        if (e->doors->lines[line].holder)
            room += BUSY_FLAGS;
    struct retiree *r = calloc(1, sizeof *r + room * sizeof r->inside[0]);
    if (!r)
        return NULL;
    for (uint32_t line = 0; line < ATTACH_LINES; line++) {
        struct attach_line *l = &e->doors->lines[line];
        for (uint32_t flag = 0; l->holder && flag < BUSY_FLAGS; flag++) {
            uint32_t seen = atomic_load(&l->busy[flag]);
            if ((seen & 1) && r->count < room) {
                r->inside[r->count].line = line;
                r->inside[r->count].flag = flag;
                r->inside[r->count++].seen = seen;
            }
        }
    }
    return r;
}

static bool retiree_quiet(acp_engine *e, struct retiree *r)
{
    while (r->count) {
        uint32_t line = r->inside[r->count - 1].line, flag = r->inside[r->count - 1].flag;
        if (atomic_load(&e->doors->lines[line].busy[flag]) == r->inside[r->count - 1].seen &&
            !peer_line_dead(e, e->doors, line))
            return false;
        r->count--;
    }
    return true;
}

enum due retire_due(const acp_engine *e)
{
    return e->memory.retiring ? DUE_SOON : DUE_NOT;
}

/* With the space lock: gives the offsets of quiet retirees back. */
bool retire_step(acp_engine *e)
{
    struct memory_state *m = &e->memory;
    if (!atomic_load_explicit(&m->retiring, memory_order_acquire))
        return false;
    pthread_mutex_lock(&e->space);
    for (struct retiree **at = &m->retirees; *at;) {
        struct retiree *r = *at;
        if (!retiree_quiet(e, r)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        atomic_fetch_sub(&m->retiring, 1);
        if (r->committed) {
            retire_memory(e, r->range.low, r->range.high - r->range.low - GUARD_BYTES);
        } else {
            segment_range_push(&m->free, r->range);
        }
        free(r);
    }
    if (m->unpunched_bytes >= PUNCH_BYTES)
        retire_punch(e);
    bool some = m->retirees != NULL;
    pthread_mutex_unlock(&e->space);
    return some;
}

static const unsigned char *region_bytes(const struct memory_state *m, const struct region *r)
{
    return r->kind == SEGMENT_PRIVATE ? (const unsigned char *)(uintptr_t)r->target
                                      : m->base + (r->kind == SEGMENT_ALIAS ? r->target : r->offset);
}

int acp_segment_retire(acp_lane *lane, acp_ga_t ga, uint64_t size, uint64_t *ticket)
{
    acp_engine *e = lane->engine;
    struct memory_state *m = &e->memory;
    struct region region;
    uint64_t offset = acp_ga_offset(ga);
    pthread_mutex_lock(&e->space);
    int rc = directory_find(e->control, offset, &region);
    if (rc == ACP_OK &&
        (region.offset < STARTER_OFFSET + m->starter_size || region.kind == SEGMENT_HEAP))
        rc = ACP_E_UNREGISTERED; /* starter memory and the heap cannot be released */
    if (rc == ACP_OK && (size > region.offset + region.length - offset ||
                         (region.kind == SEGMENT_MEMORY && size && size < region.length)))
        rc = ACP_E_BOUNDS; /* memory goes as a whole, registrations in pieces */
    if (rc != ACP_OK) {
        pthread_mutex_unlock(&e->space);
        return lane_fail(lane, rc, ga, size);
    }
    struct range dead = {region.offset, region.offset + region.length};
    struct region left = region, right = region;
    left.length = right.length = 0;
    if (size && size < region.length) { /* its neighbours in the segment live on */
        left.length = offset - region.offset;
        right.offset = offset + size;
        right.length = region.offset + region.length - right.offset;
        right.target = region.target + (right.offset - region.offset);
        dead = (struct range){offset, offset + size};
    }
    rc = directory_replace(e, &region, &left, &right);
    if (rc != ACP_OK) {
        pthread_mutex_unlock(&e->space);
        lane_fail(lane, rc, ga, size);
        lane->fault.high = ENTRIES_MAX;
        return rc;
    }
    if (e->fence.can)
        membarrier_all();
    else
        atomic_thread_fence(memory_order_seq_cst);
    pthread_mutex_unlock(&e->space); /* links are locked before it */
    const unsigned char *low = region_bytes(m, &region) + (dead.low - region.offset);
    pthread_mutex_lock(&e->lock);
    e->up->memory_ends(e, low, low + (dead.high - dead.low));
    pthread_mutex_unlock(&e->lock);
    pthread_mutex_lock(&e->space);
    struct retiree *r = retiree_new(e);
    uint64_t number = ++m->tickets;
    if (r) {
        r->ticket = number;
        r->committed = region.kind == SEGMENT_MEMORY;
        if (r->committed) {
            r->range = (struct range){dead.low, layout_page_up(dead.high) + GUARD_BYTES};
        } else if (dead.low == region.offset && dead.high == region.offset + region.length) {
            r->range = (struct range){dead.low & ~(PAGE - 1), layout_page_up(dead.high) + GUARD_BYTES};
        } else { /* only whole pages of a piece: its neighbours use the others */
            r->range = (struct range){layout_page_up(dead.low), dead.high & ~(PAGE - 1)};
        }
        r->next = m->retirees;
        m->retirees = r;
        atomic_fetch_add(&m->retiring, 1);
    }
    pthread_mutex_unlock(&e->space);
    if (ticket)
        *ticket = number;
    if (retire_step(e))
        doorbell_kick(e);
    return ACP_OK;
}

void acp_memory_drop(acp_lane *lane, void *address, uint64_t size)
{
    acp_engine *e = lane->engine;
    struct memory_state *m = &e->memory;
    acp_ga_t ga = acp_query_ga(e, address, size);
    if (ga != ACP_GA_NULL) {
        acp_segment_retire(lane, ga, 0, NULL);
        return;
    }
    uint64_t offset = (uint64_t)((unsigned char *)address - m->base);
    uint64_t whole = layout_page_up(size ? size : 1);
    pthread_mutex_lock(&e->space); /* its address died in a reset */
    retire_memory(e, offset, whole);
    if (m->unpunched_bytes >= PUNCH_BYTES)
        retire_punch(e);
    pthread_mutex_unlock(&e->space);
}

struct quiet_wait {
    acp_engine *engine;
    uint64_t ticket;
};

static bool ticket_gone(void *context)
{
    struct quiet_wait *w = context;
    bool gone = true;
    retire_step(w->engine);
    pthread_mutex_lock(&w->engine->space);
    for (struct retiree *r = w->engine->memory.retirees; r; r = r->next)
        gone = gone && r->ticket != w->ticket;
    pthread_mutex_unlock(&w->engine->space);
    return gone;
}

int acp_segment_quiet(acp_engine *e, uint64_t ticket, int64_t timeout_ns)
{
    struct quiet_wait w = {e, ticket};
    if (!atomic_load(&e->memory.retiring))
        return ACP_OK;
    return wait_ready(e, ticket_gone, &w, timeout_ns, ACP_DOING_UNREGISTER);
}

void retirees_close(acp_engine *e)
{
    while (e->memory.retirees) {
        struct retiree *r = e->memory.retirees;
        e->memory.retirees = r->next;
        free(r);
    }
}
