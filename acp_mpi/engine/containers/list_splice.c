/* Two lists of one rank: elements go from one to the other, or all change places. The journal of one list holds words
 * of both; the other names it as its partner meanwhile, and until the moved elements have their new numbers. */
#include "containers/list_splice.h"
#include "containers/container.h"
#include "containers/list.h"
#include "containers/list_bulk.h"
#include "containers/list_call.h"
#include "containers/list_read.h"
#include "core/lane.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <string.h>

struct pair {
    struct list *to, *from;
    struct hold holds[2]; /* of `to`, of `from` */
};

static uint64_t offset_of(const struct hold *hold, const struct list *l)
{
    return (uint64_t)((const unsigned char *)l - hold->heap->base);
}

/* Both sections, in the order of their addresses; for the second one it waits a moment only. If
 * the one names the other, which is whole by now, it need not any more. */
static int enter_both(struct pair *p, acp_lane *lane, const struct acp_call *c, acp_ga_t from,
                      uint64_t serial)
{
    struct acp_call other = {.object = from, .a = serial};
    uint32_t second = from > c->object; /* which of the holds */
    const struct acp_call *calls[2] = {c, &other};
    struct list **lists[2] = {&p->to, &p->from};
    struct container *container;
    int64_t patience = lane->patience_ns;
    int rc = list_enter(&p->holds[!second], lane, calls[!second], lists[!second]);
    if (rc != ACP_OK)
        return rc;
    lane->patience_ns = patience ? HEAP_PATIENCE_NS : 0;
    rc = container_enter(&p->holds[second], lane, calls[second], KIND_LIST, &container);
    lane->patience_ns = patience;
    if (rc == ACP_OK) {
        struct list *l = *lists[second] = (struct list *)container;
        if (l->partner == offset_of(&p->holds[second], *lists[!second]))
            transaction_store(&l->partner, 0);
        rc = list_mend(&p->holds[second], l);
        if (rc != ACP_OK)
            list_done(&p->holds[second], calls[second], rc);
    }
    if (rc != ACP_OK)
        transaction_leave(&p->holds[!second]);
    return rc;
}

/* One address: the same list twice, or a list and one that was there before it, which is gone. */
static int enter_one(struct pair *p, acp_lane *lane, const struct acp_call *c, uint64_t serial)
{
    int rc = list_enter(&p->holds[0], lane, c, &p->to);
    if (rc == ACP_OK && serial != c->a)
        rc = list_done(&p->holds[0], c, container_gone(lane, c));
    return rc;
}

static void begin_both(struct pair *p)
{
    transaction_store(&p->from->partner, offset_of(&p->holds[0], p->to));
    transaction_begin(&p->holds[0]);
    transaction_begin(&p->holds[1]); /* for its readers: the journal stays empty */
}

static void commit_both(struct pair *p)
{
    transaction_commit(&p->holds[0]);
    transaction_commit(&p->holds[1]);
}

static int leave_both(struct pair *p, const struct acp_call *c, int rc)
{
    if (p->from->partner)
        transaction_store(&p->from->partner, 0);
    transaction_leave(&p->holds[1]);
    return list_done(&p->holds[0], c, rc);
}

static int splice_other(struct pair *p, const struct list_span *s, uint64_t last, uint64_t count)
{
    struct hold *hold = &p->holds[0];
    begin_both(p);
    int rc = list_unlink(hold, p->from, s->first.node, last, count);
    if (rc != ACP_OK) {
        transaction_cancel(hold);
        transaction_cancel(&p->holds[1]);
        return rc;
    }
    transaction_set(hold, &p->to->job.first, s->first.node);
    transaction_set(hold, &p->to->job.last, last);
    transaction_set(hold, &p->to->job.count, count);
    transaction_set(hold, &p->to->job.before, s->at.node);
    transaction_set(hold, &p->to->job.kind, JOB_SPLICE);
    commit_both(p);
    return list_bulk_finish(hold, p->to);
}

/* Is that place not one of those that move, nor behind their last? Then nothing would change. */
static bool apart_from(const struct hold *hold, const struct list_span *s, uint64_t count)
{
    uint64_t at = s->first.node;
    for (uint64_t i = 0; i < count && at; i++) {
        if (at == s->at.node)
            return false;
        at = list_node(hold->heap, at)->next;
    }
    return at != s->at.node;
}

static int splice_own(struct hold *hold, struct list *l, const struct list_span *s, uint64_t last,
                      uint64_t count)
{
    if (!count || !apart_from(hold, s, count))
        return ACP_OK;
    transaction_begin(hold);
    int rc = list_unlink(hold, l, s->first.node, last, count);
    if (rc == ACP_OK)
        rc = list_link(hold, l, s->first.node, last, count, s->at.node);
    transaction_set(hold, &l->orders, l->orders + 1);
    if (rc == ACP_OK)
        transaction_commit(hold);
    else
        transaction_cancel(hold);
    return rc;
}

/* An element that is its own end goes alone, whatever is behind it by now. */
static struct list_id span_end(const struct hold *hold, const struct list *l, const struct list_span *s)
{
    bool alone = s->first.node == s->last.node && s->first.number == s->last.number;
    if (!alone || !list_has(hold->heap, l, s->first))
        return s->last;
    uint64_t at = list_node(hold->heap, s->first.node)->next;
    const struct list_node *n = list_node(hold->heap, at);
    return (struct list_id){at, n ? list_number(l, n->name) : 0};
}

static struct list_id beginning(const struct hold *hold, const struct list *l)
{
    const struct list_node *n = list_node(hold->heap, l->first);
    return (struct list_id){l->first, n ? list_number(l, n->name) : 0};
}

int list_splice_method_splice(acp_lane *lane, struct acp_call *c)
{
    struct pair p;
    struct list_span s;
    uint64_t last, count;
    if (c->in_size != sizeof s)
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    memcpy(&s, c->in, sizeof s);
    bool own = s.from == c->object;
    int rc = own ? enter_one(&p, lane, c, s.from_serial)
                 : enter_both(&p, lane, c, s.from, s.from_serial);
    if (rc != ACP_OK)
        return rc;
    struct list *from = own ? p.to : p.from;
    if (!s.first.node && !s.last.node)
        s.first = beginning(&p.holds[0], from);
    else
        s.last = span_end(&p.holds[0], from, &s);
    if ((s.at.node && !list_has(p.holds[0].heap, p.to, s.at)) ||
        !list_read_span(&p.holds[0], from, &s, &last, &count))
        c->result[0] = LIST_STALE;
    else if (s.changes != UINT64_MAX && s.changes != from->changes)
        c->result[0] = LIST_CHANGED;
    else if (own)
        rc = splice_own(&p.holds[0], p.to, &s, last, count);
    else if (count)
        rc = splice_other(&p, &s, last, count);
    c->result[1] = p.to->changes;
    return own ? list_done(&p.holds[0], c, rc) : leave_both(&p, c, rc);
}

static void exchange(struct hold *hold, uint64_t *a, uint64_t *b)
{
    uint64_t was = *a;
    transaction_set(hold, a, *b);
    transaction_set(hold, b, was);
}

/* The era goes with the elements, which are not touched. */
int list_splice_method_swap(acp_lane *lane, struct acp_call *c)
{
    struct pair p;
    struct list_span s;
    if (c->in_size != sizeof s)
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    memcpy(&s, c->in, sizeof s);
    if (s.from == c->object) {
        int rc = enter_one(&p, lane, c, s.from_serial);
        return rc == ACP_OK ? list_done(&p.holds[0], c, rc) : rc;
    }
    int rc = enter_both(&p, lane, c, s.from, s.from_serial);
    if (rc != ACP_OK)
        return rc;
    struct hold *hold = &p.holds[0];
    uint64_t apart = list_apart(hold, p.to, p.from), era = p.to->era;
    begin_both(&p);
    exchange(hold, &p.to->first, &p.from->first);
    exchange(hold, &p.to->last, &p.from->last);
    exchange(hold, &p.to->size, &p.from->size);
    transaction_set(hold, &p.to->era, p.from->era ^ apart);
    transaction_set(hold, &p.from->era, era ^ apart);
    for (uint32_t i = 0; i < 2; i++) {
        struct list *l = i ? p.from : p.to;
        transaction_set(hold, &l->changes, l->changes + 1);
        transaction_set(hold, &l->orders, l->orders + 1);
    }
    commit_both(&p);
    return leave_both(&p, c, rc);
}
