/* Background collectives: the progress engine advances them as messages come, while their callers compute. */
#include "collectives/background.h"
#include "devices/device_import.h"
#include "base/linux.h"
#include "collectives/abort.h"
#include "collectives/schedule.h"
#include "core/membarrier.h"
#include "memory/heap.h"
#include "messages/flow.h"
#include "messages/flows.h"
#include "messages/mailbox.h"
#include "messages/purge_finished.h"
#include "messages/recv_wait.h"
#include "messages/request.h"
#include "progress/doorbell.h"
#include "progress/progress.h"
#include "progress/wait.h"
#include "transport/keepalive.h"

#include <sched.h>
#include <stdlib.h>

/* Makes the sender of the next message ring. True: one has come already. */
static bool next_rings(const acp_collective *c)
{
    membarrier_all(); /* a sender that writes after the look finds that it must ring */
    for (uint32_t i = 0; i < c->open; i++)
        if (acp_request_done(c->messages[i]))
            return true;
    return false;
}

/* As far as it goes. ACP_E_BUSY: again soon. */
static int drive(acp_lane *lane, acp_collective *c)
{
    int rc;
    do
        rc = schedule_advance(lane, c);
    while (rc == ACP_E_HANDLE && c->state == COLLECTIVE_RUNS && c->rung != c->at &&
           (c->rung = c->at, next_rings(c)));
    return rc == ACP_E_INTERRUPTED || c->again ? ACP_E_BUSY : rc;
}

static bool drive_all(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    bool any = false, again = false;
    if (unlikely(atomic_load(&e->mail.halted)))
        return false;
    for (acp_collective **c = &e->collectives.first; *c;) {
        acp_collective *one = *c;
        bool ran = one->state == COLLECTIVE_RUNS;
        uint32_t before = ran ? one->at : 0; /* at a fold it is its caller's */
        if (ran)
            again |= drive(lane, one) == ACP_E_BUSY;
        uint32_t state = one->state;
        any |= ran && (state != COLLECTIVE_RUNS || one->at != before || one->moves);
        if (state == COLLECTIVE_OVER) {
            *c = one->next;
            one->listed = false;
            atomic_fetch_sub(&e->collectives.count, 1);
        } else {
            c = &one->next;
        }
        if (state != COLLECTIVE_RUNS)
            progress_event(e); /* from here it may be freed */
    }
    atomic_store(&e->collectives.again, again);
    return any;
}

enum due background_due(const acp_engine *e)
{
    return !e->collectives.count || e->mail.halted ? DUE_NOT : e->collectives.again ? DUE_SOON : DUE_AWAKE;
}

bool background_step(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    bool any = false;
    if (likely(!atomic_load_explicit(&e->collectives.count, memory_order_relaxed)))
        return false;
    atomic_store(&e->collectives.news, true);
    while (atomic_load(&e->collectives.news) && !pthread_mutex_trylock(&e->collectives.lock)) {
        atomic_store(&e->collectives.news, false);
        any |= drive_all(lane);
        pthread_mutex_unlock(&e->collectives.lock);
    }
    return any;
}

static void step_here(acp_engine *e)
{
    acp_lane *lane = lane_await(e);
    lane->hurries = true;
    pthread_mutex_lock(&e->collectives.lock);
    drive_all(lane);
    pthread_mutex_unlock(&e->collectives.lock);
    background_step(lane); /* for drivers that found the lock taken in between */
    lane->hurries = false;
    acp_lane_give(lane);
    if (atomic_load(&e->collectives.again))
        doorbell_kick(e);
}

void acp_collective_release(acp_collective *c)
{
    acp_engine *e = c->engine;
    c->rung = UINT32_MAX;
    c->heavy = true;
    for (uint32_t i = 0; i < c->open; i++) /* the caller may have run it for a while */
        if (c->messages[i]->entry)
            mailbox_set_attention(c->messages[i]->entry, ATTENTION_SLEEPS);
    pthread_mutex_lock(&e->collectives.lock);
    c->released = c->listed = true;
    c->next = e->collectives.first;
    e->collectives.first = c;
    atomic_fetch_add(&e->collectives.count, 1);
    pthread_mutex_unlock(&e->collectives.lock);
    step_here(e);
}

static bool run_stopped(void *context)
{
    return abort_stopped(context);
}

/* After a while, and again now and then, the senders of its messages are watched: they may have changed. */
static int wait_long(acp_collective *c, int64_t timeout_ns)
{
    uint64_t start = linux_now_ns();
    bool told = false;
    for (;;) {
        if (schedule_overdue(c))
            schedule_watch(c);
        int64_t slice = schedule_wait_left(c), left = timeout_ns;
        if (left != ACP_FOREVER && (left -= (int64_t)(linux_now_ns() - start)) < slice)
            slice = left > 0 ? left : 0;
        int rc = wait_ready(c->engine, run_stopped, c, slice, ACP_DOING_COLLECTIVE);
        if (rc != ACP_E_TIMEOUT || slice == left || left < 0)
            return rc;
        if (wait_told(c->engine, start, &told))
            return ACP_E_INTERRUPTED;
    }
}

struct any_wait {
    acp_collective *const *collectives;
    const acp_flag *const *others;
    uint32_t count, other_count;
};

static bool one_stands(void *context)
{
    const struct any_wait *w = context;
    for (uint32_t i = 0; i < w->count; i++)
        if (abort_stopped(w->collectives[i]))
            return true;
    for (uint32_t i = 0; i < w->other_count; i++)
        if (acp_flag_is_set(w->others[i]))
            return true;
    return false;
}

int acp_wait_any(acp_engine *e, acp_request *const *requests, uint32_t count,
                 acp_collective *const *collectives, uint32_t collective_count, const acp_flag *const *others,
                 uint32_t other_count, int64_t timeout_ns)
{
    struct any_wait w = {collectives, others, collective_count, other_count};
    uint64_t start = linux_now_ns();
    acp_doing doing = collective_count ? ACP_DOING_COLLECTIVE : ACP_DOING_SEND;
    bool told = false;
    for (uint32_t i = 0; i < count; i++)
        doing = requests[i]->kind == REQUEST_SEND ? doing : ACP_DOING_RECEIVE;
    while (!one_stands(&w)) {
        int64_t left = wait_left(timeout_ns, start), slice = left, patience;
        for (uint32_t i = 0; i < collective_count; i++) {
            if (schedule_overdue(collectives[i]))
                schedule_watch(collectives[i]);
            patience = schedule_wait_left(collectives[i]);
            slice = patience < slice ? patience : slice;
        }
        int rc = recv_wait_any(e, requests, count, one_stands, &w, collective_count || other_count, doing, slice);
        if (rc != ACP_E_TIMEOUT || slice == left)
            return rc;
        if (wait_told(e, start, &told))
            return ACP_E_INTERRUPTED;
    }
    return ACP_OK;
}

int acp_collective_wait(acp_collective *c, int64_t timeout_ns)
{
    int rc = run_stopped(c) ? ACP_OK : wait_long(c, timeout_ns);
    if (rc != ACP_OK)
        return rc;
    return atomic_load(&c->state) == COLLECTIVE_FOLDS ? ACP_COLLECTIVE_FOLD : c->status;
}

/* True: it has ended, or a fold is due. A caller that polls for a long time watches as a waiting one does. */
bool acp_collective_done(acp_collective *c)
{
    if (abort_stopped(c))
        return true;
    if (schedule_overdue(c))
        schedule_watch(c);
    return false;
}

/* A reset meanwhile has ended it where it was: it stays so. */
void acp_collective_folded(acp_collective *c)
{
    uint32_t folds = COLLECTIVE_FOLDS;
    c->at++;
    if (atomic_compare_exchange_strong(&c->state, &folds, COLLECTIVE_RUNS) && c->released)
        step_here(c->engine);
}

static void unlist(acp_engine *e, acp_collective *c)
{
    for (acp_collective **at = &e->collectives.first; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            atomic_fetch_sub(&e->collectives.count, 1);
            break;
        }
    c->listed = false;
}

bool acp_collective_settled(const acp_collective *c)
{
    return atomic_load(&c->state) == COLLECTIVE_OVER && !c->released;
}

static bool has_mailbox(const acp_collective *c)
{
    return c->era == c->engine->mail.era && !c->engine->stopping;
}

/* Under the lock: a driver of this collective holds it until it is through with it, and no reset replaces the mailbox
 * meanwhile. */
static void let_go(acp_collective *c)
{
    acp_engine *e = c->engine;
    pthread_mutex_lock(&e->collectives.lock);
    if (c->watched && has_mailbox(c))
        __atomic_fetch_sub(&mailbox_of(mailbox_heap(e, e->job.own))->probing, 1, __ATOMIC_SEQ_CST);
    schedule_unlock(e);
}

void acp_collective_end(acp_collective *c)
{
    acp_engine *e = c->engine;
    if (atomic_load(&c->state) != COLLECTIVE_OVER) {
        acp_lane *lane = lane_await(e);
        pthread_mutex_lock(&e->collectives.lock);
        if (c->listed)
            unlist(e, c);
        schedule_unlock(e);
        atomic_store(&c->state, COLLECTIVE_RUNS);
        int rc;
        do {
            schedule_enter(e);
            abort_fail(lane, c, ACP_E_LEFT, -1);
            rc = schedule_advance(lane, c);
            schedule_leave(e);
        } while (rc != ACP_OK && sched_yield() == 0);
        acp_lane_give(lane);
    }
    if (c->released || c->watched)
        let_go(c);
    if (has_mailbox(c) && (c->plan->messages || c->plan->members > 1))
        purge_finished_add(e, c->context, c->status != ACP_OK);
    free(c);
}

/* With the lock: the mailbox goes. */
static void close_all(acp_engine *e)
{
    for (acp_collective *c; (c = e->collectives.first);) {
        unlist(e, c);
        schedule_close(&e->lanes[LANE_CALLER], c);
    }
}

void background_close(acp_engine *e)
{
    pthread_mutex_lock(&e->collectives.lock);
    close_all(e);
    pthread_mutex_unlock(&e->collectives.lock);
}

static void halt(acp_engine *e)
{
    flows_halt(e);
    while (atomic_load(&e->collectives.drivers))
        sched_yield();
    pthread_mutex_lock(&e->collectives.lock); /* a driver that had it before */
    pthread_mutex_unlock(&e->collectives.lock);
}

void acp_engine_halt(acp_engine *e)
{
    halt(e);
    keepalive_await(e);
    device_import_close(e); /* after the reset its owner may free the memory at once */
}

void acp_engine_resume(acp_engine *e)
{
    if (!flows_resume(e))
        return;
    progress_wake(e); /* after a reset the messages that they wait for will not come */
    doorbell_kick(e);
}

void background_stop(acp_engine *e)
{
    halt(e);
    pthread_mutex_lock(&e->collectives.lock); /* drivers pass by */
}

void background_resume(acp_engine *e, bool emptied)
{
    if (emptied)
        close_all(e);
    schedule_unlock(e);
    acp_engine_resume(e);
}
