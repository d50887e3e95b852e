/* The lock of a section: how it is waited for. */
#include "memory/transaction_lock.h"
#include "base/linux.h"
#include "memory/transaction.h"
#include "progress/wait.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* Pauses between two looks at a lock that is taken, and in all before a wait: its holder is preempted then. Each look
 * slows the holder, and where every call goes through one lock, handing it over for each takes the guarded lines from
 * one processor's cache to the other's. */
static const struct looking {
    uint32_t pauses, all;
} prompt = {8, 2048}, patient = {256, 16384};
#define YIELD_EVERY 128u /* pauses of a waiter that is not patient */
/* The lock's word: process id, bit LOCK_WANTED of a sleeping waiter, and the process's start time << 32. A value that
 * does not name a living process counts as free, so that the word may hold anything after damage. */
#define LOCK_WANTED ((uint64_t)1 << 31)
#define ASK_NS ((int64_t)10000000) /* wait between two checks that the holder lives */
#define SLICE_NS ((int64_t)100000000) /* of a wait, so that a signal is seen */

void transaction_lock_create(struct section *s)
{
    memset(s, 0, sizeof *s);
}

static uint64_t word_of(const acp_engine *e)
{
    return e->row.pid | e->row.start_time << 32;
}

static bool swap(struct section *s, uint64_t seen, uint64_t word)
{
    return __atomic_compare_exchange_n(&s->lock, &seen, word, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

bool transaction_lock_try(acp_lane *lane, struct section *s)
{
    return swap(s, 0, word_of(lane->engine));
}

static _Atomic uint32_t *bell_of(struct section *s)
{
    return (_Atomic uint32_t *)(void *)&s->lock; /* the lower half: all processors that this runs on are little-endian */
}

void transaction_lock_release(struct section *s)
{
    if (unlikely(__atomic_exchange_n(&s->lock, 0, __ATOMIC_RELEASE) & LOCK_WANTED))
        linux_futex_wake(bell_of(s), true);
}

static bool is_abandoned(const acp_engine *e, uint64_t word)
{
    uint32_t pid = (uint32_t)(word & ~LOCK_WANTED), began = (uint32_t)(word >> 32);
    bool dead;
    if (pid == e->row.pid)
        return began != (uint32_t)e->row.start_time;
    uint64_t start_time = linux_start_time(pid, &dead);
    return dead || (start_time && (uint32_t)start_time != began);
}

/* Also from a holder that has died: the version tells whether a change was left half-way. */
static bool lock_take(acp_lane *lane, struct section *s, uint64_t wanted)
{
    uint64_t seen = __atomic_load_n(&s->lock, __ATOMIC_RELAXED);
    return (!seen || is_abandoned(lane->engine, seen)) && swap(s, seen, word_of(lane->engine) | wanted);
}

/* EBUSY: it is still taken. */
static int lock_for(acp_lane *lane, struct section *s, int64_t ns)
{
    uint64_t now = linux_now_ns(), until = now + (uint64_t)ns;
    for (; now < until; now = linux_now_ns()) {
        uint64_t seen = __atomic_load_n(&s->lock, __ATOMIC_RELAXED), wanted = seen | LOCK_WANTED;
        int64_t left = (int64_t)(until - now);
        if (!seen && swap(s, 0, word_of(lane->engine) | LOCK_WANTED))
            return 0;
        if (!seen || (seen != wanted && !swap(s, seen, wanted)))
            continue;
        linux_futex_wait(bell_of(s), (uint32_t)wanted, left < ASK_NS ? left : ASK_NS, true);
        if (lock_take(lane, s, LOCK_WANTED))
            return 0;
    }
    return ETIMEDOUT;
}

/* Without any lock: between the slices the caller's signal handlers run. EINTR: a handler ends the wait, also by
 * closing the engine. */
static int lock_patiently(acp_lane *lane, struct section *s)
{
    acp_engine *e = lane->engine;
    uint64_t start = linux_now_ns();
    bool told = false;
    int rc;
    acp_doing was = wait_begin(e, ACP_DOING_ENTER);
    while ((rc = lock_for(lane, s, SLICE_NS)) == ETIMEDOUT && !atomic_load(&e->stopping)) {
        if ((e->config.tick && wait_tick(e, ACP_TICK_SIGNAL)) || wait_told(e, start, &told)) {
            rc = EINTR;
            break;
        }
    }
    wait_end(e, ACP_DOING_ENTER, was);
    return rc;
}

int transaction_lock_wait(acp_lane *lane, struct section *s, int64_t patience_ns)
{
    const struct looking *how = s->patient ? &patient : &prompt;
    bool taken = false;
    for (uint32_t all = how->pauses; !taken && all <= how->all; all += how->pauses) {
        for (uint32_t i = 0; i < how->pauses; i++)
            linux_cpu_relax();
        if (!s->patient && all % YIELD_EVERY == 0)
            sched_yield();
        taken = !__atomic_load_n(&s->lock, __ATOMIC_RELAXED) && transaction_lock_try(lane, s);
    }
    if (taken || lock_take(lane, s, 0))
        return 0;
    if (!lane_may_wait(lane))
        return EBUSY;
    return patience_ns != ACP_FOREVER ? lock_for(lane, s, patience_ns) : lock_patiently(lane, s);
}

int transaction_lock_retry(acp_lane *lane, int64_t patience_ns)
{
    acp_engine *e = lane->engine;
    if (patience_ns != ACP_FOREVER || !lane_may_wait(lane))
        return ACP_E_BUSY;
    if (atomic_load(&e->stopping))
        return lane_fail(lane, ACP_E_CLOSED, ACP_GA_NULL, 0);
    if (e->config.tick && wait_tick(e, ACP_TICK_SIGNAL))
        return lane_fail(lane, ACP_E_INTERRUPTED, ACP_GA_NULL, 0);
    return ACP_OK;
}
