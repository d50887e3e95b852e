/* Another order of a list, made by its caller or by turning it round. */
#include "containers/list_sort.h"
#include "containers/container.h"
#include "containers/list.h"
#include "containers/list_bulk.h"
#include "containers/list_call.h"
#include "core/lane.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <string.h>

static uint64_t bits_mixed(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}

/* Are these the nodes of the list, each once? The sums agree by accident once in 2^64. */
static bool is_order(const struct heap *h, const struct list *l, const uint64_t *order)
{
    uint64_t wanted = 0, sum = 0, at = l->first;
    for (uint64_t i = 0; i < l->size; i++) {
        const struct list_node *n = list_node(h, at);
        if (!n)
            return false;
        wanted += bits_mixed(at);
        sum += bits_mixed(order[i]);
        at = n->next;
    }
    return !at && sum == wanted;
}

/* The offsets are in a block of this heap in the end: where; `own`: the caller's, with the call. */
static int lay_out(struct hold *hold, const struct acp_call *c, const struct list_order *o,
                   uint64_t *block)
{
    if (!o->block) {
        if (c->in_size - sizeof *o != o->count * 8)
            return lane_fail(hold->lane, ACP_E_ARGUMENT, c->object, c->in_size);
        int rc = transaction_take(hold, o->count * 8, block);
        if (rc == ACP_OK)
            memcpy(hold->heap->base + *block, (const unsigned char *)c->in + sizeof *o,
                   o->count * 8);
        return rc;
    }
    *block = acp_ga_offset(o->block) - hold->heap->position;
    if (acp_ga_rank(o->block) != acp_ga_rank(c->object) || *block % 16 ||
        !container_inside(hold->heap, *block, o->count * 8))
        return lane_fail(hold->lane, ACP_E_ARGUMENT, o->block, o->count * 8);
    return ACP_OK;
}

static int reorder(struct hold *hold, struct list *l, struct acp_call *c,
                   const struct list_order *o)
{
    uint64_t block;
    transaction_begin(hold);
    int rc = lay_out(hold, c, o, &block);
    if (rc == ACP_OK &&
        !is_order(hold->heap, l, (const uint64_t *)(const void *)(hold->heap->base + block)))
        rc = lane_fail(hold->lane, ACP_E_ARGUMENT, c->object, o->count);
    if (rc != ACP_OK) {
        transaction_cancel(hold);
        return rc;
    }
    transaction_set(hold, &l->job.block, block);
    transaction_set(hold, &l->job.count, o->count);
    transaction_set(hold, &l->job.kept, o->kept);
    transaction_set(hold, &l->job.kind, JOB_ORDER);
    transaction_commit(hold);
    c->result[1] = 1; /* the block is the list's */
    return list_bulk_finish(hold, l);
}

int list_sort_method_order(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct list *l;
    struct list_order o;
    if (c->in_size < sizeof o)
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    memcpy(&o, c->in, sizeof o);
    int rc = list_enter(&hold, lane, c, &l);
    if (rc != ACP_OK)
        return rc;
    if (o.changes != l->changes || o.count != l->size || !o.count || o.kept > o.count)
        c->result[0] = LIST_CHANGED;
    else
        rc = reorder(&hold, l, c, &o);
    return list_done(&hold, c, rc);
}

int list_sort_method_reverse(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct list *l;
    int rc = list_enter(&hold, lane, c, &l);
    if (rc != ACP_OK)
        return rc;
    if (l->size > 1) {
        transaction_begin(&hold);
        transaction_set(&hold, &l->job.first, l->first);
        transaction_set(&hold, &l->job.kind, JOB_REVERSE);
        transaction_commit(&hold);
        rc = list_bulk_finish(&hold, l);
    }
    return list_done(&hold, c, rc);
}
