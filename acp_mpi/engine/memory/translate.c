/* From an address to the bytes: which process it names, whether they are in reach of load and
 * store here, and where they are mapped. */
#include "memory/translate.h"
#include "base/linux.h"
#include "memory/directory.h"
#include "memory/heap.h"
#include "memory/heap_calls.h"
#include "peers/newcomers.h"
#include "peers/peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define VIEW_GRAIN ((uint64_t)16 << 20) /* small regions share views of this size */
#define VIEW_LEAST 64u /* fewer views of a peer are not trimmed */

/* Views without a living region go when there are many; a view stays for now while this process has an operation
 * inside a dead region of it. */
static void views_trim(acp_engine *e, struct peer *p)
{
    const _Atomic uint32_t *busy = p->shm.doors->lines[p->shm.line].busy;
    for (uint32_t flag = 0; flag < BUSY_FLAGS; flag++)
        if (busy[flag] & 1)
            return;
    for (struct view **at = &p->memory.views; *at;) {
        struct view *v = *at;
        uint64_t version = p->shm.control->directory_version;
        bool used = v->pinned || (version & 1);
        uint32_t count = p->shm.control->directory_count;
        for (uint32_t i = 0; i < count && i < ENTRIES_MAX && !used; i++) {
            const struct entry *entry =
                &directory_entries(p->shm.control)[directory_order(p->shm.control)[i] & (ENTRIES_MAX - 1)];
            used = entry->offset < v->high && entry->offset + entry->length > v->low;
        }
        atomic_thread_fence(memory_order_acquire);
        if (p->shm.control->directory_version != version)
            used = true; /* the directory changed meanwhile: another time */
        if (used || e->config.map) {
            at = &v->next;
            continue;
        }
        *at = v->next;
        munmap(v->base, v->high - v->low);
        free(v);
        p->memory.view_count--;
    }
    p->memory.view_limit = p->memory.view_count * 2;
}

/* Maps the region [low, high) of a peer's file. The region alone decides which view holds it, so that two addresses of
 * the same bytes use the same mapping. */
static int view_of(acp_engine *e, struct peer *p, uint64_t low, uint64_t high, bool pin,
                   unsigned char **base)
{
    if (p == e->job.own) {
        *base = e->memory.base + low;
        return ACP_OK;
    }
    uint64_t from = low & ~(VIEW_GRAIN - 1), to = from + VIEW_GRAIN;
    if (high > to) {
        from = low & ~(PAGE - 1);
        to = (high + PAGE - 1) & ~(PAGE - 1);
    }
    uint64_t span = p->shm.span;
    if (to > span)
        to = span;
    if (high > to)
        return ACP_E_UNREGISTERED;
    for (struct view *v = p->memory.views; v; v = v->next) {
        if (v->low == from && v->high == to) {
            v->pinned |= pin;
            *base = v->base + (low - from);
            return ACP_OK;
        }
    }
    if (p->memory.view_count >= VIEW_LEAST && p->memory.view_count >= p->memory.view_limit)
        views_trim(e, p);
    struct view *v = calloc(1, sizeof *v);
    if (!v)
        return ACP_E_SYSTEM;
    v->base = e->config.map ? e->config.map(e->config.map_context, &p->row, from, to - from)
                            : linux_map(p->shm.fd, from, to - from, PROT_READ | PROT_WRITE);
    if (v->base == MAP_FAILED || !v->base) {
        free(v);
        return ACP_E_SYSTEM;
    }
    v->low = from;
    v->high = to;
    v->pinned = pin;
    v->next = p->memory.views;
    p->memory.views = v;
    p->memory.view_count++;
    *base = v->base + (low - from);
    return ACP_OK;
}

/* How far the heap has been used; its memory is mapped as a whole. */
static int heap_region(acp_engine *e, struct peer *p, struct region *region)
{
    pthread_mutex_lock(&e->space);
    const struct heap *h = heap_calls_map(e, p);
    pthread_mutex_unlock(&e->space);
    if (!h)
        return ACP_E_SYSTEM;
    uint64_t end = __atomic_load_n(&h->head->published, __ATOMIC_ACQUIRE) + h->position;
    uint64_t length = end > region->offset ? end - region->offset : 0;
    region->length = length < region->length ? length : region->length;
    return length ? ACP_OK : ACP_E_UNREGISTERED;
}

/* Checks a region as its owner's directory has it: the entry may have been written over. */
static bool possible(const acp_engine *e, const struct peer *p, const struct region *region,
                     const struct region *whole)
{
    uint64_t into = region->target - whole->offset;
    if (region->kind == SEGMENT_PRIVATE) {
        const struct range *own = e->memory.registered;
        return p != e->job.own || (own && own[region->slot].low == region->target &&
                               region->length <= own[region->slot].high - region->target);
    }
    if (region->kind == SEGMENT_DEVICE)
        return true; /* the kind checks what is asked of the block */
    return region->kind >= SEGMENT_MEMORY && region->kind <= SEGMENT_HEAP &&
           whole->length <= p->shm.span && whole->offset <= p->shm.span - whole->length &&
           (region->kind != SEGMENT_ALIAS ||
            (region->length <= whole->length && into <= whole->length - region->length));
}

/* Where the bytes of a region are mapped. */
static int region_map(acp_engine *e, struct peer *p, const struct region *region, bool pin, unsigned char **base)
{
    int rc = ACP_OK;
    pthread_mutex_lock(&e->space);
    if (region->kind == SEGMENT_HEAP) {
        const struct heap *h = heap_calls_map(e, p);
        if (!h || region->offset < h->position || region->offset + region->length > h->position + h->span)
            rc = ACP_E_DAMAGED;
        else
            *base = h->base + (region->offset - h->position);
    } else {
        rc = view_of(e, p, region->offset, region->offset + region->length, pin, base);
    }
    pthread_mutex_unlock(&e->space);
    return rc;
}

/* Finds out where `ga` is and how this process reaches it. Of a rank of another node nothing
 * but the rank can be checked here. */
static int region_locate(acp_lane *lane, acp_ga_t ga, uint64_t size, struct translation *t,
                         enum reach *reach, bool pin)
{
    acp_engine *e = lane->engine;
    int64_t rank = acp_ga_rank(ga);
    struct region region, whole;
    if (ga == ACP_GA_NULL)
        return lane_fail(lane, ACP_E_NULL, ga, size);
    if (ga >> 63 || unlikely(!newcomers_find(e, (uint64_t)rank)))
        return lane_fail(lane, ACP_E_RANK, ga, size);
    uint32_t slot = rank_slot_of(e, (uint32_t)rank);
    struct peer **last = &lane->peers[slot % LANE_PEERS], *p = *last;
    if (!p || p->slot != slot)
        p = *last = peer_of_slot(e, slot);
    if (!p)
        return lane_fail(lane, ACP_E_SYSTEM, ga, size);
    int relation = p->lost ? RELATION_UNKNOWN : peer_attach(e, p);
    if (p->lost)
        return lane_fail(lane, ACP_E_LOST, ga, size);
    *t = (struct translation){.peer = p, .low = ga, .length = size};
    if (relation == RELATION_REMOTE) {
        *reach = REACH_LINK;
        return ACP_OK;
    }
    int rc = directory_find(p->shm.control, acp_ga_offset(ga), &region);
    if (rc == ACP_OK && region.color != acp_ga_color(ga))
        rc = ACP_E_UNREGISTERED;
    if (rc == ACP_OK && region.kind == SEGMENT_HEAP)
        rc = heap_region(e, p, &region);
    if (rc == ACP_OK && acp_ga_offset(ga) - region.offset >= region.length)
        rc = ACP_E_UNREGISTERED;
    if (rc == ACP_OK) {
        lane->fault.low = region.offset;
        lane->fault.high = region.offset + region.length;
        if (size > region.offset + region.length - acp_ga_offset(ga))
            rc = ACP_E_BOUNDS;
    } else {
        lane->fault.low = lane->fault.high = 0;
    }
    whole = region;
    if (rc == ACP_OK && region.kind == SEGMENT_ALIAS)
        rc = directory_find(p->shm.control, region.target, &whole);
    if (rc == ACP_OK && !possible(e, p, &region, &whole))
        rc = ACP_E_DAMAGED;
    if (rc != ACP_OK) {
        uint64_t low = lane->fault.low, high = lane->fault.high;
        lane_fail(lane, p->lost ? ACP_E_LOST : rc, ga, size);
        lane->fault.low = low;
        lane->fault.high = high;
        return lane->fault.status;
    }
    const struct entry *entry = &directory_entries(p->shm.control)[region.slot];
    t->low = acp_ga((uint32_t)rank, region.color, region.offset);
    t->length = region.length;
    t->generation = &entry->generation;
    t->live = region.generation;
    t->kind = region.kind;
    bool named = region.kind == SEGMENT_MEMORY || region.kind == SEGMENT_HEAP;
    t->position = named ? region.offset : region.target;
    t->fence = p->shm.control->fences || !e->fence.fenced;
    t->busy = named && (region.offset <= STARTER_OFFSET || region.kind == SEGMENT_HEAP)
                  ? lane->nowhere
                                            : &p->shm.doors->lines[p->shm.line].busy[2 * lane->index];
    *reach = REACH_LOAD;
    if (region.kind == SEGMENT_PRIVATE || region.kind == SEGMENT_DEVICE) {
        if (region.kind == SEGMENT_DEVICE)
            *reach = REACH_DEVICE; /* if it is imported: devices/ knows */
        else if (p == e->job.own)
            t->base = (unsigned char *)(uintptr_t)region.target;
        else
            *reach = p->shm.vm_refused ? REACH_RING : REACH_VM;
        return ACP_OK;
    }
    rc = region_map(e, p, &whole, pin, &t->base);
    if (rc != ACP_OK)
        return lane_fail(lane, rc, ga, size);
    t->base += t->position - whole.offset;
    return ACP_OK;
}

static struct translation *cached(acp_lane *lane, acp_ga_t ga)
{
    uint64_t where = (ga >> 16) ^ (ga >> (ACP_OFFSET_BITS + ACP_COLOR_BITS)) * 7;
    return &lane->cache[where % LANE_CACHE];
}

static bool good(const struct translation *t, acp_ga_t ga, uint64_t size)
{
    return translate_covers(t, ga, size) && *t->generation == t->live && !t->peer->lost;
}

/* With it each access runs a fence, and soon need not. */
static bool passes(const acp_lane *lane, const struct translation *t)
{
    const acp_engine *e = lane->engine;
    return t->fence && !t->peer->shm.control->fences &&
           (atomic_load(&e->fence.late) || atomic_load(&e->fence.fenced));
}

int translate(acp_lane *lane, acp_ga_t ga, uint64_t size, struct translation *t,
              enum reach *reach)
{
    struct peer *remote = translate_remote(lane, ga);
    if (remote) {
        *t = (struct translation){.peer = remote, .low = ga, .length = size};
        *reach = REACH_LINK;
        return ACP_OK;
    }
    struct translation *known = cached(lane, ga);
    if (good(known, ga, size)) {
        *t = *known;
        *reach = REACH_LOAD;
        return ACP_OK;
    }
    int rc = region_locate(lane, ga, size, t, reach, false);
    if (rc == ACP_OK && *reach == REACH_LOAD && !passes(lane, t))
        *known = *t;
    return rc;
}

const struct translation *translate_miss(acp_lane *lane, uint32_t role, acp_ga_t ga, uint64_t size)
{
    struct translation t;
    enum reach reach;
    lane->fault.status = ACP_OK;
    if (translate(lane, ga, size, &t, &reach) != ACP_OK || reach != REACH_LOAD)
        return NULL;
    if (lane->engine->config.path == ACP_PATH_OWNER && t.peer != lane->engine->job.own &&
        lane->index != LANE_LEADER)
        return NULL;
    struct translation *kept = passes(lane, &t) ? &lane->passing[role] : &lane->recent[role];
    *kept = t;
    return kept;
}

int acp_query_address(acp_lane *lane, acp_ga_t ga, uint64_t size, void **address)
{
    struct translation t;
    enum reach reach;
    int rc = region_locate(lane, ga, size, &t, &reach, true);
    if (rc != ACP_OK)
        return rc;
    if (reach != REACH_LOAD)
        return lane_fail(lane, t.kind == SEGMENT_DEVICE ? ACP_E_DEVICE : ACP_E_PRIVATE, ga, size);
    *address = t.base + (ga - t.low);
    atomic_fetch_add(&t.peer->shown, 1);
    return ACP_OK;
}

void acp_forget_address(acp_engine *e, acp_ga_t ga)
{
    struct peer *p = peer_of_slot(e, rank_slot_of(e, acp_ga_rank(ga)));
    if (p)
        atomic_fetch_sub(&p->shown, 1);
}
