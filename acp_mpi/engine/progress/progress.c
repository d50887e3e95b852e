/* Who drives communication: one leader at a time. A thread that waits leads while it waits
 * (wait.c); else the progress thread leads, asleep until something arrives. */
#include "collectives/schedule.h"
#include "messages/request.h"
#include "mpi_window/target_assist.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

#define POLLS_BLIND 1024u /* who always has something to do hears of deaths, too */

void progress_event(acp_engine *e)
{
    doze_ring(e->doors);
}

void waiters_wake(acp_engine *e)
{
    pthread_mutex_lock(&e->waiters_lock);
    for (struct waiter *w = e->waiters; w; w = w->next)
        futex_wake(w->word, true);
    pthread_mutex_unlock(&e->waiters_lock);
    progress_event(e);
}

bool leader_try(acp_engine *e)
{
    if (pthread_mutex_trylock(&e->leader))
        return false;
    atomic_store(&e->control->asleep, 0);
    if (atomic_load_explicit(&e->wire_count, memory_order_relaxed))
        events_arm(e, false);
    return true;
}

/* Is there anything that a leader would do now? */
static bool busy(const acp_engine *e)
{
    return inbox_waiting(e) || e->work_pending || e->loss_news;
}

/* Is there anything that nobody will ring for, so that a leader must look again soon? */
static bool must_look(const acp_engine *e)
{
    return e->backlogged || e->memory.retiring || inbox_claimed(e) || e->guests ||
           e->barred_count || e->mail_due || e->mail_stuck || e->mail_losses ||
           e->collectives_again || e->starved || e->ended;
}

void leader_release(acp_engine *e)
{
    if (e->held_links)
        links_release(e);
    atomic_store(&e->control->asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    bool more = busy(e) || must_look(e) || e->stopping;
    events_arm(e, true);
    pthread_mutex_unlock(&e->leader);
    atomic_thread_fence(memory_order_seq_cst); /* who finds it taken after that has left no ring */
    if (more || atomic_load(&e->rung))
        progress_kick(e);
    if (atomic_load(&e->doors->dozing)) /* one of them may want to lead */
        progress_event(e);
}

/* A rank has died: what needs it fails, whoever waits looks again, the others are told. */
static void handle_losses(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    while (atomic_load(&e->loss_news)) {
        atomic_store(&e->loss_news, 0);
        for (struct peer *p = NULL; (p = peer_next(e, p));) {
            if (!p->lost || p->loss_handled)
                continue;
            p->loss_handled = true;
            ops_fail_peer(lane, p);
            links_lost(lane, p);
            couriers_lost(lane, p);
            visits_forget(e, p);
            e->mail_losses = 1;
            struct message m = loss_of(e, p);
            if (!e->outcast) /* who is held for dead itself has no say in who else is */
                notify_all(lane, &m);
        }
        sources_guard(e);
        waiters_wake(e);
    }
}

bool progress_poll(acp_engine *e)
{
    acp_lane *lane = &e->lanes[LANE_LEADER];
    bool any = false;
    if (e->stopping)
        return false;
    bool rung = unlikely(atomic_load_explicit(&e->rung, memory_order_acquire));
    if (rung) /* from here on it looks at all that somebody may have been rung for */
        atomic_store(&e->rung, false);
    if (rung || inbox_waiting(e) || inbox_claimed(e) || e->backlogged || e->loss_news ||
        e->stalled_count || e->mail_due || e->starved) {
        pthread_mutex_lock(&e->lock);
        if (atomic_exchange(&e->starved, false))
            wires_feed(lane);
        any = inbox_drain(lane);
        backlog_push(lane);
        handle_losses(lane);
        ops_pump(lane);
        if (e->mail_due || (rung && e->couriers))
            any |= couriers_push(lane);
        pthread_mutex_unlock(&e->lock);
    }
    if (e->wire_count || ++e->polls % POLLS_BLIND == 0)
        any |= events_look(e);
    if (e->held_links && now_ns() - e->held_at > COMPANY_NS)
        links_release(e); /* whoever leads may never rest */
    any |= work_step(lane);
    if (e->mail_sends)
        any |= mail_step(lane);
    if (mail_untidy(e))
        mail_tidy(lane);
    if (e->collective_count)
        any |= collectives_step(lane);
    window_drive(e);
    if (e->ended)
        acp_names_bury(lane);
    segment_retirees_step(e);
    return any;
}

bool lead_asleep(acp_engine *e, int64_t timeout_ns, bool *interrupted)
{
    if (e->held_links) /* the answers that would send them may depend on them */
        links_release(e);
    if (atomic_load(&e->guests)) { /* they need MPI driven all the time */
        events_take(e, 0, interrupted);
        window_pause(e);
        return false;
    }
    if (must_look(e))
        timeout_ns = timeout_ns < RETRY_NS ? timeout_ns : RETRY_NS;
    atomic_store(&e->control->asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (busy(e))
        timeout_ns = 0;
    bool any = events_take(e, timeout_ns, interrupted);
    atomic_store(&e->control->asleep, 0);
    if (any && (e->collective_count || e->mail_sends || mail_untidy(e)))
        progress_poll(e); /* it may have been rung for them, and stop leading now */
    return any;
}

void node_watch(acp_engine *e)
{
    uint32_t count;
    const uint32_t *mates = table_mates(e, &count);
    for (uint32_t i = 0; i < count; i++)
        peer_watch(e, peer_of_slot(e, mates[i]));
}

/* Waking up once more would cost as much. Whoever had to be rung for has nothing more to say before
 * that, and may need this processor to wake up. */
static void look_on(acp_engine *e, uint32_t rings)
{
    uint64_t until = now_ns() + progress_worth(e, LOOK_ON_NS);
    uint32_t looks = 0;
    while ((now_ns() < until || e->held_links) && !e->suitors && !e->stopping && e->rings == rings) {
        if ((inbox_waiting(e) || e->wire_count || e->barred_count) && progress_poll(e))
            until = now_ns() + progress_worth(e, LOOK_ON_NS);
        progress_linger(e, &looks);
    }
}

/* A caller may have begun to lead meanwhile, and does what this thread was rung for: to wait until it has
 * stopped would be one switch more. */
static bool lead_unless_led(acp_engine *e)
{
    if (pthread_mutex_trylock(&e->leader) == 0)
        return true;
    if (!atomic_load(&e->armed))
        return false;
    return events_leave(e) ? pthread_mutex_trylock(&e->leader) == 0
                           : pthread_mutex_lock(&e->leader) == 0;
}

static void *progress_main(void *argument)
{
    acp_engine *e = argument;
    bool interrupted;
    while (!atomic_load(&e->stopping) && events_await(e)) {
        if (!lead_unless_led(e))
            continue;
        atomic_store(&e->control->asleep, 0);
        uint32_t rings = e->rings;
        progress_poll(e); /* somebody may wait for what is in the inbox */
        do
            events_take(e, 0, &interrupted);
        while (progress_poll(e));
        look_on(e, rings);
        while (!atomic_load(&e->stopping) && must_look(e)) {
            lead_asleep(e, RETRY_NS, &interrupted);
            progress_poll(e);
        }
        leader_release(e);
    }
    return NULL;
}

int progress_start(acp_engine *e)
{
    sigset_t all, before;
    if (events_open(e) != ACP_OK)
        return ACP_E_SYSTEM;
    atomic_store(&e->control->asleep, 1);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&e->thread, NULL, progress_main, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    e->thread_runs = !error;
    errno = error;
    return e->thread_runs ? ACP_OK : ACP_E_SYSTEM;
}

void progress_join(acp_engine *e)
{
    progress_kick(e);
    if (e->thread_runs)
        pthread_join(e->thread, NULL);
    e->thread_runs = false;
    while (atomic_load(&e->callers)) { /* they have been told: `stopping` */
        progress_event(e);
        sched_yield();
    }
}
