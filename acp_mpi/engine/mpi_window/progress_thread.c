/* A thread that drives MPI while the program computes, so that data which other ranks put into its windows arrives. It
 * needs no engine: programs that know only mpi4py use it too.
 *
 * MPI does not tell whether a poll has moved anything, and moves one thing in each. A poll that moved nothing takes
 * some hundred nanoseconds, but so do others, and the first one after a nap is slow: so the thread polls until two in
 * a row were quick. The cost is waking up, 2 us of a core on one machine, 20 on another: the thread measures it, and
 * sets its naps so that it takes its share of a core and no more.
 *
 * A putting rank waits for its put, and then puts more: a long put comes in pieces that fill the room there is. So
 * while things move the thread polls on, up to a larger share of a core. */
#include "mpi_window/progress_thread.h"
#include "core/engine.h"
#include "mpi_window/finalize.h"
#include "mpi_window/symbols.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define QUICK_NS 1000u /* a look that moved nothing, if the caches are warm */
#define QUICK_LOOKS 2u /* in a row before a nap */
#define DISPLACED_NS 100000u /* another thread had the core: Open MPI yields it in each poll */
#define WATCH_NS 12000u  /* of polling at a time, at the least: another piece may follow a round trip later */
#define WATCHED 16u      /* naps followed by that after something has moved */
#define SELDOM 4u        /* else one nap in SELDOM */
#define LINGER_NS 40000u /* after something has moved */
#define BURST_NS 500000u /* in all; then others have the core */
#define BURST_SHARE 3u   /* shortest pause after a burst, in lengths of it */
#define SHARE 40u /* of the time, one part for waking up */
#define LONGEST 10u /* nap, in units of the shortest */
#define SAMPLE 32u /* naps from one measurement of their cost to the next */
#define SLACK_NS 1000u /* instead of the 50 us by which the kernel may be late */

struct acp_mpi_progress {
    struct mpi mpi;
    acp_mpi_progress_config config;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping; /* with the lock held */
    _Atomic uint64_t interval;
    _Atomic uint64_t looks;
};

/* How long it took. A program that has called MPI_Finalize is about to stop the thread: nothing is done then. */
static uint64_t target_look(struct acp_mpi_progress *p, uint64_t *now)
{
    _Alignas(16) char status[256]; /* of any MPI */
    uint64_t begin = *now;
    int flag;
    if (finalize_enter()) {
        p->mpi.iprobe(p->config.any_source, p->config.tag, p->config.comm, &flag, status);
        finalize_leave();
        atomic_fetch_add_explicit(&p->looks, 1, memory_order_relaxed);
    }
    *now = acp_now();
    return *now - begin;
}

/* Until nothing moves, and for that time at least. Returns for how long things did; one slow look alone
 * may have another reason. */
static uint64_t look_around(struct acp_mpi_progress *p, uint64_t least_ns)
{
    uint64_t begin = acp_now(), now = begin, moved = 0, took = 0;
    uint32_t quick = 0, slow = 0;
    for (bool first = true; took < DISPLACED_NS && now - begin < BURST_NS; first = false) {
        took = target_look(p, &now);
        quick = took < QUICK_NS ? quick + 1 : 0;
        if (!quick && !first) {
            moved = now;
            slow++;
        }
        bool quiet = moved ? now - moved > LINGER_NS : now - begin >= least_ns;
        if (quiet && quick >= QUICK_LOOKS)
            break;
    }
    if (took >= DISPLACED_NS)
        now -= took;
    return slow > 1 ? now - begin : 0;
}

static uint64_t processor_ns(clockid_t clock)
{
    struct timespec used = {0};
    clock_gettime(clock, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* False: it shall end. */
static bool nap(struct acp_mpi_progress *p, uint64_t ns)
{
    uint64_t until = acp_now() + ns;
    struct timespec at = {.tv_sec = (time_t)(until / 1000000000u),
                          .tv_nsec = (long)(until % 1000000000u)};
    pthread_mutex_lock(&p->lock);
    if (!p->stopping)
        pthread_cond_timedwait(&p->wake, &p->lock, &at);
    bool on = !p->stopping;
    pthread_mutex_unlock(&p->lock);
    return on;
}

static void *thread_drive(void *argument)
{
    struct acp_mpi_progress *p = argument;
    uint64_t used = processor_ns(CLOCK_THREAD_CPUTIME_ID), fair = 0, burst, bursts = 0, pause;
    uint32_t naps = 0, watched = 0;
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    do {
        uint64_t shortest = atomic_load_explicit(&p->interval, memory_order_relaxed);
        burst = look_around(p, watched || naps % SELDOM == 0 ? WATCH_NS : 0);
        bursts += burst;
        watched = burst ? WATCHED : watched ? watched - 1 : 0;
        if (++naps == SAMPLE) {
            uint64_t now = processor_ns(CLOCK_THREAD_CPUTIME_ID), whole = now - used;
            fair = (whole > bursts ? whole - bursts : 0) / SAMPLE * SHARE;
            used = now;
            naps = 0;
            bursts = 0;
        }
        pause = fair < shortest ? shortest : fair;
        if (pause > LONGEST * shortest)
            pause = LONGEST * shortest;
        if (pause < BURST_SHARE * burst)
            pause = BURST_SHARE * burst;
    } while (nap(p, pause));
    return NULL;
}

static int wakeable(struct acp_mpi_progress *p)
{
    pthread_condattr_t clock;
    if (pthread_condattr_init(&clock))
        return ACP_E_SYSTEM;
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&p->wake, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&p->lock, NULL);
    return rc ? ACP_E_SYSTEM : ACP_OK;
}

int acp_mpi_progress_start(const acp_mpi_progress_config *config, acp_mpi_progress **out,
                           const char **missing)
{
    struct acp_mpi_progress *p = calloc(1, sizeof *p);
    sigset_t all, before;
    *missing = NULL;
    if (!p)
        return ACP_E_SYSTEM;
    p->config = *config;
    atomic_store(&p->interval, config->interval_ns);
    *missing = symbols_find(&p->mpi, config->user);
    p->config.user = NULL;
    int rc = *missing ? ACP_E_ARGUMENT : finalize_wait(p->mpi.finalize) ? wakeable(p) : ACP_E_SYSTEM;
    if (rc == ACP_OK) {
        sigfillset(&all); /* signals are the program's */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        rc = pthread_create(&p->thread, NULL, thread_drive, p) ? ACP_E_SYSTEM : ACP_OK;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (rc != ACP_OK) {
        free(p);
        return rc;
    }
    *out = p;
    return ACP_OK;
}

void acp_mpi_progress_pace(acp_mpi_progress *p, uint64_t interval_ns)
{
    atomic_store_explicit(&p->interval, interval_ns, memory_order_relaxed);
}

void acp_mpi_progress_statistics(const acp_mpi_progress *p, uint64_t *looks, uint64_t *used_ns)
{
    clockid_t clock;
    *looks = atomic_load_explicit(&p->looks, memory_order_relaxed);
    *used_ns = pthread_getcpuclockid(p->thread, &clock) ? 0 : processor_ns(clock);
}

void acp_mpi_progress_stop(acp_mpi_progress *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
