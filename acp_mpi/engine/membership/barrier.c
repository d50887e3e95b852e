/* Barriers over any set of ranks. On a node the members count in an entry of the lowest member's doors, found by a key
 * that is made of the set; the last arrival releases the others with one futex call. Between nodes the lowest members
 * signal each other in ceil(log2 n) rounds.
 *
 * An entry has a check of its counts, which an addition keeps: a state that a wild pointer has written stays damaged,
 * whoever leaves meanwhile. A member that is counted in looks at each wake and at each slice of its sleep whether the
 * entry may still be what it was: its key, a user, an arrival, a generation of this barrier. Otherwise the barrier
 * fails, for good: the member marks the entry where all members will look for their key, so that each gets the same
 * error, now or when it comes, and nobody waits for a member that has failed. */
#include "membership/barrier.h"
#include "base/likely.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "core/upcalls.h"
#include "membership/team.h"
#include "membership/team_layout.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/progress.h"
#include "progress/wait.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#define FIRST_SLICE_NS ((int64_t)20000000)
#define SLICE_NS ((int64_t)500000000)
#define REKEY_NS ((uint64_t)1000000000)

#define COUNT_MASK 0xfffu
#define GENERATION_MASK 0xfffffu
#define DAMAGE (1ull << 63) /* added to a state with a right check */
#define REKEYED COUNT_MASK /* value of users while the entry gets another key */

static_assert(ATTACH_LINES + 1 < REKEYED, "the members of a node can be counted");

static uint32_t generation(uint64_t state)
{
    return (uint32_t)(state >> 32) & GENERATION_MASK;
}

static uint32_t users(uint64_t state)
{
    return (uint32_t)state & COUNT_MASK;
}

static uint32_t arrived(uint64_t state)
{
    return (uint32_t)state >> 12 & COUNT_MASK;
}

static uint64_t state_of(uint32_t generation, uint32_t arrived, uint32_t users)
{
    return (generation & GENERATION_MASK) * BARRIER_GENERATION + arrived * BARRIER_ARRIVE + users * BARRIER_USER;
}

static bool is_whole(uint64_t state)
{
    return state == state_of(generation(state), arrived(state), users(state));
}

static _Atomic uint32_t *generation_word(struct barrier_entry *entry)
{
    return (_Atomic uint32_t *)(void *)((char *)&entry->state + 4); /* little-endian only */
}

static bool rekeyed(uint64_t state)
{
    return users(state) == REKEYED && is_whole(state);
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

/* The entry that has `key`; else *victim: one that no member of another set uses, a free one if there is any. */
static struct barrier_entry *find_entry(struct doors *doors, uint64_t key, struct barrier_entry **victim, bool *claims)
{
    for (uint32_t i = 0; i < BARRIER_ENTRIES; i++) {
        struct barrier_entry *entry = &doors->barriers[(key / 2 + i) % BARRIER_ENTRIES];
        uint64_t state = atomic_load(&entry->state), now = atomic_load(&entry->key);
        *claims |= rekeyed(state);
        if (now == key && !rekeyed(state))
            return entry;
        bool idle = users(state) == 0 && is_whole(state);
        if (idle && (!*victim || (now == 0 && atomic_load(&(*victim)->key))))
            *victim = entry;
    }
    return NULL;
}

/* The entry for `key`, made if there is none. Members that take an entry may have found different ones idle: having
 * claimed one each looks once more, and if both see the other both begin anew. A claim that lasts for a second is of a
 * dead process. Generations begin with the time: an entry that is written over with zeros, and taken again, is not
 * what those wait for that are counted in. */
static struct barrier_entry *entry_of(struct doors *doors, uint64_t key)
{
    uint64_t start = linux_now_ns();
    for (;;) {
        bool again = false, patient = linux_now_ns() - start < REKEY_NS;
        struct barrier_entry *victim = NULL, *entry = find_entry(doors, key, &victim, &again);
        if (entry)
            return entry;
        if (again && patient) {
            sched_yield();
            continue;
        }
        if (!victim)
            return NULL;
        uint64_t state = atomic_load(&victim->state);
        uint32_t begins = generation(state) + 1 + (uint32_t)(start >> 10);
        uint64_t claimed = state_of(begins, 0, REKEYED);
        if (users(state) == 0 && is_whole(state) &&
            atomic_compare_exchange_strong(&victim->state, &state, claimed)) {
            bool mine = only_one(doors, victim, key, patient);
            if (mine)
                atomic_store(&victim->key, key);
            atomic_store(&victim->state, state_of(begins, 0, 0));
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
    uint32_t arrived_at, steps; /* the generation of its arrival; generations until it may go on */
    struct meeting meeting;
};

enum sight { SHUT, OPEN, DAMAGED };

/* What a member sees that is counted in. */
static enum sight look(const struct gate *g)
{
    uint64_t state = atomic_load(&g->entry->state);
    uint32_t gone = (generation(state) - g->arrived_at) & GENERATION_MASK, count = arrived(state);
    bool possible = gone == 0 ? count > 0 : gone == 1 ? count == 0 && g->party->nodes > 1 : gone == 2;
    if (!is_whole(state) || rekeyed(state) || users(state) == 0 || count > users(state) || count >= g->party->here ||
        !possible || atomic_load(&g->entry->key) != g->party->key)
        return DAMAGED;
    return gone >= g->steps ? OPEN : SHUT;
}

static void mark(struct barrier_entry *entry)
{
    uint64_t state = atomic_load(&entry->state);
    while (is_whole(state) && !rekeyed(state) && !atomic_compare_exchange_weak(&entry->state, &state, state + DAMAGE))
        ;
    linux_futex_wake(generation_word(entry), true);
}

/* Marks the entry where members wait, and that where others look for the key. */
static int fail(const struct gate *g)
{
    acp_engine *e = g->engine;
    uint32_t own = g->party->leader, culprit = g->meeting.culprit ? g->meeting.culprit : own + 1;
    struct barrier_entry *at[2] = {g->entry, entry_of(g->leader->shm.doors, g->party->key)};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t none = 0;
        if (!at[i] || atomic_load(&at[i]->key) != g->party->key)
            continue;
        if (!atomic_compare_exchange_strong(&at[i]->culprit, &none, culprit))
            culprit = none;
        mark(at[i]);
    }
    culprit = team_layout_has(g->party, culprit - 1) ? culprit - 1 : own;
    if (e->self == own)
        team_tell_damage(e, g->party, culprit);
    e->sync.trouble_rank = rank_table_rank(e, culprit);
    return ACP_E_DAMAGED;
}

static int await_gate(struct gate *g, int64_t timeout_ns)
{
    acp_engine *e = g->engine;
    struct barrier_entry *entry = g->entry;
    uint64_t start = linux_now_ns();
    for (uint32_t spin = 1; linux_now_ns() - start < SPIN_NS; spin++) {
        if (look(g) == OPEN)
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
        uint32_t now = (uint32_t)(atomic_load(&entry->state) >> 32);
        enum sight sight = look(g);
        bool through = sight == OPEN || (g->leader != e->job.own && team_passed(g->party, g->leader));
        long slept = 0;
        if (!through && e->stopping)
            rc = ACP_E_CLOSED;
        else if (!through && sight == DAMAGED)
            rc = ACP_E_DAMAGED;
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
        bool late = slept < 0 && error == ETIMEDOUT;
        if (late && !only_one(g->leader->shm.doors, entry, g->party->key, false))
            rc = ACP_E_DAMAGED;
        else if (((slept < 0 && error == EINTR) || (late && e->config.tick)) && wait_tick(e, ACP_TICK_SIGNAL))
            rc = ACP_E_INTERRUPTED; /* a signal may have come just before the sleep */
        else if (timeout_ns != ACP_FOREVER && (int64_t)(linux_now_ns() - start) >= timeout_ns)
            rc = ACP_E_TIMEOUT;
        if (rc != ACP_OK)
            break;
        if (wait_told(e, start, &told)) {
            rc = ACP_E_INTERRUPTED;
            break;
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
 * a single node both are one step: else a member that times out in between would come again. ACP_E_BUSY: the entry is
 * another set's by now. */
static int gate_arrive(struct gate *g, bool *last)
{
    uint64_t state = atomic_load(&g->entry->state), next, steps = g->party->nodes == 1 ? 2 : 1;
    do {
        uint32_t count = arrived(state);
        if (atomic_load(&g->entry->key) != g->party->key || rekeyed(state))
            return ACP_E_BUSY;
        if (!is_whole(state) || count > users(state) || count >= g->party->here || users(state) + 1 >= REKEYED)
            return ACP_E_DAMAGED;
        g->arrived_at = generation(state);
        *last = count + 1 >= g->party->here;
        next = *last ? state_of(generation(state) + (uint32_t)steps, 0, users(state) + 1) : state + BARRIER_ARRIVE + BARRIER_USER;
    } while (!atomic_compare_exchange_weak(&g->entry->state, &state, next));
    return ACP_OK;
}

/* Counts out again if the barrier has not let members through: it may be called once more. */
static bool retract(struct gate *g)
{
    uint64_t state = atomic_load(&g->entry->state);
    while (look(g) == SHUT && generation(state) == g->arrived_at && arrived(state))
        if (atomic_compare_exchange_weak(&g->entry->state, &state, state - BARRIER_ARRIVE - BARRIER_USER))
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

/* The other nodes are here, too. */
static int open_gate(struct gate *g)
{
    uint64_t state = atomic_load(&g->entry->state);
    do {
        if (look(g) == DAMAGED)
            return ACP_E_DAMAGED;
    } while (!atomic_compare_exchange_weak(&g->entry->state, &state,
                                           state_of(generation(state) + 1, 0, users(state))));
    entry_release(g->entry);
    return ACP_OK;
}

/* Waits until the node is complete, exchanges signals with the other nodes, and lets the members go on. */
static int lead_node(struct gate *g, bool last, int64_t timeout_ns, uint64_t start)
{
    acp_engine *e = g->engine;
    int rc = ACP_OK;
    g->steps = 1;
    if (!last && !g->meeting.begun)
        rc = await_gate(g, timeout_ns);
    if (rc == ACP_OK) {
        g->meeting.begun = true;
        rc = team_sync_nodes(e, g->party, &g->meeting, left_of(timeout_ns, start));
    }
    return rc == ACP_OK ? open_gate(g) : rc;
}

static int pass(struct gate *g, bool last, int64_t timeout_ns, uint64_t start)
{
    bool leads = g->engine->self == g->party->leader && g->party->nodes > 1;
    if (leads)
        return lead_node(g, last, timeout_ns, start);
    if (last)
        entry_release(g->entry); /* for those that wait, or for the lowest member, which goes on */
    return last && g->party->nodes == 1 ? ACP_OK : await_gate(g, timeout_ns);
}

/* Other sets use all of them, or those that might be idle are damaged. */
static int without_entry(const struct gate *g)
{
    acp_engine *e = g->engine;
    const struct doors *doors = g->leader->shm.doors;
    uint32_t whole = 0;
    while (whole < BARRIER_ENTRIES && is_whole(atomic_load(&doors->barriers[whole].state)))
        whole++;
    if (whole == BARRIER_ENTRIES)
        return ACP_E_FULL;
    if (e->self == g->party->leader)
        team_tell_damage(e, g->party, e->self);
    e->sync.trouble_rank = rank_table_rank(e, g->party->leader);
    return ACP_E_DAMAGED;
}

static int meet(acp_engine *e, struct party *p, int64_t timeout_ns)
{
    struct peer *leader = peer_of_slot(e, p->leader);
    struct gate g = {.engine = e, .party = p, .leader = leader, .steps = 2};
    uint64_t start = linux_now_ns();
    bool last = false;
    int rc = team_check(e, p);
    if (rc != ACP_OK)
        return rc;
    if (peer_attach(e, leader) == RELATION_REMOTE && leader != e->job.own)
        return ACP_E_SYSTEM;
    if (leader->lost)
        return team_check(e, p);
    rc = resume(e, p, &g) ? ACP_OK : ACP_E_BUSY;
    while (rc == ACP_E_BUSY) {
        if (!(g.entry = entry_of(leader->shm.doors, p->key)))
            return without_entry(&g);
        rc = gate_arrive(&g, &last);
    }
    if (rc == ACP_OK)
        rc = pass(&g, last, timeout_ns, start);
    if (rc == ACP_E_DAMAGED || (rc != ACP_OK && look(&g) == DAMAGED))
        return fail(&g);
    if (rc != ACP_OK && retract(&g))
        return rc;
    g.steps = 2;
    if ((rc != ACP_OK && look(&g) != OPEN) || rc == ACP_E_INTERRUPTED) {
        leave_unfinished(e, p, &g);
        return rc;
    }
    atomic_fetch_sub(&g.entry->state, BARRIER_USER);
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
