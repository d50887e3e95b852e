/* Changes of many elements at once: erased, brought into another order, moved here from another list. One change
 * writes the job down; any holder of the section then does it, in steps that do no harm when they are repeated; and
 * one more change ends it. */
#include "containers/list_bulk.h"
#include "containers/container.h"
#include "containers/list.h"
#include "containers/list_call.h"
#include "containers/list_ends.h"
#include "containers/list_nodes.h"
#include "containers/list_read.h"
#include "core/lane.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <string.h>

#define REVERSED 10u /* nodes a change, two words each */
#define BURIED 1000u /* nodes a call: others wait meanwhile */

static void job_end(struct hold *hold, struct list *l)
{
    transaction_set(hold, &l->job.kind, JOB_NONE);
    transaction_commit(hold);
}

/* Its nodes have no number from now on; in the end all join the chain of erased nodes. */
static int finish_erase(struct hold *hold, struct list *l)
{
    struct list_node *n = NULL;
    uint64_t at = l->job.first;
    for (uint64_t i = 0; i < l->job.count; i++) {
        if ((i && n->next == 0) || !(n = list_node(hold->heap, at)))
            return ACP_E_DAMAGED;
        transaction_store(&n->name, list_nameless(n->name));
        at = n->next;
    }
    transaction_begin(hold);
    int rc = list_unlink(hold, l, l->job.first, l->job.last, l->job.count);
    if (rc != ACP_OK) {
        transaction_cancel(hold);
        return rc;
    }
    transaction_set(hold, &n->next, l->dead);
    transaction_set(hold, &l->dead, l->job.first);
    job_end(hold, l);
    return ACP_OK;
}

static int finish_order(struct hold *hold, struct list *l)
{
    const struct heap *h = hold->heap;
    uint64_t count = l->job.count, kept = l->job.kept;
    if (!container_inside(h, l->job.block, count * 8) || kept > count)
        return ACP_E_DAMAGED;
    const uint64_t *order = (const uint64_t *)(const void *)(h->base + l->job.block);
    for (uint64_t i = 0; i < count; i++) {
        struct list_node *n = list_node(h, order[i]);
        bool is_last = i + 1 == kept || i + 1 == count;
        if (!n)
            return ACP_E_DAMAGED;
        if (i >= kept)
            transaction_store(&n->name, list_nameless(n->name));
        transaction_store(&n->next, !is_last ? order[i + 1] : i < kept ? 0 : l->dead);
        transaction_store(&n->previous, i && i != kept ? order[i - 1] : 0);
    }
    transaction_begin(hold);
    transaction_set(hold, &l->first, kept ? order[0] : 0);
    transaction_set(hold, &l->last, kept ? order[kept - 1] : 0);
    transaction_set(hold, &l->size, kept);
    transaction_set(hold, &l->changes, l->changes + 1);
    transaction_set(hold, &l->orders, l->orders + 1);
    if (kept < count)
        transaction_set(hold, &l->dead, order[kept]);
    transaction_drop(hold, l->job.block);
    job_end(hold, l);
    return ACP_OK;
}

static int finish_reverse(struct hold *hold, struct list *l)
{
    while (l->job.first) {
        uint64_t at = l->job.first;
        transaction_begin(hold);
        for (uint32_t i = 0; i < REVERSED && at; i++) {
            struct list_node *n = list_node(hold->heap, at);
            if (!n) {
                transaction_cancel(hold);
                return ACP_E_DAMAGED;
            }
            at = n->next;
            transaction_set(hold, &n->next, n->previous);
            transaction_set(hold, &n->previous, at);
        }
        transaction_set(hold, &l->job.first, at);
        transaction_commit(hold);
    }
    uint64_t first = l->first;
    transaction_begin(hold);
    transaction_set(hold, &l->first, l->last);
    transaction_set(hold, &l->last, first);
    transaction_set(hold, &l->changes, l->changes + 1);
    transaction_set(hold, &l->orders, l->orders + 1);
    job_end(hold, l);
    return ACP_OK;
}

/* The nodes are in no list now: a number that is given again was never visible. */
static int finish_splice(struct hold *hold, struct list *l)
{
    uint64_t at = l->job.first;
    for (uint64_t i = 0; i < l->job.count; i++) {
        struct list_node *n = list_node(hold->heap, at);
        if (!n)
            return ACP_E_DAMAGED;
        transaction_store(&n->name, list_name(l, list_new_number(l), list_nameless(n->name)));
        at = n->next;
    }
    transaction_begin(hold);
    int rc = list_link(hold, l, l->job.first, l->job.last, l->job.count, l->job.before);
    if (rc == ACP_OK)
        job_end(hold, l);
    else
        transaction_cancel(hold);
    return rc;
}

/* A job that put elements in together did not get through: its process was killed, or found no room for all. The
 * elements were never visible, and go the way of erased nodes. */
static int finish_gather(struct hold *hold, struct list *l)
{
    struct list_node *last = list_node(hold->heap, l->job.last);
    if (!last)
        return ACP_E_DAMAGED;
    transaction_begin(hold);
    transaction_set(hold, &last->next, l->dead);
    transaction_set(hold, &l->dead, l->job.first);
    job_end(hold, l);
    return ACP_OK;
}

int list_bulk_finish(struct hold *hold, struct list *l)
{
    switch (l->job.kind) {
    case JOB_ERASE:
        return finish_erase(hold, l);
    case JOB_ORDER:
        return finish_order(hold, l);
    case JOB_REVERSE:
        return finish_reverse(hold, l);
    case JOB_SPLICE:
        return finish_splice(hold, l);
    case JOB_PUT_FRONT:
    case JOB_PUT_BACK:
    case JOB_TAKE_FRONT:
    case JOB_TAKE_BACK:
        return list_ends_finish(hold, l);
    case JOB_GATHER:
        return finish_gather(hold, l);
    default:
        return ACP_E_DAMAGED;
    }
}

int list_bulk_method_erase(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct list *l;
    struct list_span s;
    uint64_t last, count;
    if (c->in_size != sizeof s)
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    memcpy(&s, c->in, sizeof s);
    int rc = list_enter(&hold, lane, c, &l);
    if (rc != ACP_OK)
        return rc;
    if (!list_read_span(&hold, l, &s, &last, &count))
        c->result[0] = LIST_STALE;
    else if (count) {
        transaction_begin(&hold);
        transaction_set(&hold, &l->job.first, s.first.node);
        transaction_set(&hold, &l->job.last, last);
        transaction_set(&hold, &l->job.count, count);
        transaction_set(&hold, &l->job.kind, JOB_ERASE);
        transaction_commit(&hold);
        rc = list_bulk_finish(&hold, l);
        c->result[1] = count;
    }
    return list_done(&hold, c, rc);
}

/* All at once, by another era; their chain becomes the beginning of the chain of erased nodes. */
int list_bulk_clear(struct hold *hold, struct list *l)
{
    struct list_node *last = l->last ? list_node(hold->heap, l->last) : NULL;
    if (!l->size)
        return ACP_OK;
    if (!last)
        return ACP_E_DAMAGED;
    transaction_begin(hold);
    transaction_set(hold, &l->era, list_new_era(hold, l));
    transaction_set(hold, &last->next, l->dead);
    transaction_set(hold, &l->dead, l->first);
    transaction_set(hold, &l->first, 0);
    transaction_set(hold, &l->last, 0);
    transaction_set(hold, &l->size, 0);
    transaction_set(hold, &l->changes, l->changes + 1);
    transaction_commit(hold);
    return ACP_OK;
}

int list_bulk_method_clear(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct list *l;
    int rc = list_enter(&hold, lane, c, &l);
    return rc == ACP_OK ? list_done(&hold, c, list_bulk_clear(&hold, l)) : rc;
}

int list_bulk_bury(struct hold *hold, struct list *l, acp_ga_t *elsewhere)
{
    const struct list_node *n = list_node(hold->heap, l->dead);
    if (!n)
        return ACP_E_DAMAGED;
    const struct list_far *far = list_far(hold->heap, n, n->name);
    uint64_t block = far ? far->block : 0;
    bool own = block && !list_is_address(block);
    *elsewhere = own ? 0 : block;
    transaction_begin(hold);
    transaction_drop(hold, l->dead);
    if (own)
        transaction_drop(hold, block);
    transaction_set(hold, &l->dead, n->next);
    transaction_commit(hold);
    return ACP_OK;
}

/* Spare nodes beyond the bound of a list that became short go, too. True: some are still left. */
static bool spares_left(struct hold *hold, struct list *l)
{
    for (uint32_t i = 0; i < BURIED; i += HEAP_ROW) {
        if (list_nodes_spares(hold, l) <= l->size / 8)
            return false;
        if (!list_nodes_settled(hold) || list_nodes_trim(hold, l) != ACP_OK)
            return false; /* the heap is busy: another time */
    }
    return true;
}

int list_bulk_method_bury(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct list *l;
    unsigned char *out = c->out;
    int rc = list_enter(&hold, lane, c, &l);
    if (rc != ACP_OK)
        return rc;
    for (uint32_t i = 0; i < BURIED && l->dead && list_nodes_settled(&hold) && rc == ACP_OK; i++) {
        acp_ga_t elsewhere;
        if (c->out_room - c->out_size < sizeof elsewhere)
            break;
        rc = list_bulk_bury(&hold, l, &elsewhere);
        if (rc == ACP_OK && elsewhere) {
            memcpy(out + c->out_size, &elsewhere, sizeof elsewhere);
            c->out_size += sizeof elsewhere;
        }
    }
    c->result[1] = l->dead || spares_left(&hold, l);
    return list_done(&hold, c, rc);
}
