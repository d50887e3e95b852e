/* Elements put into a list and taken out of it. */
#include "list.h"

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

/* One element, as the record describes it; `data` if that names no place. */
static int put_one(struct hold *hold, struct list *l, const struct acp_call *c, uint64_t before,
                   const struct list_record *r, const void *data, struct list_id *id)
{
    uint64_t at, own = own_block(hold, c, r->block);
    section_begin(hold);
    int rc = section_take(hold, sizeof(struct list_node) + (r->payload ? 0 : r->size), &at);
    if (likely(rc == ACP_OK)) {
        struct list_node *n = (struct list_node *)(void *)(hold->heap->base + at);
        struct list_node fill = {.number = list_name(hold, l), .era = l->era, .size = r->size,
                                 .payload = r->payload, .block = own ? own : r->block};
        words_in(n, &fill, sizeof fill);
        if (!r->payload)
            words_in(n + 1, data, r->size);
        *id = (struct list_id){at, fill.number};
        rc = list_link(hold, l, at, at, 1, before);
    }
    if (likely(rc == ACP_OK))
        section_commit(hold);
    else
        section_cancel(hold);
    return rc;
}

static int put_all(struct hold *hold, struct list *l, struct acp_call *c, uint64_t before,
                   struct list_id *first)
{
    const unsigned char *in = c->in;
    struct list_put put;
    memcpy(&put, in, sizeof put);
    for (uint64_t at = sizeof put; at < c->in_size;) {
        struct list_record r = {.size = put.width};
        struct list_id id;
        if (!put.width && c->in_size - at >= sizeof r) {
            memcpy(&r, in + at, sizeof r);
            at += sizeof r;
        }
        if (r.size > LIST_INLINE && !r.payload)
            return fail(hold->lane, ACP_E_ARGUMENT, c->object, r.size);
        uint64_t length = r.payload ? 0 : put.width ? put.width : 8 * words_of(r.size);
        if (length > c->in_size - at)
            return fail(hold->lane, ACP_E_ARGUMENT, c->object, c->in_size);
        int rc = put_one(hold, l, c, before, &r, in + at, &id);
        if (rc != ACP_OK)
            return rc;
        at += length;
        if (!c->result[1]++)
            *first = id;
    }
    return ACP_OK;
}

int method_list_put(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct list *l;
    struct list_put put;
    struct list_id first = {0, 0};
    if (c->in_size < sizeof put || c->b > LIST_AT)
        return fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    memcpy(&put, c->in, sizeof put);
    int rc = list_enter(&hold, lane, c, &l);
    if (rc != ACP_OK)
        return rc;
    if (c->b == LIST_AT && put.at.node && !list_has(hold.heap, l, put.at))
        c->result[0] = LIST_STALE;
    else
        rc = put_all(&hold, l, c,
                     c->b == LIST_FRONT ? l->first : c->b == LIST_AT ? put.at.node : 0, &first);
    list_done(&hold, c, rc);
    if (c->out_room >= sizeof first) {
        memcpy(c->out, &first, sizeof first);
        c->out_size = sizeof first;
    }
    return c->result[1] ? ACP_OK : rc; /* the caller goes on behind those, and sees why then */
}

/* What the caller gets of an element and what goes back to the heap with it. */
static void part(struct hold *hold, const struct acp_call *c, uint64_t at,
                 const struct list_node *n, enum list_take how, struct list_record *r)
{
    acp_ga_t ga = container_ga(c, hold->heap, at);
    bool own = n->block && !list_is_address(n->block);
    *r = (struct list_record){{at, n->number}, n->size, n->payload, n->block};
    if (own)
        r->block = container_ga(c, hold->heap, n->block);
    if (how == LIST_KEEP && !n->payload) {
        r->payload = ga + sizeof *n;
        r->block = ga;
        return; /* the node stays, as the block of what it held */
    }
    section_drop(hold, at);
    if (how == LIST_DROP && own) {
        section_drop(hold, n->block);
        r->block = 0;
    }
}

/* Takes out one element, whose record and bytes go to `out`; 0: there is no room for them. */
static int take_one(struct hold *hold, struct list *l, struct acp_call *c, uint64_t at,
                    enum list_take how, unsigned char *out, uint64_t room, uint64_t *used)
{
    struct list_record r;
    struct list_node *n = list_node(hold->heap, at);
    *used = 0;
    if (!n)
        return ACP_E_DAMAGED;
    uint64_t length = how == LIST_FETCH && !n->payload ? 8 * words_of(n->size) : 0;
    if (length && !container_inside(hold->heap, at + sizeof *n, length))
        return ACP_E_DAMAGED;
    if (length > room || sizeof r > room - length)
        return ACP_OK;
    section_begin(hold);
    int rc = list_unlink(hold, l, at, at, 1);
    if (rc != ACP_OK) {
        section_cancel(hold);
        return rc;
    }
    part(hold, c, at, n, how, &r);
    section_set(hold, &n->number, 0);
    memcpy(out, &r, sizeof r);
    if (length)
        words_out(out + sizeof r, n + 1, length);
    section_commit(hold);
    *used = sizeof r + length;
    return ACP_OK;
}

static int take_all(struct hold *hold, struct list *l, struct acp_call *c, uint64_t at)
{
    unsigned char *out = c->out;
    struct list_answer answer = {0};
    uint64_t most = (uint32_t)c->b >> 8, used = sizeof answer, size;
    enum list_where where = (enum list_where)(c->b & 255);
    enum list_take how = (enum list_take)(c->b >> 32);
    int rc = ACP_OK;
    while (at && answer.count < most && answer.count < MOST_TAKEN && list_settled(hold)) {
        const struct list_node *n = list_node(hold->heap, at);
        uint64_t next = !n ? 0 : where == LIST_BACK ? n->previous : n->next;
        rc = take_one(hold, l, c, at, how, out + used, c->out_room - used, &size);
        if (rc != ACP_OK || !size)
            break;
        used += size;
        answer.count++;
        at = next;
    }
    const struct list_node *next = at ? list_node(hold->heap, at) : NULL;
    answer.changes = l->changes;
    answer.orders = l->orders;
    answer.size = l->size;
    answer.next = (struct list_id){at, next ? next->number : 0};
    memcpy(out, &answer, sizeof answer);
    c->out_size = used;
    return answer.count ? ACP_OK : rc;
}

int method_list_take(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct list *l;
    struct list_id id = {0, 0};
    enum list_where where = (enum list_where)(c->b & 255);
    if (c->out_room < sizeof(struct list_answer) || c->b >> 32 > LIST_KEEP ||
        (where == LIST_AT && c->in_size != sizeof id))
        return fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    int rc = list_enter(&hold, lane, c, &l);
    if (rc != ACP_OK)
        return rc;
    if (where == LIST_AT)
        memcpy(&id, c->in, sizeof id);
    if (where == LIST_AT && !list_has(hold.heap, l, id))
        c->result[0] = LIST_STALE;
    else if (!l->first || !l->last)
        c->result[0] = LIST_EMPTY;
    else
        rc = take_all(&hold, l, c,
                      where == LIST_FRONT  ? l->first
                      : where == LIST_BACK ? l->last
                                           : id.node);
    return list_done(&hold, c, rc);
}
