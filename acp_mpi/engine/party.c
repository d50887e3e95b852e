/* Sets of ranks: their key, their nodes, and how the lowest member of each node meets the
 * others: in ceil(log2 n) rounds of signals. */
#include "party.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_NS ((int64_t)20000000) /* then it looks around */

struct signal_count {
    uint64_t key;
    uint32_t round, count;
};

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

static uint64_t node_of(const acp_engine *e, uint32_t slot)
{
    return apart(e) ? slot : e->rows[slot].node;
}

static int compare_slots(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void party_free(struct party *p)
{
    if (p) {
        free(p->ranks);
        free(p->slots);
        free(p->leaders);
        free(p);
    }
}

static struct party *party_new(acp_engine *e, const uint32_t *ranks, uint32_t count,
                               uint32_t purpose)
{
    struct party *p = calloc(1, sizeof *p);
    uint32_t most = ranks ? count : e->procs;
    if (!p || !(p->slots = malloc(most * sizeof *p->slots)) ||
        !(p->leaders = malloc(most * sizeof *p->leaders))) {
        party_free(p);
        return NULL;
    }
    for (uint32_t i = 0; i < most; i++) {
        uint32_t slot = ranks ? slot_of_rank(e, ranks[i]) : i;
        struct peer *peer = e->losses_accepted ? peer_of_slot(e, slot) : NULL;
        if (!peer || !peer->loss_accepted)
            p->slots[p->count++] = slot;
    }
    qsort(p->slots, p->count, sizeof *p->slots, compare_slots);
    uint64_t *nodes = malloc((p->count ? p->count : 1) * sizeof *nodes);
    if (!nodes) {
        party_free(p);
        return NULL;
    }
    p->purpose = purpose;
    p->key = mix(mix(0x61637000, purpose), e->losses_accepted);
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t node = node_of(e, p->slots[i]);
        p->key = mix(p->key, p->slots[i] + 1);
        uint32_t n = 0;
        while (n < p->nodes && nodes[n] != node)
            n++;
        if (n == p->nodes) {
            nodes[n] = node;
            p->leaders[p->nodes++] = p->slots[i];
        }
        if (node == node_of(e, e->self)) {
            p->own_node = n;
            p->leader = p->leaders[n];
            p->here++;
        }
    }
    p->key |= 1; /* 0 is a free entry */
    free(nodes);
    return p;
}

/* Why a member will not come, if that is so. */
int party_trouble(acp_engine *e, const struct party *p)
{
    bool all_well = e->losses == e->losses_accepted && (!e->leavers || p->purpose >= PURPOSE_FINALIZE);
    for (uint32_t i = 0; !all_well && i < p->count; i++) {
        struct peer *peer = peer_of_slot(e, p->slots[i]);
        if (peer->lost && !peer->loss_accepted) {
            e->trouble_rank = rank_of_slot(e, peer->slot);
            return ACP_E_LOST;
        }
        if (peer->leaving && p->purpose < PURPOSE_FINALIZE) {
            e->trouble_rank = rank_of_slot(e, peer->slot);
            return ACP_E_FINALIZING;
        }
    }
    return ACP_OK;
}

/* After a while without a result: hear of deaths, and tell everybody that this rank leaves. */
void party_look_around(acp_engine *e, const struct party *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->slots[i] != e->self)
            peer_watch(e, peer_of_slot(e, p->slots[i]));
    if (p->purpose < PURPOSE_FINALIZE)
        return;
    for (uint32_t i = 0; i < p->count; i++) /* they can be told, wherever they wait */
        if (e->rows[p->slots[i]].node == e->config.node)
            peer_attach(e, peer_of_slot(e, p->slots[i]));
    acp_engine_leaving(e);
}

static bool fits(const acp_engine *e, const struct party *p, const uint32_t *ranks,
                 uint32_t count, uint32_t purpose)
{
    return p && p->purpose == purpose && p->asked == count && p->losses == e->losses_accepted &&
           p->procs == e->procs && (!ranks || !memcmp(p->ranks, ranks, count * sizeof *ranks));
}

static void forget(struct party **kept)
{
    if (*kept && --(*kept)->users == 0)
        party_free(*kept);
    *kept = NULL;
}

/* The set, all the living if `ranks` is NULL. The last ones are kept: programs meet in the
 * same sets again and again. */
struct party *party_take(acp_engine *e, const uint32_t *ranks, uint32_t count, uint32_t purpose)
{
    struct party **kept = ranks ? &e->last_party : &e->everyone, *p;
    pthread_mutex_lock(&e->space);
    if (!fits(e, *kept, ranks, count, purpose)) {
        forget(kept);
        p = party_new(e, ranks, count, purpose);
        if (p && !(p->ranks = malloc(count * sizeof *ranks + 1))) {
            party_free(p);
            p = NULL;
        }
        if (p) {
            if (ranks)
                memcpy(p->ranks, ranks, count * sizeof *ranks);
            p->asked = count;
            p->losses = e->losses_accepted;
            p->procs = e->procs;
            p->users = 1; /* being kept */
            *kept = p;
        }
    }
    p = *kept;
    if (p)
        p->users++;
    pthread_mutex_unlock(&e->space);
    return p;
}

void party_give(acp_engine *e, struct party *p)
{
    pthread_mutex_lock(&e->space);
    if (--p->users == 0)
        party_free(p);
    pthread_mutex_unlock(&e->space);
}

void signal_arrived(acp_engine *e, const struct message *m)
{
    uint32_t free_at = e->signal_used;
    for (uint32_t i = 0; i < e->signal_used; i++) {
        struct signal_count *s = &e->signals[i];
        if (s->count && s->key == m->a && s->round == (uint32_t)m->b) {
            s->count++;
            progress_event(e);
            return;
        }
        if (!s->count)
            free_at = i;
    }
    if (free_at == e->signal_room) {
        uint32_t room = free_at ? free_at * 2 : 8;
        struct signal_count *grown = realloc(e->signals, room * sizeof *grown);
        if (!grown)
            return;
        e->signals = grown;
        e->signal_room = room;
    }
    if (free_at == e->signal_used)
        e->signal_used++;
    e->signals[free_at] = (struct signal_count){m->a, (uint32_t)m->b, 1};
    progress_event(e);
}

struct signal_wait {
    acp_engine *engine;
    struct party *party;
    uint32_t round;
    bool got;
    int trouble;
};

static bool signal_here(void *context)
{
    struct signal_wait *w = context;
    acp_engine *e = w->engine;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < e->signal_used && !w->got; i++) {
        struct signal_count *s = &e->signals[i];
        if (s->count && s->key == w->party->key && s->round == w->round) {
            s->count--;
            w->got = true;
        }
    }
    pthread_mutex_unlock(&e->lock);
    return w->got || (w->trouble = party_trouble(e, w->party)) != ACP_OK;
}

/* The node's lowest member meets those of the other nodes; a later call goes on where an
 * earlier one has stopped. */
int party_meet_nodes(acp_engine *e, struct party *p, struct meeting *m, int64_t timeout_ns)
{
    uint64_t start = now_ns();
    acp_doing doing = p->purpose >= PURPOSE_FINALIZE ? ACP_DOING_FINALIZE : ACP_DOING_SYNC;
    for (; 1u << m->round < p->nodes; m->round++) {
        uint32_t partner = (p->own_node + (1u << m->round)) % p->nodes;
        struct peer *to = peer_of_slot(e, p->leaders[partner]);
        struct message signal = {.kind = ACP_SIGNAL, .from = e->self, .a = p->key,
                                 .b = m->round};
        int rc = ACP_OK;
        if (!m->signalled) {
            pthread_mutex_lock(&e->lock);
            rc = road_to(e, to)->send(&e->lanes[LANE_LOCKED], to, 0, &signal);
            pthread_mutex_unlock(&e->lock);
            if (rc != ACP_OK && rc != ACP_E_LOST)
                return rc;
            m->signalled = true;
        }
        struct signal_wait w = {e, p, m->round, false, ACP_OK};
        int64_t left = timeout_ns == ACP_FOREVER ? timeout_ns
                                                 : timeout_ns - (int64_t)(now_ns() - start);
        rc = progress_wait(e, signal_here, &w, left < FIRST_NS ? left : FIRST_NS, doing);
        if (rc == ACP_E_TIMEOUT && left > FIRST_NS) {
            party_look_around(e, p);
            rc = progress_wait(e, signal_here, &w,
                               left == ACP_FOREVER ? left : left - FIRST_NS, doing);
        }
        if (rc == ACP_OK && !w.got)
            rc = w.trouble;
        if (rc != ACP_OK)
            return rc;
        m->signalled = false;
    }
    return ACP_OK;
}

/* Ranks mean other processes after a reset. */
void barrier_forget(acp_engine *e)
{
    pthread_mutex_lock(&e->space);
    forget(&e->last_party);
    forget(&e->everyone);
    pthread_mutex_unlock(&e->space);
}

void barrier_close(acp_engine *e)
{
    barrier_forget(e);
    barriers_drop_unfinished(e);
    free(e->signals);
    e->signals = NULL;
}
