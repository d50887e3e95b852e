
#include "containers/heap_methods.h"
#include "containers/container.h"
#include "containers/container_head.h"
#include "core/method.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "core/upcalls.h"
#include "memory/heap.h"
#include "memory/heap_calls.h"
#include "memory/heap_pages.h"

#include <string.h>
/* Blocks of memory on any rank, by their addresses: taken and given back by the caller if load and
 * store reach the heap, else by its owner. */

/* A heap that this lane has used lately: it neither moves nor ends before its rank does. */
static inline struct heap *heap_known(acp_lane *lane, acp_ga_t ga)
{
    acp_engine *e = lane->engine;
    int64_t rank = acp_ga_rank(ga);
    if (unlikely(rank < 0 || rank >= (int64_t)e->procs || ga >> 63 || acp_ga_color(ga)))
        return NULL;
    uint32_t slot = rank_slot_of(e, (uint32_t)rank);
    const struct peer *p = lane->peers[slot % LANE_PEERS];
    bool near = p && p->slot == slot && !p->lost &&
                (p == e->job.own || e->config.path != ACP_PATH_OWNER || lane->index == LANE_LEADER);
    return near ? atomic_load_explicit(&p->memory.heap, memory_order_acquire) : NULL;
}

static int method_failed(acp_lane *lane, int rc, const struct acp_call *c)
{
    lane->fault.ga = c->object;
    lane->fault.rank = acp_ga_rank(c->object);
    lane->fault.size = c->a;
    return rc;
}

static int method_take(acp_lane *lane, struct heap *h, struct acp_call *c, int64_t patience_ns)
{
    uint64_t block = 0;
    int rc = heap_take(lane, h, c->a, &block, patience_ns);
    if (rc == ACP_OK)
        c->result[0] = acp_ga((uint32_t)acp_ga_rank(c->object), 0, h->position + block);
    return rc;
}

/* A program gives back blocks only: a container ends by its own method. */
static int method_give(acp_lane *lane, struct heap *h, struct acp_call *c, int64_t patience_ns)
{
    uint64_t block = acp_ga_offset(c->object) - h->position;
    if (unlikely(container_head_at(h, block)))
        return lane_fail(lane, ACP_E_BLOCK, c->object, 0);
    int rc = heap_give(lane, h, &block, patience_ns);
    c->result[0] = rc == ACP_OK && heap_pages_sweep_due(h);
    return rc;
}

static int give_held(acp_lane *lane, struct heap *h, struct acp_call *c, int64_t patience_ns)
{
    c->result[0] = 0;
    return lane->engine->up->held_give(lane, h, acp_ga_offset(c->object) - h->position, c->a, patience_ns);
}

static int method_look(acp_lane *lane, struct heap *h, struct acp_call *c, int64_t patience_ns)
{
    acp_heap_statistics s;
    int rc = heap_calls_look(lane, h, &s, patience_ns);
    c->out_size = sizeof s;
    memcpy(c->out, &s, sizeof s);
    return rc;
}

static int tidy(acp_lane *lane, struct heap *h, struct acp_call *c, int64_t patience_ns)
{
    int rc = heap_pages_sweep(lane, h, false, patience_ns);
    c->result[0] = heap_pages_sweep_due(h);
    return rc;
}

static int heap_method_run(acp_lane *lane, struct heap *h, struct acp_call *c, int64_t patience_ns)
{
    static int (*const functions[])(acp_lane *, struct heap *, struct acp_call *, int64_t) = {
        [METHOD_MALLOC] = method_take, [METHOD_FREE] = method_give, [METHOD_HEAP_LOOK] = method_look,
        [METHOD_HEAP_TIDY] = tidy, [METHOD_FREE_HELD] = give_held};
    int rc = functions[c->method](lane, h, c, patience_ns);
    return likely(rc == ACP_OK) ? rc : method_failed(lane, rc, c);
}

int heap_methods_run(acp_lane *lane, struct acp_call *c)
{
    struct heap *h = heap_calls_find(lane, c->object);
    return h ? heap_method_run(lane, h, c, 0) : lane->fault.status;
}

/* The caller waits for the heap itself if it reaches it, but not while it has a lock of its own. */
static int perform(acp_lane *lane, struct acp_call *c, acp_handle_t *pending)
{
    struct heap *h = heap_known(lane, c->object);
    *pending = 0;
    if (likely(h != NULL) || (h = heap_calls_find(lane, c->object)))
        return heap_method_run(lane, h, c, lane->index == LANE_CALLER ? 0 : ACP_FOREVER);
    return lane->fault.status != ACP_OK ? lane->fault.status : acp_call(lane, c, pending);
}

int acp_malloc(acp_lane *lane, uint32_t rank, uint64_t size, struct acp_call *c,
               acp_handle_t *pending)
{
    *c = (struct acp_call){.method = METHOD_MALLOC, .object = acp_post(lane->engine, rank),
                           .a = size};
    return perform(lane, c, pending);
}

int acp_free(acp_lane *lane, acp_ga_t ga, struct acp_call *c, acp_handle_t *pending)
{
    *c = (struct acp_call){.method = METHOD_FREE, .object = ga};
    return perform(lane, c, pending);
}

int acp_free_held(acp_lane *lane, acp_ga_t ga, struct acp_call *c, acp_handle_t *pending)
{
    *c = (struct acp_call){.method = METHOD_FREE_HELD, .object = ga, .a = lane->engine->self};
    return perform(lane, c, pending);
}

int acp_heap_tidy(acp_lane *lane, uint32_t rank, struct acp_call *c, acp_handle_t *pending)
{
    *c = (struct acp_call){.method = METHOD_HEAP_TIDY, .object = acp_post(lane->engine, rank)};
    return perform(lane, c, pending);
}

int acp_heap_look(acp_lane *lane, uint32_t rank, acp_heap_statistics *out, struct acp_call *c,
                  acp_handle_t *pending)
{
    *c = (struct acp_call){.method = METHOD_HEAP_LOOK, .object = acp_post(lane->engine, rank),
                           .out = out, .out_room = sizeof *out};
    return perform(lane, c, pending);
}
