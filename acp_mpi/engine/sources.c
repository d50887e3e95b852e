/* Ranks that may send what a receive from anybody takes: whose death ends it, and nobody else's. */
#include "sources.h"

#include "courier.h"

#include <stdlib.h>
#include <string.h>

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

void sources_hold(acp_sources *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->users, 1, memory_order_relaxed);
}

void acp_sources_free(acp_sources *s)
{
    if (s && atomic_fetch_sub(&s->users, 1) == 1)
        free(s);
}

static bool is_missed(const struct peer *p)
{
    return p->lost && p->missed && !p->loss_accepted;
}

/* Each look of a wait asks this, as long as the loss of anybody else is not accepted either. */
int64_t acp_sources_lost(acp_engine *e, acp_sources *s)
{
    uint64_t now = e->row.nonce ^ ((uint64_t)e->mail_era << 32 | e->losses);
    if (atomic_load_explicit(&s->safe, memory_order_relaxed) == now)
        return -1;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct peer *p =
            s->ranks[i] < e->procs ? peer_known(e, slot_of_rank(e, s->ranks[i])) : NULL;
        if (p && is_missed(p))
            return s->ranks[i];
    }
    atomic_store_explicit(&s->safe, now, memory_order_relaxed);
    return -1;
}

/* Each hears of the end of those on its node, and tells whom it has a link to: so one on each of the
 * other nodes is enough, the first, which expects to be asked (sources_asked). */
static void watch_nodes(acp_engine *e)
{
    uint32_t count;
    const uint32_t *firsts = table_firsts(e, &count);
    struct peer *p;
    for (uint32_t i = 0; i < count && i < WATCHED_MOST; i++)
        if ((p = peer_of_slot(e, firsts[i])))
            link_watch(e, p, COURIER_COLOR);
    node_watch(e);
}

void sources_watch(acp_engine *e, const acp_sources *s)
{
    uint32_t count = s ? s->count : e->procs;
    if (count > WATCHED_MOST) {
        watch_nodes(e);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct peer *p = NULL;
        if (!s)
            p = peer_of_slot(e, i);
        else if (growth_reaches(e, s->ranks[i]))
            p = peer_of_slot(e, slot_of_rank(e, s->ranks[i]));
        if (p)
            link_watch(e, p, COURIER_COLOR);
    }
}

int wait_for_anybody(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
                     acp_doing doing)
{
    int64_t first = timeout_ns < ANYBODY_NS ? timeout_ns : ANYBODY_NS;
    int rc = progress_wait(e, ready, context, first, doing);
    if (rc != ACP_E_TIMEOUT || timeout_ns <= ANYBODY_NS)
        return rc;
    sources_watch(e, NULL);
    return progress_wait(e, ready, context,
                         timeout_ns == ACP_FOREVER ? timeout_ns : timeout_ns - first, doing);
}

void sources_asked(acp_engine *e)
{
    uint32_t count;
    if (e->procs > WATCHED_MOST && table_mates(e, &count)[0] == e->self)
        node_watch(e);
}
