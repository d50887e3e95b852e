/* Reading a list: under the count of its changes, and in its section if that goes on changing. */
#include "containers/list_read.h"
#include "containers/container.h"
#include "containers/list.h"
#include "containers/list_call.h"
#include "core/lane.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <string.h>

#define RETRIES 8u
#define STEPS 65536u /* nodes a call: others wait meanwhile */

typedef int (*reader)(const struct heap *heap, const struct list *list, struct acp_call *call);

static int read_list(acp_lane *lane, struct acp_call *c, reader read)
{
    struct hold hold;
    struct heap *h;
    struct list *l = (struct list *)container_find(lane, c, KIND_LIST, &h);
    if (unlikely(!l))
        return lane->fault.status;
    for (uint32_t i = 0; i < RETRIES; i++) {
        uint64_t looked = transaction_version(&l->head.section);
        bool whole = !(looked & 1) && !word_load(&l->partner) && !word_load(&l->job.kind);
        int rc = whole ? read(h, l, c) : ACP_E_BUSY;
        if (likely(whole && transaction_unchanged(&l->head.section, looked) &&
                   container_lives(&l->head, c) && rc == ACP_OK))
            return ACP_OK;
    }
    int rc = list_enter(&hold, lane, c, &l);
    return rc == ACP_OK ? list_done(&hold, c, read(h, l, c)) : rc;
}

bool list_read_span(const struct hold *hold, const struct list *l, const struct list_span *s,
                    uint64_t *last, uint64_t *count)
{
    const struct heap *h = hold->heap;
    uint64_t at = s->first.node;
    *count = *last = 0;
    if ((at && !list_has(h, l, s->first)) || (s->last.node && !list_has(h, l, s->last)))
        return false;
    while (at && at != s->last.node) {
        const struct list_node *n = list_node(h, at);
        if (!n || ++*count > l->size)
            return false;
        *last = at;
        at = n->next;
    }
    return at == s->last.node;
}

/* The element where a walk begins: the first of those named that is still there; 0: none is. */
static uint64_t start(const struct heap *h, const struct list *l, const struct acp_call *c,
                      bool backward, bool *stale)
{
    const unsigned char *in = c->in;
    struct list_id id;
    *stale = c->in_size != 0;
    if (!c->in_size)
        return word_load(backward ? &l->last : &l->first);
    for (uint64_t at = 0; at + sizeof id <= c->in_size; at += sizeof id) {
        memcpy(&id, in + at, sizeof id);
        if (!list_has(h, l, id))
            continue;
        *stale = false;
        const struct list_node *n = list_node(h, id.node);
        return !(c->b & LIST_BEHIND) ? id.node : word_load(backward ? &n->previous : &n->next);
    }
    return 0;
}

/* A record and its bytes, or 0: no room for them. */
static uint64_t node_record(const struct heap *h, const struct list *l, const struct acp_call *c,
                            uint64_t at, const struct list_node *n, unsigned char *out, uint64_t room)
{
    uint64_t name = word_load(&n->name);
    struct list_record r = {{at, list_number(l, name)}, list_nameless(name), 0, 0};
    const struct list_far *far = list_far(h, n, name);
    if (far) {
        r.size = word_load(&far->size);
        r.payload = word_load(&far->payload);
        r.block = word_load(&far->block);
    }
    uint64_t length = far ? 0 : 8 * words_of(r.size);
    if (sizeof r > room || length > room - sizeof r)
        return 0;
    if (r.block && !list_is_address(r.block))
        r.block = container_ga(c, h, r.block);
    memcpy(out, &r, sizeof r);
    if (length && container_inside(h, at + sizeof *n, length))
        words_out(out + sizeof r, n + 1, length);
    return sizeof r + length;
}

static int walk(const struct heap *h, const struct list *l, struct acp_call *c)
{
    unsigned char *out = c->out;
    bool backward = c->b & LIST_BACKWARD, stale;
    uint64_t most = c->b >> 8, used = sizeof(struct list_answer), size = 1;
    uint64_t at = start(h, l, c, backward, &stale);
    struct list_answer answer = {.changes = word_load(&l->changes), .orders = word_load(&l->orders),
                                 .size = word_load(&l->size),
                                 .origin = container_ga(c, h, 0)};
    c->result[0] = stale ? LIST_STALE : LIST_DONE;
    while (at && (!most || answer.count < most)) {
        const struct list_node *n = list_node(h, at);
        if (!n)
            return ACP_E_DAMAGED;
        size = node_record(h, l, c, at, n, out + used, c->out_room - used);
        if (!size)
            break;
        used += size;
        answer.count++;
        at = word_load(backward ? &n->previous : &n->next);
    }
    answer.ended = !at;
    memcpy(out, &answer, sizeof answer);
    c->out_size = used;
    return ACP_OK;
}

int list_read_method_walk(acp_lane *lane, struct acp_call *c)
{
    if (c->out_room < sizeof(struct list_answer))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->out_room);
    return read_list(lane, c, walk);
}

/* `in`: the begin, and the latest end. The end of the list is one step behind its last element; the other side of the
 * end is the first element again, as with a ring. */
static int walk_step(const struct heap *h, const struct list *l, struct acp_call *c)
{
    struct list_id ids[2], id;
    int64_t far = (int64_t)c->b, done = 0;
    memcpy(ids, c->in, sizeof ids);
    id = ids[0];
    c->result[0] = LIST_DONE;
    if ((id.node && !list_has(h, l, id)) || (ids[1].node && !list_has(h, l, ids[1]))) {
        c->result[0] = LIST_STALE;
        far = 0;
    }
    while (done != far && (done < 0 ? -done : done) < STEPS) {
        const struct list_node *n = id.node ? list_node(h, id.node) : NULL;
        if ((id.node && !n) || (!id.node && far > 0) || (done && id.node == ids[1].node))
            break;
        uint64_t at = word_load(!n ? &l->last : far > 0 ? &n->next : &n->previous);
        if (far < 0 && !at)
            break;
        const struct list_node *to = at ? list_node(h, at) : NULL;
        id = (struct list_id){at, to ? list_number(l, word_load(&to->name)) : 0};
        done += far > 0 ? 1 : -1;
    }
    c->result[1] = (uint64_t)done;
    memcpy(c->out, &id, sizeof id);
    c->out_size = sizeof id;
    return ACP_OK;
}

int list_read_method_step(acp_lane *lane, struct acp_call *c)
{
    if (c->in_size != 2 * sizeof(struct list_id) || c->out_room < sizeof(struct list_id))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    return read_list(lane, c, walk_step);
}

static int step_check(const struct heap *h, const struct list *l, struct acp_call *c)
{
    const unsigned char *in = c->in;
    unsigned char *out = c->out;
    struct list_id id;
    for (uint64_t i = 0; i < c->in_size / sizeof id; i++) {
        memcpy(&id, in + i * sizeof id, sizeof id);
        out[i] = list_has(h, l, id);
    }
    c->out_size = c->in_size / sizeof id;
    return ACP_OK;
}

int list_read_method_check(acp_lane *lane, struct acp_call *c)
{
    if (c->out_room < c->in_size / sizeof(struct list_id))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    return read_list(lane, c, step_check);
}
