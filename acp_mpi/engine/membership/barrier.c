/* Barriers over any set of ranks. On a node the members count in an entry of the lowest member's doors, found by a key
 * that is made of the set; the last arrival releases the others with one futex call. Between nodes the lowest members
 * signal each other in ceil(log2 n) rounds. */
#include "membership/barrier.h"
#include "base/likely.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "membership/team.h"
#include "peers/peer.h"
#include "progress/progress.h"
#include "progress/wait.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#define FIRST_SLICE_NS ((int64_t)20000000)
#define SLICE_NS ((int64_t)500000000)
#define ARRIVE ((uint64_t)1 << 16)
#define USER ((uint64_t)1)
#define REKEYED 0xffffu /* value of users while the entry gets another key */
#define REKEY_NS ((uint64_t)1000000000)

static uint32_t generation(uint64_t state)
{
    return (uint32_t)(state >> 32);
}

static _Atomic uint32_t *generation_word(struct barrier_entry *entry)
{
    return (_Atomic uint32_t *)(void *)((char *)&entry->state + 4); /* little-endian only */
}

static bool rekeyed(uint64_t state)
{
    return (state & 0xffff) == REKEYED;
}

/* True: no other entry has `key`, or may be about to get it. */
static bool only_one(struct doors *doors, const struct barrier_entry *own, uint64_t key, bool patient)
{
    for (uint32_t i = 0; i < BARRIER_ENTRIES; i++) {
        const struct barrier_entry *entry = &doors->barriers[i];
        uint64_t state = entry == own ? 0 : atomic_load(&entry->state);
        if (entry != own && (rekeyed(state) ? patient : atomic_load(&entry->key) == key))
            return false;
    }
    return true;
}

/* The entry for `key`, made if there is none. All members look in the same order, so that two which take a free entry
 * take the same one. Two which take an entry of another set may have found different ones idle: having claimed one
 * each looks once more, and if both see the other both begin anew. A claim that lasts for a second is of a dead
 * process. */
static struct barrier_entry *entry_of(struct doors *doors, uint64_t key)
{
    uint64_t start = linux_now_ns();
    for (;;) {
        bool again = false, patient = linux_now_ns() - start < REKEY_NS;
        struct barrier_entry *victim = NULL;
        for (uint32_t i = 0; i < BARRIER_ENTRIES; i++) {
            struct barrier_entry *entry = &doors->barriers[(key / 2 + i) % BARRIER_ENTRIES];
            uint64_t state = atomic_load(&entry->state), now = atomic_load(&entry->key);
            again |= rekeyed(state);
            if (rekeyed(state))
                continue;
            if (now == 0 && atomic_compare_exchange_strong(&entry->key, &now, key))
                return entry;
            if (now == key)
                return entry;
            if (!victim && (state & 0xffff) == 0)
                victim = entry;
        }
        if (again && patient) {
            sched_yield();
            continue;
        }
        if (!victim)
            return NULL;
        uint64_t state = victim->state;
        uint64_t claimed = (state & ~(uint64_t)0xffff) + (1ull << 32) + REKEYED;
        if ((state & 0xffff) == 0 &&
            atomic_compare_exchange_strong(&victim->state, &state, claimed)) {
            bool mine = only_one(doors, victim, key, patient);
            if (mine)
                atomic_store(&victim->key, key);
            atomic_store(&victim->state, (claimed & ~(uint64_t)0xffffffff));
            if (mine)
                return victim;
            sched_yield();
        }
    }
}

struct gate {
    acp_engine *engine;
    struct party *party;
    struct peer *leader;
    struct barrier_entry *entry;
    uint32_t arrived_at, passed_at;
    struct meeting meeting;
};

static int await_gate(struct gate *g, int64_t timeout_ns)
{
    acp_engine *e = g->engine;
    struct barrier_entry *entry = g->entry;
    uint64_t start = linux_now_ns();
    for (uint32_t spin = 1; linux_now_ns() - start < SPIN_NS; spin++) {
        if ((int32_t)(generation(atomic_load(&entry->state)) - g->passed_at) >= 0)
            return ACP_OK;
        for (int i = 0; i < 8; i++)
            linux_cpu_relax();
        if (spin % 4 == 0)
            sched_yield();
    }
    struct waiter w = {.word = generation_word(entry)};
    int64_t slice = FIRST_SLICE_NS;
    bool told = false;
    int rc = ACP_OK;
    progress_waiter_add(e, &w);
    for (;;) {
        atomic_fetch_add(&entry->sleepers, 1);
        uint32_t now = generation(atomic_load(&entry->state));
        bool through = (int32_t)(now - g->passed_at) >= 0 ||
                       (g->leader != e->job.own && team_passed(g->party, g->leader));
        long slept = 0;
        if (!through && e->stopping)
            rc = ACP_E_CLOSED;
        if (!through && rc == ACP_OK && (rc = team_check(e, g->party)) == ACP_OK) {
            int64_t left = timeout_ns == ACP_FOREVER
                               ? slice
                               : timeout_ns - (int64_t)(linux_now_ns() - start);
            slept = linux_futex_wait(w.word, now, left < slice ? left : slice, true);
        }
        int error = errno;
        atomic_fetch_sub(&entry->sleepers, 1);
        if (through || rc != ACP_OK)
            break;
        bool look = error == EINTR || (error == ETIMEDOUT && e->config.tick);
        if (slept < 0 && look && wait_tick(e, ACP_TICK_SIGNAL))
            rc = ACP_E_INTERRUPTED; /* a signal may have come just before the sleep */
        else if (timeout_ns != ACP_FOREVER && (int64_t)(linux_now_ns() - start) >= timeout_ns)
            rc = ACP_E_TIMEOUT;
        if (rc != ACP_OK)
            break;
        if (!told && linux_now_ns() - start > LONG_WAIT_NS) {
            told = true;
            if (wait_tick(e, ACP_TICK_LONG)) {
                rc = ACP_E_INTERRUPTED;
                break;
            }
        }
        if (slept < 0 && slice == FIRST_SLICE_NS && team_watch(e, g->party))
            slice = SLICE_NS;
    }
    progress_waiter_drop(e, &w);
    return rc;
}

static void entry_release(struct barrier_entry *entry)
{
    if (atomic_load(&entry->sleepers))
        linux_futex_wake(generation_word(entry), true);
}

/* Counts in; *last: all members of the node are here. That is one generation, and one more when all nodes have met. On
 * a single node both are one step: else a member that times out in between would come again. */
static bool gate_arrive(struct gate *g, bool *last)
{
    uint64_t state = atomic_load(&g->entry->state), next, steps = g->party->nodes == 1 ? 2 : 1;
    do {
        uint32_t arrived = (uint32_t)(state >> 16) & 0xffff;
        if (atomic_load(&g->entry->key) != g->party->key || rekeyed(state))
            return false;
        g->arrived_at = generation(state);
        *last = arrived + 1 >= g->party->here;
        next = *last ? (state & ~(uint64_t)0xffff0000) + USER + (steps << 32)
                     : state + ARRIVE + USER;
    } while (!atomic_compare_exchange_weak(&g->entry->state, &state, next));
    return true;
}

/* Counts out again if the barrier has not let members through: it may be called once more. */
static bool retract(struct gate *g)
{
    uint64_t state = atomic_load(&g->entry->state);
    while (generation(state) == g->arrived_at)
        if (atomic_compare_exchange_weak(&g->entry->state, &state, state - ARRIVE - USER))
            return true;
    return false;
}

/* A barrier that its caller left when its arrival could not be taken back any more: other nodes have been signalled,
 * or the members let through while a signal handler raised. The next call with the same set goes on where this one
 * stopped. */
struct unfinished {
    struct unfinished *next;
    uint64_t key;
    struct barrier_entry *entry;
    uint32_t arrived_at;
    struct meeting meeting;
};

static bool resume(acp_engine *e, const struct party *p, struct gate *g)
{
    bool found = false;
    if (likely(!__atomic_load_n(&e->sync.unfinished, __ATOMIC_RELAXED)))
        return false;
    pthread_mutex_lock(&e->space);
    struct unfinished **at = &e->sync.unfinished;
    while (*at && (*at)->key != p->key)
        at = &(*at)->next;
    if (*at) {
        struct unfinished *u = *at;
        g->entry = u->entry;
        g->arrived_at = u->arrived_at;
        g->meeting = u->meeting;
        __atomic_store_n(at, u->next, __ATOMIC_RELAXED);
        free(u);
        found = true;
    }
    pthread_mutex_unlock(&e->space);
    return found;
}

static void leave_unfinished(acp_engine *e, const struct party *p, const struct gate *g)
{
    struct unfinished *u = malloc(sizeof *u);
    if (!u)
        return;
    *u = (struct unfinished){.key = p->key, .entry = g->entry, .arrived_at = g->arrived_at,
                             .meeting = g->meeting};
    pthread_mutex_lock(&e->space);
    u->next = e->sync.unfinished;
    __atomic_store_n(&e->sync.unfinished, u, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&e->space);
}

void barriers_drop_unfinished(acp_engine *e)
{
    pthread_mutex_lock(&e->space);
    while (e->sync.unfinished) {
        struct unfinished *u = e->sync.unfinished;
        __atomic_store_n(&e->sync.unfinished, u->next, __ATOMIC_RELAXED);
        free(u);
    }
    pthread_mutex_unlock(&e->space);
}

static int64_t left_of(int64_t timeout_ns, uint64_t start)
{
    return timeout_ns == ACP_FOREVER ? timeout_ns : timeout_ns - (int64_t)(linux_now_ns() - start);
}

/* Waits until the node is complete, exchanges signals with the other nodes, and lets the members go on. */
static int lead_node(struct gate *g, bool last, int64_t timeout_ns, uint64_t start)
{
    acp_engine *e = g->engine;
    int rc = ACP_OK;
    g->passed_at = g->arrived_at + 1;
    if (!last && !g->meeting.begun)
        rc = await_gate(g, timeout_ns);
    if (rc == ACP_OK) {
        g->meeting.begun = true;
        rc = team_sync_nodes(e, g->party, &g->meeting, left_of(timeout_ns, start));
    }
    if (rc == ACP_OK) {
        atomic_fetch_add(&g->entry->state, 1ull << 32);
        entry_release(g->entry);
    }
    return rc;
}

static int meet(acp_engine *e, struct party *p, int64_t timeout_ns)
{
    struct peer *leader = peer_of_slot(e, p->leader);
    struct gate g = {.engine = e, .party = p, .leader = leader};
    uint64_t start = linux_now_ns();
    bool last = false;
    int rc = team_check(e, p);
    if (rc != ACP_OK)
        return rc;
    if (peer_attach(e, leader) == RELATION_REMOTE && leader != e->job.own)
        return ACP_E_SYSTEM;
    if (leader->lost)
        return team_check(e, p);
    bool resumed = resume(e, p, &g);
    while (!resumed) {
        if (!(g.entry = entry_of(leader->shm.doors, p->key)))
            return ACP_E_FULL;
        if (gate_arrive(&g, &last))
            break;
    }
    g.passed_at = g.arrived_at + 2;
    if (last && p->nodes == 1) {
        entry_release(g.entry);
    } else if (e->self == p->leader && p->nodes > 1) {
        rc = lead_node(&g, last, timeout_ns, start);
    } else {
        if (last)
            entry_release(g.entry); /* for the lowest member, which goes on */
        rc = await_gate(&g, timeout_ns);
    }
    if (rc != ACP_OK && retract(&g))
        return rc;
    bool through = rc == ACP_OK || generation(atomic_load(&g.entry->state)) - g.arrived_at >= 2;
    if (!through || rc == ACP_E_INTERRUPTED) {
        leave_unfinished(e, p, &g);
        return rc;
    }
    atomic_fetch_sub(&g.entry->state, USER);
    return ACP_OK; /* let through, perhaps while its time ran out */
}

int acp_barrier(acp_engine *e, const uint32_t *ranks, uint32_t count, uint32_t purpose,
                int64_t timeout_ns)
{
    struct party *p = team_acquire(e, ranks, ranks ? count : 0, purpose);
    if (!p)
        return ACP_E_SYSTEM;
    acp_doing doing = purpose >= PURPOSE_FINALIZE ? ACP_DOING_FINALIZE
                      : ranks                     ? ACP_DOING_BARRIER
                                                  : ACP_DOING_SYNC;
    acp_doing was = wait_begin(e, doing);
    int rc = p->count > 1 ? meet(e, p, timeout_ns) : ACP_OK;
    wait_end(e, doing, was);
    if (rc == ACP_OK && p->whole && purpose < PURPOSE_FINALIZE) {
        e->sync.meetings = e->sync.met_key == p->key ? e->sync.meetings + 1 : 1;
        e->sync.met_key = p->key;
    }
    team_release(e, p);
    return rc;
}
