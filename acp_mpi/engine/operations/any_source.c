/* Losses of the ranks that may send the message, write the word or publish the name of a wait: such a loss ends the
 * wait.
 *
 * A process that waits for few ranks is linked to each of them. A process that waits for many requests the watch of
 * the lowest living rank of its node, which watches that node and is linked to its neighbours in a binary tree of the
 * nodes, with the same request: a loss that one of them learns of reaches all, and so does the notice that a rank is in
 * finalize and has said all. When a rank is lost each computes its neighbours anew, so that the tree of the living stays
 * whole. No rank has more than three links for that. */
#include "operations/any_source.h"
#include "base/linux.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "operations/notices.h"
#include "operations/route.h"
#include "peers/ends.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/peer_liveness.h"
#include "peers/rank_table.h"
#include "progress/reactor.h"
#include "progress/wait.h"
#include "transport/link.h"

#include <stdlib.h>
#include <string.h>

#define ALONE_NS ((int64_t)1000000000) /* until the program is asked again whether another rank or thread could act */

acp_sources *acp_sources_new(const uint32_t *ranks, uint32_t count)
{
    acp_sources *s = malloc(sizeof *s + count * sizeof *ranks);
    if (!s)
        return NULL;
    atomic_init(&s->users, 1);
    atomic_init(&s->safe, 0);
    s->count = count;
    memcpy(s->ranks, ranks, count * sizeof *ranks);
    return s;
}

void any_source_hold(acp_sources *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->users, 1, memory_order_relaxed);
}

void acp_sources_free(acp_sources *s)
{
    if (s && atomic_fetch_sub(&s->users, 1) == 1)
        free(s);
}

static bool loss_open(const struct peer *p)
{
    return p->lost && p->missed && !p->loss_accepted;
}

/* Every look of a wait calls this while the loss of any rank is not accepted: the result is cached in `safe`. */
int64_t acp_sources_lost(acp_engine *e, acp_sources *s)
{
    uint64_t now = e->row.nonce ^ ((uint64_t)e->mail.era << 32 | e->job.losses);
    if (atomic_load_explicit(&s->safe, memory_order_relaxed) == now)
        return -1;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct peer *p =
            s->ranks[i] < e->procs ? peer_known(e, rank_slot_of(e, s->ranks[i])) : NULL;
        if (p && loss_open(p))
            return s->ranks[i];
    }
    atomic_store_explicit(&s->safe, now, memory_order_relaxed);
    return -1;
}

/* The nodes of the tree, in the order of their lowest slots; where ranks of one node treat each other as ranks of
 * others, each rank is a node. */
struct tree {
    acp_engine *engine;
    const uint32_t *firsts; /* NULL: each slot is one */
    uint32_t count, at;
};

static struct tree tree_of(acp_engine *e)
{
    struct tree t = {.engine = e, .count = e->procs};
    if (rank_table_together(e))
        t.firsts = rank_table_firsts(e, &t.count);
    return t;
}

static bool is_gone(acp_engine *e, uint32_t slot)
{
    const struct peer *p = peer_known(e, slot);
    return p && (p->lost || p->left);
}

/* The lowest living rank of a node represents it. */
static bool lowest_living(const struct tree *t, uint32_t first, uint32_t *slot)
{
    acp_engine *e = t->engine;
    uint32_t end = t->firsts ? e->procs : first + 1;
    for (*slot = first; *slot < end; ++*slot)
        if (rank_table_node(e, *slot) == rank_table_node(e, first) && !is_gone(e, *slot))
            return true;
    return false;
}

/* The next node with a living rank, and the rank that represents it. */
static bool tree_next(struct tree *t, uint32_t *slot)
{
    while (t->at < t->count) {
        uint32_t first = t->firsts ? t->firsts[t->at] : t->at;
        t->at++;
        if (lowest_living(t, first, slot))
            return true;
    }
    return false;
}

/* Requests of a peer that it watches its node and its neighbours, too, and reports losses, among all ranks that are
 * known here. */
static void ask_to_watch(acp_engine *e, struct peer *p)
{
    struct message m = {.kind = ACP_NEWS, .from = e->self, .a = NEWS_WATCH, .b = e->procs};
    if (p->watch_asked >= e->procs)
        return;
    p->watch_asked = e->procs;
    route_road(e, p)->send(&e->lanes[LANE_LOCKED], p, 0, &m);
}

static void watch_neighbour(acp_engine *e, struct peer *p)
{
    if (!p || p->lost)
        return;
    if (peer_attach(e, p) == RELATION_REMOTE) {
        struct link *link = link_to(&e->lanes[LANE_LOCKED], p, FLOW_COLOR);
        if (link)
            link->guarded = true;
        reactor_timer(e, linux_now_ns() + e->config.peer_timeout_ns / 8);
    }
    if (!p->lost)
        ask_to_watch(e, p);
}

void any_source_guard(acp_engine *e)
{
    struct tree all = tree_of(e), look = all;
    uint32_t count, slot, at = 0, lowest = e->self;
    const uint32_t *mates = rank_table_mates(e, &count);
    if (!e->ops.guards || e->stopping)
        return;
    peer_liveness_watch(e);
    if (all.firsts && count)
        lowest_living(&all, mates[0], &lowest);
    if (lowest != e->self) {
        watch_neighbour(e, peer_of_slot(e, lowest));
        return;
    }
    while (tree_next(&look, &slot) && slot != lowest)
        at++;
    for (uint32_t i = 0; i <= 2 * at + 2 && tree_next(&all, &slot); i++)
        if ((at && i == (at - 1) / 2) || i == 2 * at + 1 || i == 2 * at + 2)
            watch_neighbour(e, peer_of_slot(e, slot));
}

void any_source_asked(acp_engine *e, struct peer *from, uint64_t known)
{
    notices_say_ends(&e->lanes[LANE_LOCKED], from);
    if (known && known <= ACP_RANKS_MAX)
        newcomers_find(e, known - 1);
    e->ops.guards = true;
    any_source_guard(e);
}

void any_source_watch(acp_engine *e, const acp_sources *s)
{
    uint32_t count = s ? s->count : e->procs;
    for (uint32_t i = 0; i < count; i++) {
        struct peer *p = NULL;
        if (s ? newcomers_find(e, s->ranks[i]) : count <= WATCHED_MOST)
            p = peer_of_slot(e, s ? rank_slot_of(e, s->ranks[i]) : i);
        if (p && count <= WATCHED_MOST && (s || !rank_table_service(e, i)))
            link_watch(e, p, FLOW_COLOR);
    }
    if (count > WATCHED_MOST) {
        pthread_mutex_lock(&e->lock);
        e->ops.guards = true;
        any_source_guard(e);
        pthread_mutex_unlock(&e->lock);
    }
}

/* Polls that go on in vain, or give up after a loss each time, register for losses as a wait does: else this process
 * would not learn of the next one. */
void any_source_polled(acp_engine *e, const acp_sources *s)
{
    uint64_t now = linux_now_ns(), last = atomic_load_explicit(&e->ops.polled_at, memory_order_relaxed);
    if (now - last < (uint64_t)ANYBODY_NS)
        return;
    atomic_store_explicit(&e->ops.polled_at, now, memory_order_relaxed);
    if (last)
        any_source_watch(e, s);
}

static int gone_of(acp_engine *e, uint32_t slot)
{
    const struct peer *p = peer_known(e, slot);
    int gone = p ? peer_gone(e, p) : ACP_OK;
    return gone == ACP_OK && ends_have(e, slot) && !e->mail.late ? ACP_E_FINALIZING : gone;
}

static int all_gone(acp_engine *e, const acp_sources *s)
{
    uint32_t count = s ? s->count : e->procs;
    int gone = ACP_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (s && s->ranks[i] >= e->procs)
            return ACP_OK; /* not known yet */
        uint32_t slot = s ? rank_slot_of(e, s->ranks[i]) : i;
        if (!s && rank_table_service(e, slot))
            continue;
        int one = slot == e->self ? gone : gone_of(e, slot);
        if (slot != e->self && one == ACP_OK)
            return ACP_OK;
        gone = gone == ACP_E_FINALIZING ? gone : one;
    }
    return gone;
}

int any_source_gone(acp_engine *e, const acp_sources *s)
{
    if (!e->job.departed && !e->job.leavers && !e->job.end_count)
        return ACP_OK;
    pthread_mutex_lock(&e->lock);
    int gone = all_gone(e, s);
    pthread_mutex_unlock(&e->lock);
    return gone;
}

bool any_source_has_self(const acp_engine *e, const acp_sources *s)
{
    uint32_t i = 0;
    while (i < s->count && s->ranks[i] != e->rank)
        i++;
    return i < s->count;
}

struct open_wait {
    acp_engine *engine;
    const struct awaited *for_what;
    int gone;
};

static bool ready_or_gone(void *context)
{
    struct open_wait *w = context;
    const struct awaited *a = w->for_what;
    if (a->ready(a->context))
        return true;
    return (w->gone = a->gone(w->engine, a->whom)) != ACP_OK;
}

/* A rank that is not known yet, or another thread of this process, may still act: the program tells whether there is
 * none. */
static bool is_alone(acp_engine *e)
{
    uint32_t procs = e->procs;
    return wait_tick(e, ACP_TICK_ALONE) && e->procs == procs;
}

int any_source_wait(acp_engine *e, const struct awaited *a, int64_t timeout_ns, acp_doing doing)
{
    struct open_wait w = {.engine = e, .for_what = a};
    int64_t slice = ANYBODY_NS, left = timeout_ns;
    uint64_t start = linux_now_ns();
    bool watches = false, asks = false;
    int (*wait)(acp_engine *, bool (*)(void *), void *, int64_t, acp_doing) = a->at_once ? wait_asleep : wait_ready;
    for (;;) {
        if (timeout_ns != ACP_FOREVER && (left = timeout_ns - (int64_t)(linux_now_ns() - start)) < 0)
            left = 0;
        bool last = asks || left <= slice;
        w.gone = ACP_OK;
        int rc = asks ? wait(e, ready_or_gone, &w, left, doing)
                      : wait(e, a->ready, a->context, last ? left : slice, doing);
        if (rc == ACP_OK && w.gone != ACP_OK && !a->ready(a->context)) {
            if (is_alone(e))
                return w.gone;
            asks = false;
            slice = ALONE_NS;
            continue;
        }
        if (rc != ACP_E_TIMEOUT || last)
            return rc;
        if (!watches)
            a->watch(e, a->whom);
        watches = true;
        asks = a->gone != NULL;
        slice = asks ? slice : ACP_FOREVER;
    }
}
