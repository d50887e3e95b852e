/* Barriers over any set of ranks. On a node the members count in an entry of the lowest
 * member's doors, found by a key that is made of the set; the last arrival releases the
 * others with one futex call. Between nodes the lowest members signal each other in
 * ceil(log2 n) rounds. */
#include "core.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLICE_NS ((int64_t)20000000)
#define SLICE_NS ((int64_t)500000000)
#define ARRIVE ((uint64_t)1 << 16)
#define USER ((uint64_t)1)
#define REKEYED 0xffffu /* users: the entry gets another key just now */

/* A set of ranks as one member sees it. */
struct party {
    uint64_t key;
    uint32_t purpose;
    uint32_t *slots;
    uint32_t count;
    uint32_t here;   /* members on this node */
    uint32_t leader; /* the lowest of them */
    uint32_t *leaders;
    uint32_t nodes, own_node;
};

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
    return e->config.path == ACP_PATH_LINK ? slot : e->rows[slot].node;
}

static int compare_slots(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void party_free(struct party *p)
{
    if (p) {
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

static uint32_t generation(uint64_t state)
{
    return (uint32_t)(state >> 32);
}

static _Atomic uint32_t *generation_word(struct barrier_entry *entry)
{
    return (_Atomic uint32_t *)(void *)((char *)&entry->state + 4); /* little-endian only */
}

/* The entry for `key`, made if there is none. Everyone looks in the same order, so that two
 * who make it meet at the same one. */
static struct barrier_entry *entry_of(struct doors *doors, uint64_t key)
{
    uint64_t start = now_ns();
    for (;;) {
        bool again = false;
        struct barrier_entry *victim = NULL;
        for (uint32_t i = 0; i < BARRIER_ENTRIES; i++) {
            struct barrier_entry *entry = &doors->barriers[(key / 2 + i) % BARRIER_ENTRIES];
            uint64_t now = atomic_load(&entry->key), state = atomic_load(&entry->state);
            if (now == 0 && atomic_compare_exchange_strong(&entry->key, &now, key))
                return entry;
            if (now == key)
                return entry;
            again |= (state & 0xffff) == REKEYED;
            if (!victim && (state & 0xffff) == 0)
                victim = entry;
        }
        if (again && now_ns() - start < 1000000000u) {
            sched_yield();
            continue;
        }
        if (!victim)
            return NULL;
        uint64_t state = victim->state;
        uint64_t claimed = (state & ~(uint64_t)0xffff) + (1ull << 32) + REKEYED;
        if ((state & 0xffff) == 0 &&
            atomic_compare_exchange_strong(&victim->state, &state, claimed)) {
            atomic_store(&victim->key, key);
            atomic_store(&victim->state, (claimed & ~(uint64_t)0xffffffff));
            return victim;
        }
    }
}

/* Why a member will not come, if that is so. */
static int trouble(acp_engine *e, const struct party *p)
{
    bool all_well = e->losses == e->losses_accepted && (!e->leavers || p->purpose > 1);
    for (uint32_t i = 0; !all_well && i < p->count; i++) {
        struct peer *peer = peer_of_slot(e, p->slots[i]);
        if (peer->lost && !peer->loss_accepted) {
            e->trouble_rank = rank_of_slot(e, peer->slot);
            return ACP_E_LOST;
        }
        if (peer->leaving && p->purpose <= 1) {
            e->trouble_rank = rank_of_slot(e, peer->slot);
            return ACP_E_FINALIZING;
        }
    }
    return ACP_OK;
}

/* After a while without a result: hear of deaths, and tell everybody that this rank leaves. */
static void look_around(acp_engine *e, const struct party *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->slots[i] != e->self)
            peer_watch(e, peer_of_slot(e, p->slots[i]));
    if (p->purpose > 1)
        acp_engine_leaving(e);
}

struct gate {
    acp_engine *engine;
    struct party *party;
    struct barrier_entry *entry;
    uint32_t arrived_at, passed_at;
};

static int await_gate(struct gate *g, int64_t timeout_ns)
{
    acp_engine *e = g->engine;
    struct barrier_entry *entry = g->entry;
    uint64_t start = now_ns();
    for (uint32_t spin = 1; now_ns() - start < SPIN_NS; spin++) {
        if ((int32_t)(generation(atomic_load(&entry->state)) - g->passed_at) >= 0)
            return ACP_OK;
        for (int i = 0; i < 8; i++)
            cpu_relax();
        if (spin % 4 == 0)
            sched_yield();
    }
    struct waiter w = {.word = generation_word(entry)};
    int64_t slice = FIRST_SLICE_NS;
    bool told = false;
    int rc = ACP_OK;
    pthread_mutex_lock(&e->waiters_lock);
    w.next = e->waiters;
    e->waiters = &w;
    pthread_mutex_unlock(&e->waiters_lock);
    for (;;) {
        atomic_fetch_add(&entry->sleepers, 1);
        uint32_t now = generation(atomic_load(&entry->state));
        bool through = (int32_t)(now - g->passed_at) >= 0;
        long slept = 0;
        if (!through && e->stopping)
            rc = ACP_E_CLOSED;
        if (!through && rc == ACP_OK && (rc = trouble(e, g->party)) == ACP_OK) {
            int64_t left = timeout_ns == ACP_FOREVER
                               ? slice
                               : timeout_ns - (int64_t)(now_ns() - start);
            slept = futex_wait(w.word, now, left < slice ? left : slice, true);
        }
        int error = errno;
        atomic_fetch_sub(&entry->sleepers, 1);
        if (through || rc != ACP_OK)
            break;
        if (slept < 0 && error == EINTR && tick(e, ACP_TICK_SIGNAL))
            rc = ACP_E_INTERRUPTED;
        else if (timeout_ns != ACP_FOREVER && (int64_t)(now_ns() - start) >= timeout_ns)
            rc = ACP_E_TIMEOUT;
        if (rc != ACP_OK)
            break;
        if (!told && now_ns() - start > LONG_WAIT_NS) {
            told = true;
            tick(e, ACP_TICK_LONG);
        }
        if (slept < 0 && slice == FIRST_SLICE_NS) {
            look_around(e, g->party);
            slice = SLICE_NS;
        }
    }
    pthread_mutex_lock(&e->waiters_lock);
    for (struct waiter **at = &e->waiters; *at; at = &(*at)->next) {
        if (*at == &w) {
            *at = w.next;
            break;
        }
    }
    pthread_mutex_unlock(&e->waiters_lock);
    return rc;
}

static void release(struct barrier_entry *entry)
{
    if (atomic_load(&entry->sleepers))
        futex_wake(generation_word(entry), true);
}

/* Counts in; *last: everybody of the node is here. */
static bool arrive(struct gate *g, bool *last)
{
    uint64_t state = atomic_load(&g->entry->state), next;
    do {
        uint32_t arrived = (uint32_t)(state >> 16) & 0xffff;
        if (atomic_load(&g->entry->key) != g->party->key || (state & 0xffff) == REKEYED)
            return false;
        g->arrived_at = generation(state);
        *last = arrived + 1 >= g->party->here;
        next = *last ? (state & ~(uint64_t)0xffff0000) + USER + (1ull << 32)
                     : state + ARRIVE + USER;
    } while (!atomic_compare_exchange_weak(&g->entry->state, &state, next));
    return true;
}

/* Counts out again if nobody has been let through: the barrier may be called once more. */
static bool retract(struct gate *g)
{
    uint64_t state = atomic_load(&g->entry->state);
    while (generation(state) == g->arrived_at)
        if (atomic_compare_exchange_weak(&g->entry->state, &state, state - ARRIVE - USER))
            return true;
    return false;
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
    return w->got || (w->trouble = trouble(e, w->party)) != ACP_OK;
}

/* The node's lowest member meets those of the other nodes. */
static int meet_nodes(acp_engine *e, struct party *p, int64_t timeout_ns)
{
    uint32_t round = 0;
    for (uint32_t distance = 1; distance < p->nodes; distance *= 2, round++) {
        struct peer *to = peer_of_slot(e, p->leaders[(p->own_node + distance) % p->nodes]);
        struct message m = {.kind = ACP_SIGNAL, .from = e->self, .a = p->key, .b = round};
        pthread_mutex_lock(&e->lock);
        int rc = road_to(e, to)->send(&e->lanes[LANE_LOCKED], to, 0, &m);
        pthread_mutex_unlock(&e->lock);
        if (rc != ACP_OK && rc != ACP_E_LOST)
            return rc;
        struct signal_wait w = {e, p, round, false, ACP_OK};
        rc = progress_wait(e, signal_here, &w, timeout_ns,
                           p->purpose > 1 ? ACP_DOING_FINALIZE : ACP_DOING_SYNC);
        if (rc == ACP_OK && !w.got)
            rc = w.trouble;
        if (rc != ACP_OK)
            return rc;
    }
    return ACP_OK;
}

static int meet(acp_engine *e, struct party *p, int64_t timeout_ns)
{
    struct gate g = {.engine = e, .party = p};
    struct peer *leader = peer_of_slot(e, p->leader);
    uint64_t start = now_ns();
    bool last;
    int rc = trouble(e, p);
    if (rc != ACP_OK)
        return rc;
    if (peer_attach(e, leader) == RELATION_REMOTE && leader != e->own)
        return ACP_E_SYSTEM;
    if (leader->lost)
        return trouble(e, p);
    do {
        if (!(g.entry = entry_of(leader->doors, p->key)))
            return ACP_E_FULL;
    } while (!arrive(&g, &last));
    /* One generation when the node is complete, one more when all nodes have met. */
    g.passed_at = g.arrived_at + 2;
    if (last && p->nodes == 1) {
        atomic_fetch_add(&g.entry->state, 1ull << 32);
        release(g.entry);
    } else if (e->self == p->leader && p->nodes > 1) {
        g.passed_at = g.arrived_at + 1;
        rc = last ? ACP_OK : await_gate(&g, timeout_ns);
        if (rc == ACP_OK) {
            int64_t left = timeout_ns == ACP_FOREVER
                               ? timeout_ns
                               : timeout_ns - (int64_t)(now_ns() - start);
            rc = meet_nodes(e, p, left);
            g.arrived_at--; /* past taking back */
            atomic_fetch_add(&g.entry->state, rc == ACP_OK ? 1ull << 32 : 0);
        }
        release(g.entry);
    } else {
        if (last)
            release(g.entry); /* for the leader, who goes on */
        rc = await_gate(&g, timeout_ns);
    }
    if (rc != ACP_OK && retract(&g))
        return rc;
    atomic_fetch_sub(&g.entry->state, USER);
    /* Let through while giving up: a single node has met, whatever came after. */
    return rc != ACP_OK && p->nodes == 1 ? ACP_OK : rc;
}

static struct party *party_of_all(acp_engine *e, uint32_t purpose)
{
    struct party **cached = &e->everyone;
    uint32_t living = e->procs - e->losses_accepted;
    if (*cached && ((*cached)->count != living || (*cached)->purpose != purpose)) {
        party_free(*cached);
        *cached = NULL;
    }
    if (!*cached)
        *cached = party_new(e, NULL, 0, purpose);
    return *cached;
}

int acp_barrier(acp_engine *e, const uint32_t *ranks, uint32_t count, uint32_t purpose,
                int64_t timeout_ns)
{
    struct party *p = ranks ? party_new(e, ranks, count, purpose) : party_of_all(e, purpose);
    if (!p)
        return ACP_E_SYSTEM;
    atomic_store(&e->control->barrier_key, p->key);
    uint32_t was = atomic_exchange(&e->control->doing, purpose > 1 ? ACP_DOING_FINALIZE
                                                       : ranks     ? ACP_DOING_BARRIER
                                                                   : ACP_DOING_SYNC);
    int rc = p->count > 1 ? meet(e, p, timeout_ns) : ACP_OK;
    atomic_store(&e->control->doing, was);
    if (ranks)
        party_free(p);
    return rc;
}

void barrier_close(acp_engine *e)
{
    party_free(e->everyone);
    free(e->signals);
    e->everyone = NULL;
    e->signals = NULL;
}
