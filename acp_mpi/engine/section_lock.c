/* The lock of a section: how it is waited for. */
#include "section.h"

#include "progress.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* Pauses between two looks at a lock that is taken, and in all before a wait: its holder is preempted
 * then. Each look slows the holder, and where every call goes through one lock, handing it over for
 * each takes what it guards from one processor's cache to the other's. */
static const struct looking {
    uint32_t pauses, all;
} prompt = {8, 2048}, patient = {256, 16384};
#define YIELD_EVERY 128u /* pauses of who is prompt */
/* glibc has the other function since 2.30, and the thread sanitizer does not know it. */
#if defined(__SANITIZE_THREAD__) || __GLIBC__ * 1000 + __GLIBC_MINOR__ < 2030
#define LOCK_CLOCK CLOCK_REALTIME
#define LOCK_UNTIL(mutex, until) pthread_mutex_timedlock(mutex, until)
#else
#define LOCK_CLOCK CLOCK_MONOTONIC
#define LOCK_UNTIL(mutex, until) pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, until)
#endif
#define SLICE_NS ((int64_t)100000000) /* of a wait, so that a signal is seen */

void section_create(struct section *s)
{
    pthread_mutexattr_t shared;
    memset(s, 0, sizeof *s);
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->mutex, &shared);
    pthread_mutexattr_destroy(&shared);
}

static int lock_for(struct section *s, int64_t ns)
{
    struct timespec until;
    clock_gettime(LOCK_CLOCK, &until);
    uint64_t end = (uint64_t)until.tv_nsec + (uint64_t)ns;
    until.tv_sec += (time_t)(end / 1000000000);
    until.tv_nsec = (long)(end % 1000000000);
    return LOCK_UNTIL(&s->mutex, &until);
}

/* Holding nothing: between the slices the caller's signal handlers run. EINTR: one of them ends it, also if
 * it has closed the engine. */
static int lock_patiently(acp_engine *e, struct section *s)
{
    uint64_t start = now_ns();
    bool told = false;
    int rc;
    acp_doing was = doing_begin(e, ACP_DOING_ENTER);
    while ((rc = lock_for(s, SLICE_NS)) == ETIMEDOUT && !atomic_load(&e->stopping)) {
        bool is_long = !told && now_ns() - start > LONG_WAIT_NS;
        told |= is_long;
        if ((e->config.tick && tick(e, ACP_TICK_SIGNAL)) || (is_long && tick(e, ACP_TICK_LONG))) {
            rc = EINTR;
            break;
        }
    }
    doing_end(e, ACP_DOING_ENTER, was);
    return rc;
}

int section_lock(acp_lane *lane, struct section *s, int64_t patience_ns)
{
    acp_engine *e = lane->engine;
    int rc = EBUSY;
    const struct looking *how = s->patient ? &patient : &prompt;
    for (uint32_t all = how->pauses; rc == EBUSY && all <= how->all; all += how->pauses) {
        for (uint32_t i = 0; i < how->pauses; i++)
            cpu_relax();
        if (!s->patient && all % YIELD_EVERY == 0)
            sched_yield();
        rc = pthread_mutex_trylock(&s->mutex);
    }
    if (rc != EBUSY || !lane_may_wait(lane))
        return rc;
    if (patience_ns != ACP_FOREVER)
        return lock_for(s, patience_ns);
    return lock_patiently(e, s);
}
