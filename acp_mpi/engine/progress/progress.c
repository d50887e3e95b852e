/* Progress: one leader at a time drives communication. A thread that waits leads while it waits (wait.c); else the
 * progress thread leads, asleep until something arrives. */
#include "progress/progress.h"
#include "base/linux.h"
#include "collectives/background.h"
#include "core/state/peer.h"
#include "memory/retire.h"
#include "messages/flow.h"
#include "messages/message_send_queue.h"
#include "messages/purge.h"
#include "mpi_window/target_assist.h"
#include "mpi_window/window.h"
#include "operations/any_source.h"
#include "operations/notices.h"
#include "operations/op_background.h"
#include "operations/op_table.h"
#include "operations/pending.h"
#include "peers/peer.h"
#include "progress/doorbell.h"
#include "progress/reactor.h"
#include "progress/wait.h"
#include "transport/connection_input.h"
#include "transport/link.h"
#include "transport/link_io.h"
#include "transport/shm_ring.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

#define POLLS_BLIND 1024u /* so that a busy leader notices deaths, too */

void progress_event(acp_engine *e)
{
    doze_ring(e->doors);
}

void waiters_wake(acp_engine *e)
{
    pthread_mutex_lock(&e->progress.waiters_lock);
    for (struct waiter *w = e->progress.waiters; w; w = w->next)
        futex_wake(w->word, true);
    pthread_mutex_unlock(&e->progress.waiters_lock);
    progress_event(e);
}

bool leader_try(acp_engine *e)
{
    if (pthread_mutex_trylock(&e->progress.leader))
        return false;
    atomic_store(&e->control->asleep, 0);
    if (atomic_load_explicit(&e->tcp.wire_count, memory_order_relaxed))
        events_arm(e, false);
    return true;
}

/* Is there anything that a leader would do now? */
static bool busy(const acp_engine *e)
{
    return inbox_waiting(e) || e->progress.work_pending || e->job.loss_news;
}

/* Is there work that no event will trigger, so that the leader must look again soon? */
static bool must_look(const acp_engine *e)
{
    return e->shm.backlogged || e->memory.retiring || inbox_claimed(e) || e->mpi.guests ||
           e->ops.barred_count || e->mail.due || e->mail.stuck || e->mail.losses ||
           e->collectives.again || e->progress.starved || e->sync.ended;
}

void leader_release(acp_engine *e)
{
    if (e->tcp.held_links)
        links_release(e);
    atomic_store(&e->control->asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    bool more = busy(e) || must_look(e) || e->stopping;
    events_arm(e, true);
    pthread_mutex_unlock(&e->progress.leader);
    atomic_thread_fence(memory_order_seq_cst); /* a thread that finds it taken after that has left no ring */
    if (more || atomic_load(&e->progress.rung))
        progress_kick(e);
    if (atomic_load(&e->doors->dozing)) /* a dozing thread may want to lead */
        progress_event(e);
}

/* A rank has died: operations that need it fail, waiting threads look again, peers are told. */
static void handle_losses(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    while (atomic_load(&e->job.loss_news)) {
        atomic_store(&e->job.loss_news, 0);
        for (struct peer *p = NULL; (p = peer_next(e, p));) {
            if (!p->lost || p->loss_handled)
                continue;
            p->loss_handled = true;
            ops_fail_peer(lane, p);
            links_lost(lane, p);
            couriers_lost(lane, p);
            visits_forget(e, p);
            e->mail.losses = 1;
            struct message m = loss_of(e, p);
            if (!e->job.outcast) /* a process that counts as dead itself does not declare others dead */
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
    bool rung = unlikely(atomic_load_explicit(&e->progress.rung, memory_order_acquire));
    if (rung) /* before the looks below, so that none of the rings is lost */
        atomic_store(&e->progress.rung, false);
    if (rung || inbox_waiting(e) || inbox_claimed(e) || e->shm.backlogged || e->job.loss_news ||
        e->ops.stalled_count || e->mail.due || e->progress.starved) {
        pthread_mutex_lock(&e->lock);
        if (atomic_exchange(&e->progress.starved, false))
            wires_feed(lane);
        any = inbox_drain(lane);
        backlog_push(lane);
        handle_losses(lane);
        ops_pump(lane);
        if (e->mail.due || (rung && e->mail.couriers))
            any |= couriers_push(lane);
        pthread_mutex_unlock(&e->lock);
    }
    if (e->tcp.wire_count || ++e->progress.polls % POLLS_BLIND == 0)
        any |= events_look(e);
    if (e->tcp.held_links && now_ns() - e->tcp.held_at > COMPANY_NS)
        links_release(e); /* a busy leader never sleeps */
    any |= work_step(lane);
    if (e->mail.sends)
        any |= mail_step(lane);
    if (mail_untidy(e))
        mail_tidy(lane);
    if (e->collectives.count)
        any |= collectives_step(lane);
    window_drive(e);
    if (e->sync.ended)
        acp_names_bury(lane);
    segment_retirees_step(e);
    return any;
}

bool lead_asleep(acp_engine *e, int64_t timeout_ns, bool *interrupted)
{
    if (e->tcp.held_links) /* the answers that would send them may depend on them */
        links_release(e);
    if (atomic_load(&e->mpi.guests)) { /* guests need MPI driven all the time */
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
    if (any && (e->collectives.count || e->mail.sends || mail_untidy(e)))
        progress_poll(e); /* the ring may be for them, and this thread may stop leading now */
    return any;
}

/* Looks on for a while, for waking up once more would cost as much. Not after a ring for a peer: it sends nothing
 * before it is awake, and may need this processor for that. */
static void look_on(acp_engine *e, uint32_t rings)
{
    uint64_t until = now_ns() + progress_worth(e, LOOK_ON_NS);
    uint32_t looks = 0;
    while ((now_ns() < until || e->tcp.held_links) && !e->progress.suitors && !e->stopping && e->progress.rings == rings) {
        if ((inbox_waiting(e) || e->tcp.wire_count || e->ops.barred_count) && progress_poll(e))
            until = now_ns() + progress_worth(e, LOOK_ON_NS);
        progress_linger(e, &looks);
    }
}

/* A caller may have begun to lead meanwhile, and does what this thread was rung for: to wait until it has
 * stopped would be one switch more. */
static bool lead_unless_led(acp_engine *e)
{
    if (pthread_mutex_trylock(&e->progress.leader) == 0)
        return true;
    if (!atomic_load(&e->progress.armed))
        return false;
    return events_leave(e) ? pthread_mutex_trylock(&e->progress.leader) == 0
                           : pthread_mutex_lock(&e->progress.leader) == 0;
}

static void *progress_main(void *argument)
{
    acp_engine *e = argument;
    bool interrupted;
    while (!atomic_load(&e->stopping) && events_await(e)) {
        if (!lead_unless_led(e))
            continue;
        atomic_store(&e->control->asleep, 0);
        uint32_t rings = e->progress.rings;
        progress_poll(e); /* messages in the inbox may be urgent */
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
    int error = pthread_create(&e->progress.thread, NULL, progress_main, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    e->progress.thread_runs = !error;
    errno = error;
    return e->progress.thread_runs ? ACP_OK : ACP_E_SYSTEM;
}

void progress_join(acp_engine *e)
{
    progress_kick(e);
    if (e->progress.thread_runs)
        pthread_join(e->progress.thread, NULL);
    e->progress.thread_runs = false;
    while (atomic_load(&e->progress.callers)) { /* they end because of `stopping` */
        progress_event(e);
        sched_yield();
    }
}
