/* Elements put into a list and taken out of it. */
#include "containers/list_insert.h"
#include "containers/container.h"
#include "containers/list.h"
#include "containers/list_bulk.h"
#include "containers/list_call.h"
#include "containers/list_ends.h"
#include "containers/list_nodes.h"
#include "core/lane.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <stddef.h>
#include <string.h>

#define MOST_TAKEN 2000u /* elements a call: others wait meanwhile */

/* Is this an address in the heap of the list itself? Its offset there. */
static uint64_t own_block(const struct hold *hold, const struct acp_call *c, acp_ga_t ga)
{
    uint64_t offset = acp_ga_offset(ga) - hold->heap->position;
    return ga && acp_ga_rank(ga) == acp_ga_rank(c->object) &&
                   container_inside(hold->heap, offset, 1)
               ? offset
               : 0;
}

/* Takes a node for one element, as the record describes it; `data` if that names no place. */
static int fill_node(struct hold *hold, struct list *l, const struct acp_call *c,
                     const struct list_record *r, const void *data, struct list_id *id)
{
    uint64_t at, own = own_block(hold, c, r->block);
    const struct list_far far = {r->size, r->payload, own ? own : r->block};
    uint64_t follows = r->payload ? sizeof far : r->size;
    int rc = list_nodes_take(hold, l, sizeof(struct list_node) + follows, &at);
    if (likely(rc == ACP_OK)) {
        struct list_node *n = (struct list_node *)(void *)(hold->heap->base + at);
        *id = (struct list_id){at, list_new_number(l)};
        transaction_store(&n->name, list_name(l, id->number, r->payload ? LIST_FAR : r->size));
        words_in(n + 1, r->payload ? (const void *)&far : data, follows);
    }
    return rc;
}

static int insert_ended(struct hold *hold, int rc)
{
    if (likely(rc == ACP_OK))
        transaction_commit(hold);
    else
        transaction_cancel(hold);
    return rc;
}

static int put_one(struct hold *hold, struct list *l, const struct acp_call *c, uint64_t before,
                   const struct list_record *r, const void *data, struct list_id *id)
{
    transaction_begin(hold);
    int rc = fill_node(hold, l, c, r, data, id);
    if (likely(rc == ACP_OK))
        rc = list_link(hold, l, id->node, id->node, 1, before);
    return insert_ended(hold, rc);
}

/* Several elements go in together. Until then they are a chain of their own, named by a job, so that none is lost if
 * their process dies. */
static int gather_one(struct hold *hold, struct list *l, const struct acp_call *c,
                      const struct list_record *r, const void *data, struct list_id *id)
{
    struct list_node *last = l->job.kind ? list_node(hold->heap, l->job.last) : NULL;
    uint64_t count = last ? l->job.count + 1 : 1;
    transaction_begin(hold);
    int rc = fill_node(hold, l, c, r, data, id);
    if (unlikely(rc != ACP_OK))
        return insert_ended(hold, rc);
    struct list_node *n = (struct list_node *)(void *)(hold->heap->base + id->node);
    const struct setting more[] = {{last ? &last->next : &l->job.first, id->node},
                                   {&n->previous, l->job.last},
                                   {&l->job.last, id->node},
                                   {&l->job.count, count}};
    transaction_set_all(hold, more, sizeof more / sizeof *more);
    if (!last)
        transaction_set(hold, &l->job.kind, JOB_GATHER);
    return insert_ended(hold, ACP_OK);
}

static int link_gathered(struct hold *hold, struct list *l, uint64_t before)
{
    transaction_begin(hold);
    int rc = list_link(hold, l, l->job.first, l->job.last, l->job.count, before);
    transaction_set(hold, &l->job.kind, JOB_NONE);
    return insert_ended(hold, rc);
}

/* There is no memory for all: the gathered nodes go back to the heap. The blocks that they name stay the caller's. If
 * the heap is busy the rest joins the erased nodes. */
static void drop_gathered(struct hold *hold, struct list *l)
{
    const acp_fault fault = hold->lane->fault; /* why */
    struct list_node *n;
    uint64_t at = l->job.first, count = l->job.count;
    acp_ga_t none;
    for (uint64_t i = 0; i < count && (n = list_node(hold->heap, at)); i++) {
        transaction_store(&n->name, 0);
        at = n->next;
    }
    int rc = list_bulk_finish(hold, l);
    for (uint64_t i = 0; i < count && rc == ACP_OK && list_nodes_settled(hold); i++)
        rc = list_bulk_bury(hold, l, &none);
    hold->lane->fault = fault;
}

/* Reads the record at `*at` and goes behind it: an element, and its bytes if they are not elsewhere. */
static int next_record(const struct acp_call *c, uint64_t width, uint64_t *at,
                       struct list_record *r, const void **data)
{
    const unsigned char *in = c->in;
    *r = (struct list_record){.size = width};
    if (!width && c->in_size - *at >= sizeof *r) {
        memcpy(r, in + *at, sizeof *r);
        *at += sizeof *r;
    }
    uint64_t length = r->payload ? 0 : width ? width : 8 * words_of(r->size);
    if ((r->size > LIST_INLINE && !r->payload) || length > c->in_size - *at)
        return ACP_E_ARGUMENT;
    *data = in + *at;
    *at += length;
    return ACP_OK;
}

/* All elements go in, or none. */
static int put_all(struct hold *hold, struct list *l, struct acp_call *c, uint64_t before,
                   struct list_id *first)
{
    struct list_record r;
    struct list_id id;
    const void *data;
    uint64_t width, at = sizeof(struct list_put), count = 0;
    int rc = ACP_OK;
    memcpy(&width, (const unsigned char *)c->in + offsetof(struct list_put, width), sizeof width);
    while (rc == ACP_OK && at < c->in_size) {
        if (next_record(c, width, &at, &r, &data) != ACP_OK)
            rc = lane_fail(hold->lane, ACP_E_ARGUMENT, c->object, r.size);
        else if (!count && at == c->in_size)
            rc = put_one(hold, l, c, before, &r, data, &id);
        else
            rc = gather_one(hold, l, c, &r, data, &id);
        if (rc == ACP_OK && !count++)
            *first = id;
    }
    if (l->job.kind && rc == ACP_OK)
        rc = link_gathered(hold, l, before);
    if (l->job.kind)
        drop_gathered(hold, l);
    if (rc == ACP_OK)
        c->result[1] = count;
    return rc;
}

int list_insert_method_put(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct list *l;
    struct list_id first = {0, 0}, at = {0, 0};
    uint64_t size;
    if (c->in_size < sizeof(struct list_put) || c->b > LIST_AT)
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    if (c->b == LIST_AT)
        memcpy(&at, c->in, sizeof at); /* the first thing there */
    memcpy(&size, (const unsigned char *)c->in + offsetof(struct list_put, width), sizeof size);
    int rc = list_enter(&hold, lane, c, &l);
    if (rc != ACP_OK)
        return rc;
    if (at.node && !list_has(hold.heap, l, at))
        c->result[0] = LIST_STALE;
    else if (c->b != LIST_AT && size && c->in_size == sizeof(struct list_put) + size &&
             list_ends_put(&hold, l, c->b == LIST_FRONT, (const struct list_put *)c->in + 1, size,
                           &first))
        c->result[1] = 1;
    else
        rc = put_all(&hold, l, c, c->b == LIST_FRONT ? l->first : at.node, &first);
    list_done(&hold, c, rc);
    if (c->out_room >= sizeof first) {
        words_out(c->out, &first, sizeof first); /* as it was put together: a processor forwards words */
        c->out_size = sizeof first;
    }
    return rc;
}

/* Deals with an element's node and block on removal: its record to `out`, the rest to the heap. Returns the number of
 * spare blocks. */
static uint64_t part(struct hold *hold, struct list *l, const struct acp_call *c, uint64_t at,
                 const struct list_node *n, enum list_take how, unsigned char *out)
{
    const struct list_far *far = list_far(hold->heap, n, n->name);
    uint64_t size = far ? far->size : list_nameless(n->name), payload = far ? far->payload : 0;
    uint64_t block = far ? far->block : 0, spares = 0;
    bool own = block && !list_is_address(block);
    if (how == LIST_KEEP && !payload) { /* the node stays, as the block of the element */
        block = container_ga(c, hold->heap, at);
        payload = block + sizeof *n;
    } else {
        spares = list_nodes_keep(hold, l, at);
        if (how == LIST_DROP && own)
            transaction_drop(hold, block);
        block = !own ? block : how == LIST_DROP ? 0 : container_ga(c, hold->heap, block);
    }
    const struct list_record r = {{at, list_number(l, n->name)}, size, payload, block};
    words_out(out, &r, sizeof r); /* as it was put together: a processor forwards words */
    return spares;
}

/* Takes one element out, with record and bytes to `out`; *used 0: no room for them. */
static int take_one(struct hold *hold, struct list *l, struct acp_call *c, uint64_t at,
                    struct list_node *n, enum list_take how, unsigned char *out, uint64_t room,
                    uint64_t *used)
{
    *used = 0;
    uint64_t size = list_nameless(n->name);
    uint64_t length = how == LIST_FETCH && size != LIST_FAR ? 8 * words_of(size) : 0;
    uint64_t head = sizeof(struct list_record);
    if (length && !container_inside(hold->heap, at + sizeof *n, length))
        return ACP_E_DAMAGED;
    if (length > room || head > room - length)
        return ACP_OK;
    transaction_begin(hold);
    int rc = list_unlink(hold, l, at, at, 1);
    if (rc != ACP_OK) {
        transaction_cancel(hold);
        return rc;
    }
    uint64_t spares = part(hold, l, c, at, n, how, out);
    transaction_set(hold, &n->name, 0);
    if (length)
        words_out(out + head, n + 1, length);
    transaction_commit(hold);
    if (spares > l->size / 8 + HEAP_ROW && list_nodes_settled(hold))
        list_nodes_trim(hold, l); /* busy: after the next one */
    *used = head + length;
    return ACP_OK;
}

static int take_all(struct hold *hold, struct list *l, struct acp_call *c, uint64_t at)
{
    unsigned char *out = c->out;
    uint64_t most = (uint32_t)c->b >> 8, used = sizeof(struct list_answer), size, count = 0;
    enum list_where where = (enum list_where)(c->b & 255);
    enum list_take how = (enum list_take)(c->b >> 32);
    int rc = ACP_OK;
    while (at && count < most && count < MOST_TAKEN && list_nodes_settled(hold)) {
        struct list_node *n = list_node(hold->heap, at);
        uint64_t next = !n ? 0 : where == LIST_BACK ? n->previous : n->next;
        rc = !n ? ACP_E_DAMAGED
                : take_one(hold, l, c, at, n, how, out + used, c->out_room - used, &size);
        if (rc != ACP_OK || !size)
            break;
        used += size;
        count++;
        at = next;
    }
    const struct list_node *next = at ? list_node(hold->heap, at) : NULL;
    const struct list_answer answer = {
        .count = count, .changes = l->changes, .orders = l->orders, .size = l->size,
        .next = {at, next ? list_number(l, next->name) : 0}};
    words_out(out, &answer, sizeof answer);
    c->out_size = used;
    return count ? ACP_OK : rc;
}

int list_insert_method_take(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct list *l;
    struct list_id id = {0, 0};
    enum list_where where = (enum list_where)(c->b & 255);
    if (c->out_room < sizeof(struct list_answer) || c->b >> 32 > LIST_KEEP ||
        (where == LIST_AT && c->in_size != sizeof id))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    int rc = list_enter(&hold, lane, c, &l);
    if (rc != ACP_OK)
        return rc;
    if (where == LIST_AT)
        memcpy(&id, c->in, sizeof id);
    if (where == LIST_AT && !list_has(hold.heap, l, id))
        c->result[0] = LIST_STALE;
    else if (!l->first || !l->last)
        c->result[0] = LIST_EMPTY;
    else if (where == LIST_AT || c->b >> 8 != (1 | (uint64_t)LIST_FETCH << 24) ||
             !list_ends_take(&hold, l, c, where == LIST_FRONT))
        rc = take_all(&hold, l, c,
                      where == LIST_FRONT  ? l->first
                      : where == LIST_BACK ? l->last
                                           : id.node);
    return list_done(&hold, c, rc);
}
