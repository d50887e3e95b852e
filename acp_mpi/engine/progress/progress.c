/* Progress: one leader at a time drives communication. A thread that waits leads while it waits (wait.c); else the
 * progress thread leads, asleep until something arrives. */
#include "progress/progress.h"
#include "base/likely.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/upcalls.h"
#include "progress/doorbell.h"
#include "progress/reactor.h"
#include "progress/wait.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

#define POLLS_BLIND 1024u /* so that a busy leader notices deaths, too */

void progress_event(acp_engine *e)
{
    doorbell_wake(e->doors);
}

void progress_waiter_add(acp_engine *e, struct waiter *w)
{
    pthread_mutex_lock(&e->progress.waiters_lock);
    w->next = e->progress.waiters;
    e->progress.waiters = w;
    pthread_mutex_unlock(&e->progress.waiters_lock);
}

void progress_waiter_drop(acp_engine *e, const struct waiter *w)
{
    pthread_mutex_lock(&e->progress.waiters_lock);
    struct waiter **at = &e->progress.waiters;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    pthread_mutex_unlock(&e->progress.waiters_lock);
}

void progress_wake(acp_engine *e)
{
    pthread_mutex_lock(&e->progress.waiters_lock);
    for (struct waiter *w = e->progress.waiters; w; w = w->next)
        linux_futex_wake(w->word, true);
    pthread_mutex_unlock(&e->progress.waiters_lock);
    progress_event(e);
}

bool progress_leader_try(acp_engine *e)
{
    if (pthread_mutex_trylock(&e->progress.leader))
        return false;
    atomic_store(&e->control->asleep, 0);
    if (atomic_load_explicit(&e->tcp.wire_count, memory_order_relaxed))
        reactor_arm(e, false);
    return true;
}

static enum due most_due(const acp_engine *e, const struct poller *part)
{
    enum due most = DUE_NOT;
    for (; part->poll; part++) {
        enum due due = part->due(e);
        most = due > most ? due : most;
    }
    return most;
}

/* Is there work for now, or work that no event will trigger, so that a leader must look again soon? */
static enum due leader_due(const acp_engine *e)
{
    enum due locked = most_due(e, e->up->locked), unlocked = most_due(e, e->up->unlocked);
    return locked > unlocked ? locked : unlocked;
}

void progress_leader_release(acp_engine *e)
{
    if (e->tcp.held_links)
        e->up->release(e);
    atomic_store(&e->control->asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    bool more = leader_due(e) >= DUE_SOON || e->stopping;
    reactor_arm(e, true);
    pthread_mutex_unlock(&e->progress.leader);
    atomic_thread_fence(memory_order_seq_cst); /* a thread that finds it taken after that has left no ring */
    if (more || atomic_load(&e->progress.rung))
        doorbell_kick(e);
    if (atomic_load(&e->doors->dozing)) /* a dozing thread may want to lead */
        progress_event(e);
}

static bool poll_locked(acp_engine *e, bool rung)
{
    bool any = false, locked = false;
    for (const struct poller *part = e->up->locked; part->poll; part++) {
        if (!rung && part->due(e) == DUE_NOT)
            continue;
        if (!locked)
            pthread_mutex_lock(&e->lock);
        locked = true;
        any |= part->poll(&e->lanes[LANE_LEADER]);
    }
    if (locked)
        pthread_mutex_unlock(&e->lock);
    return any;
}

bool progress_poll(acp_engine *e)
{
    if (e->stopping)
        return false;
    bool rung = unlikely(atomic_load_explicit(&e->progress.rung, memory_order_acquire));
    if (rung) /* before the looks below, so that none of the rings is lost */
        atomic_store(&e->progress.rung, false);
    bool any = poll_locked(e, rung);
    if (e->tcp.wire_count || ++e->progress.polls % POLLS_BLIND == 0)
        any |= reactor_look(e);
    if (e->tcp.held_links && linux_now_ns() - e->tcp.held_at > COMPANY_NS)
        e->up->release(e); /* a busy leader never sleeps */
    for (const struct poller *part = e->up->unlocked; part->poll; part++)
        if (part->due(e) != DUE_NOT)
            any |= part->poll(&e->lanes[LANE_LEADER]);
    return any;
}

/* The thread may have been rung for one of these parts, and may stop leading now. For parts that are due before a
 * sleep it will call the next leader. */
static bool rung_for_part(const acp_engine *e)
{
    for (const struct poller *part = e->up->unlocked; part->poll; part++) {
        enum due due = part->due(e);
        if (due == DUE_AWAKE || due == DUE_SOON)
            return true;
    }
    return false;
}

bool progress_sleep(acp_engine *e, int64_t timeout_ns, bool *interrupted)
{
    if (e->tcp.held_links) /* the answers that would send them may depend on them */
        e->up->release(e);
    if (e->tcp.more_follows)
        e->up->ask_more(e);
    if (atomic_load(&e->mpi.guests)) { /* guests need MPI driven all the time */
        reactor_take(e, 0, interrupted);
        e->up->pause(e);
        return false;
    }
    atomic_store(&e->control->asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    enum due due = leader_due(e);
    int64_t most = due == DUE_NOW ? 0 : due == DUE_SOON ? RETRY_NS : timeout_ns;
    bool any = reactor_take(e, most < timeout_ns ? most : timeout_ns, interrupted);
    atomic_store(&e->control->asleep, 0);
    if (any && rung_for_part(e))
        progress_poll(e);
    return any;
}

/* Looks on for a while, for waking up once more would cost as much. Not after a ring for a peer: it sends nothing
 * before it is awake, and may need this processor for that. */
static void look_on(acp_engine *e, uint32_t rings)
{
    uint64_t until = linux_now_ns() + wait_look_on_ns(e);
    uint32_t looks = 0;
    while ((linux_now_ns() < until || (e->tcp.held_links && !e->progress.flush_at)) && !e->progress.suitors &&
           !e->stopping && e->progress.rings == rings) {
        if ((e->tcp.wire_count || most_due(e, e->up->locked) >= DUE_SOON) && progress_poll(e))
            until = linux_now_ns() + wait_look_on_ns(e);
        wait_pause(e, &looks);
    }
}

/* A caller may have begun to lead meanwhile, and does what this thread was rung for: to wait until it has
 * stopped would be one switch more. */
static bool lead_unless_led(acp_engine *e)
{
    while (pthread_mutex_trylock(&e->progress.leader)) {
        if (!atomic_load(&e->progress.armed))
            return false;
        if (reactor_leave(e))
            return pthread_mutex_trylock(&e->progress.leader) == 0;
        sched_yield(); /* one that slept on the mutex would be woken each time a caller stops leading */
    }
    return true;
}

static void *progress_main(void *argument)
{
    acp_engine *e = argument;
    bool interrupted;
    while (!atomic_load(&e->stopping) && reactor_await(e)) {
        if (!lead_unless_led(e))
            continue;
        atomic_store(&e->control->asleep, 0);
        uint32_t rings = e->progress.rings;
        progress_poll(e); /* messages in the inbox may be urgent */
        do
            reactor_take(e, 0, &interrupted);
        while (progress_poll(e) && !e->progress.suitors); /* a caller that waits does all the rest, on its processor */
        look_on(e, rings);
        if (e->tcp.more_follows && !e->progress.suitors)
            e->up->ask_more(e);
        while (!atomic_load(&e->stopping) && leader_due(e) >= DUE_SOON) {
            progress_sleep(e, RETRY_NS, &interrupted);
            progress_poll(e);
        }
        progress_leader_release(e);
    }
    return NULL;
}

int progress_start(acp_engine *e)
{
    sigset_t all, before;
    if (reactor_open(e) != ACP_OK)
        return ACP_E_SYSTEM;
    atomic_store(&e->control->asleep, 1);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&e->progress.thread, NULL, progress_main, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    e->progress.thread_runs = !error;
    errno = error;
    return e->progress.thread_runs ? ACP_OK : ACP_E_SYSTEM;
}

void progress_join(acp_engine *e)
{
    doorbell_kick(e);
    if (e->progress.thread_runs)
        pthread_join(e->progress.thread, NULL);
    e->progress.thread_runs = false;
    while (atomic_load(&e->progress.callers)) { /* they end because of `stopping` */
        progress_event(e);
        sched_yield();
    }
}
