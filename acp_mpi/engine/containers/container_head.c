/* Creation and destruction of containers: their heads, serials and notes. */
#include "containers/container_head.h"
#include "containers/container.h"
#include "containers/counter.h"
#include "containers/list.h"
#include "containers/map.h"
#include "containers/map_bucket.h"
#include "containers/sequence.h"
#include "containers/workspace.h"
#include "core/method.h"
#include "memory/heap.h"
#include "memory/heap_calls.h"
#include "memory/heap_pages.h"
#include "memory/size_class.h"
#include "memory/transaction.h"
#include "memory/transaction_lock.h"
#include "memory/translate.h"

#include <string.h>

static const struct container_type *const types[KINDS] = {
    [KIND_COUNTER] = &counter_type,
    [KIND_DEQUE] = &sequence_type,
    [KIND_LIST] = &list_type,
    [KIND_MAP] = &map_type,
    [KIND_MULTISET] = &map_type,
    [KIND_SET] = &map_type,
    [KIND_VECTOR] = &sequence_type,
    [KIND_WORKSPACE] = &workspace_type,
};

uint64_t container_head_size(uint64_t kind)
{
    return kind < KINDS && types[kind] ? types[kind]->size : 0;
}

/* No offset looks like one, nor does a word that a free block holds; nor 0 one that is being destroyed. */
static uint64_t new_serial(acp_engine *e)
{
    uint64_t x = e->row.nonce + atomic_fetch_add(&e->containers.serials, 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (x ^ x >> 31) | SERIAL_LIVES | 1;
}

static struct container *at_offset(const struct heap *h, uint64_t at)
{
    return (struct container *)(void *)(h->base + at);
}

/* A block that begins there is given out, and holds a head. */
static bool is_head(const struct heap *h, uint64_t at, uint64_t kind)
{
    return at % 16 == 0 && at > h->first && container_inside(h, at, types[kind]->size) &&
           heap_block(h, at - BLOCK_HEAD)->mark == size_class_mark(h, at - BLOCK_HEAD) &&
           heap_block_size(h, at - BLOCK_HEAD) >= types[kind]->size + BLOCK_HEAD &&
           at_offset(h, at)->kind == kind;
}

bool container_head_at(const struct heap *h, uint64_t at)
{
    if (at % 16 || at <= h->first || !container_inside(h, at, sizeof(struct container)) ||
        !heap_pages_committed(h, at) || !heap_pages_committed(h, at + sizeof(struct container) - 1))
        return false;
    const struct container *k = at_offset(h, at);
    return unlikely(word_load(&k->era) == h->head->nonce) && k->kind < KINDS && types[k->kind] &&
           is_head(h, at, k->kind);
}

static int head_take(acp_lane *lane, struct heap *h, uint64_t kind, uint64_t *at)
{
    struct hold hold;
    uint64_t *first = &h->head->spare[kind];
    int rc = transaction_enter(&hold, lane, &h->head->section, h, lane->patience_ns);
    if (rc != ACP_OK)
        return rc;
    *at = is_head(h, *first, kind) ? *first : 0;
    if (*at) {
        transaction_begin(&hold);
        transaction_set(&hold, first, at_offset(h, *at)->spare);
        transaction_commit(&hold);
    }
    transaction_leave(&hold);
    if (*at)
        return ACP_OK;
    rc = heap_take(lane, h, types[kind]->size, at, lane->patience_ns);
    if (rc == ACP_OK) {
        memset(at_offset(h, *at), 0, types[kind]->size);
        at_offset(h, *at)->kind = kind;
        transaction_lock_create(&at_offset(h, *at)->section);
        at_offset(h, *at)->section.patient = true; /* all calls go through it, but those of maps */
        if (types[kind]->make)
            types[kind]->make(at_offset(h, *at));
    }
    return rc;
}

/* The head goes onto the list of its kind's spare heads. No caller has a head that was never published; a destroyed
 * container's serial ends here, within its section `own`. */
static int head_give(acp_lane *lane, struct heap *h, struct container *k, const struct hold *own)
{
    struct hold hold;
    uint64_t *first = &h->head->spare[k->kind];
    int rc = transaction_enter(&hold, lane, &h->head->section, h, HEAP_PATIENCE_NS);
    if (rc != ACP_OK)
        return rc;
    transaction_begin(&hold);
    if (own)
        transaction_set(&hold, &k->serial, 0);
    transaction_set(&hold, &k->spare, *first);
    transaction_set(&hold, first, (uint64_t)((unsigned char *)k - h->base));
    transaction_commit(&hold);
    transaction_leave(&hold);
    return ACP_OK;
}

static int container_fill(struct hold *hold, struct container *k, uint64_t serial, const struct acp_call *c)
{
    struct container_plan plan;
    uint64_t size = c->in_size - sizeof plan, block = 0;
    memcpy(&plan, c->in, sizeof plan);
    transaction_begin(hold);
    int rc = size ? transaction_take(hold, size, &block) : ACP_OK;
    if (rc == ACP_OK && size)
        memcpy(hold->heap->base + block, (const unsigned char *)c->in + sizeof plan, size);
    transaction_set(hold, &k->era, hold->heap->head->nonce);
    transaction_set(hold, &k->note, block);
    transaction_set(hold, &k->note_size, size);
    if (rc == ACP_OK)
        rc = types[k->kind]->create(hold, k, plan.words);
    transaction_set(hold, &k->serial, serial);
    if (rc == ACP_OK)
        transaction_commit(hold);
    else
        transaction_cancel(hold);
    return rc;
}

int container_head_method_create(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct heap *h = heap_calls_find(lane, c->object);
    uint64_t at, serial = new_serial(lane->engine);
    if (!h)
        return lane->fault.status;
    if (c->a >= KINDS || !types[c->a] || c->in_size < sizeof(struct container_plan))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    int rc = head_take(lane, h, c->a, &at);
    if (rc != ACP_OK)
        return rc;
    struct container *k = at_offset(h, at);
    rc = transaction_enter(&hold, lane, &k->section, h, lane->patience_ns);
    if (rc == ACP_OK) {
        rc = container_fill(&hold, k, serial, c);
        transaction_leave(&hold);
    }
    if (rc != ACP_OK) {
        acp_fault why = lane->fault;
        head_give(lane, h, k, NULL);
        lane->fault = why;
    }
    c->result[0] = container_ga(c, h, at);
    c->result[1] = serial;
    return rc;
}

/* Is the container alive, or half-way destroyed? */
static bool is_left(const struct container *k, const struct heap *h, const struct acp_call *c)
{
    uint64_t serial = word_load(&k->serial);
    return serial && (serial | SERIAL_LIVES) == c->a && k->era == h->head->nonce &&
           k->kind < KINDS && types[k->kind];
}

/* A step may leave blocks to give back, as others hold the heap. They go back before the next step, which would wait
 * for that, for ever if its caller held the heap. */
static int destroy(struct hold *hold, struct heap *h, struct container *k)
{
    transaction_store(&k->serial, k->serial & ~SERIAL_LIVES);
    int rc = types[k->kind]->clear ? types[k->kind]->clear(hold, k) : ACP_OK;
    if (rc == ACP_OK && k->note && map_bucket_settled(hold)) {
        transaction_begin(hold);
        transaction_drop(hold, k->note);
        transaction_set(hold, &k->note, 0);
        transaction_commit(hold);
    }
    if (rc == ACP_OK && !map_bucket_settled(hold))
        rc = lane_fail(hold->lane, ACP_E_BUSY, 0, 0);
    return rc == ACP_OK ? head_give(hold->lane, h, k, hold) : rc;
}

int container_head_method_destroy(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct heap *h;
    struct container *k = container_place(lane, c->object, &h);
    if (!k || !is_left(k, h, c))
        return k ? container_gone(lane, c) : lane->fault.status;
    int rc = transaction_enter(&hold, lane, &k->section, h, lane->patience_ns);
    if (rc != ACP_OK)
        return rc;
    rc = is_left(k, h, c) ? destroy(&hold, h, k) : container_gone(lane, c);
    transaction_leave(&hold);
    return rc;
}

int container_head_method_describe(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct heap *h;
    struct container *k = container_place(lane, c->object, &h);
    if (!k)
        return lane->fault.status;
    uint64_t at = acp_ga_offset(c->object) - h->position, serial = k->serial, kind = k->kind;
    struct acp_call named = {.object = c->object, .a = c->a ? c->a : serial | SERIAL_LIVES};
    if (kind >= KINDS || !types[kind] || !is_head(h, at, kind))
        return container_gone(lane, c);
    int rc = container_enter(&hold, lane, &named, kind, &k);
    if (rc != ACP_OK)
        return rc;
    c->result[0] = k->serial;
    c->result[1] = kind;
    c->out_size = k->note_size < c->out_room ? k->note_size : c->out_room;
    if (container_inside(h, k->note, c->out_size))
        memcpy(c->out, h->base + k->note, c->out_size);
    transaction_leave(&hold);
    return ACP_OK;
}
