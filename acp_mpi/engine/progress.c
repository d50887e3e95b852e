/* Who drives communication: one leader at a time. A thread that waits leads while it waits;
 * else the progress thread leads, asleep until something arrives. */
#include "collective.h"
#include "request.h"
#include "visit.h"

#include <sched.h>
#include <signal.h>

#define WAIT_SLICE_NS ((int64_t)500000000) /* so that a signal before the sleep is seen */
#define LOOK_AROUND_NS ((uint64_t)20000000) /* then it also listens for deaths on the node */
#define POLLS_BLIND 1024u /* who always has something to do hears of deaths, too */
#define VAIN_MOST 5u
#define TRY_OTHER 32u
#define ANSWER_MOST_NS 200000u
#define RETRY_NS ((int64_t)1000000) /* a full ring, a dying segment, a claimed cell, a held lock */

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
           e->collectives_again;
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
    if (more)
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
        waiters_wake(e);
    }
}

/* One round without sleeping; true if anything was done. Leader only. */
static bool progress_poll(acp_engine *e)
{
    acp_lane *lane = &e->lanes[LANE_LEADER];
    bool any = false, interrupted;
    if (e->stopping)
        return false;
    if (inbox_waiting(e) || inbox_claimed(e) || e->backlogged || e->loss_news ||
        e->stalled_count || e->mail_due) {
        pthread_mutex_lock(&e->lock);
        any = inbox_drain(lane);
        backlog_push(lane);
        handle_losses(lane);
        ops_pump(lane);
        if (e->mail_due)
            any |= couriers_push(lane);
        pthread_mutex_unlock(&e->lock);
    }
    if (e->wire_count || ++e->polls % POLLS_BLIND == 0)
        any |= events_take(e, 0, &interrupted);
    if (e->held_links && now_ns() - e->held_at > COMPANY_NS)
        links_release(e); /* whoever leads may never rest */
    any |= work_step(lane);
    if (e->mail_sends)
        any |= mail_step(lane);
    if (e->mail_losses)
        mail_bury(lane);
    if (e->collective_count)
        any |= collectives_step(lane);
    window_drive(e);
    segment_retirees_step(e);
    return any;
}

/* Sleeps until something arrives; true if something did. Leader only. */
static bool lead_asleep(acp_engine *e, int64_t timeout_ns, bool *interrupted)
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
    return any;
}

void node_watch(acp_engine *e)
{
    uint32_t count;
    const uint32_t *mates = table_mates(e, &count);
    for (uint32_t i = 0; i < count; i++)
        peer_watch(e, peer_of_slot(e, mates[i]));
}

/* Looking awaits what comes soon. If messages do not, for the others need the processors, it is
 * shorter: on the links of messages each look is a system call. */
static uint64_t worth(const acp_engine *e, uint64_t time_ns)
{
    return time_ns >> atomic_load_explicit(&e->vain, memory_order_relaxed);
}

static void learn(acp_engine *e, acp_doing doing, uint64_t waited_ns)
{
    uint32_t vain = atomic_load_explicit(&e->vain, memory_order_relaxed);
    bool messages = doing == ACP_DOING_RECEIVE || doing == ACP_DOING_SEND ||
                    doing == ACP_DOING_COLLECTIVE;
    if (!messages || !e->wire_count)
        return;
    if (waited_ns < 2 * SPIN_NS)
        vain = 0;
    else if (vain < VAIN_MOST)
        vain++;
    atomic_store_explicit(&e->vain, vain, memory_order_relaxed);
}

/* An owner that is woken on a halted processor answers within a look. One that is woken where its
 * caller looks, for all others have other work, answers when the caller sleeps: yielding does not
 * let it in (Linux 6.18, which protects a slice). Which it is, time tells; now and then the other is
 * tried. */
static bool glance(acp_engine *e)
{
    uint32_t turn = atomic_fetch_add_explicit(&e->answers, 1, memory_order_relaxed);
    bool better = e->answer_ns[true] < e->answer_ns[false];
    return better != (turn % TRY_OTHER == TRY_OTHER - 1);
}

static void learn_answer(acp_engine *e, bool glanced, uint64_t waited_ns)
{
    _Atomic uint32_t *took = &e->answer_ns[glanced];
    if (waited_ns <= GLANCE_NS || waited_ns > ANSWER_MOST_NS)
        return; /* it was awake; or something else was the reason */
    uint32_t before = atomic_load_explicit(took, memory_order_relaxed);
    atomic_store_explicit(took, before - before / 8 + (uint32_t)waited_ns / 8, memory_order_relaxed);
}

/* Between two looks of one who was just served, and who often has more to say.
 *
 * On one node yielding keeps the thread's claim to be run at once when it is rung for (5 us instead
 * of 46). For a host with a single core to itself it would be a tick of 4 ms. */
static void linger(const acp_engine *e, uint32_t *looks)
{
    cpu_relax();
    if (++*looks % 16 == 0 && !e->wire_count)
        sched_yield();
}

/* A handler may use the engine, and even close it: it counts as outside. */
static bool tick_outside(acp_engine *e, int reason)
{
    atomic_fetch_sub(&e->callers, 1);
    bool end = tick(e, reason);
    atomic_fetch_add(&e->callers, 1);
    return end;
}

static int wait_inside(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
                       acp_doing doing)
{
    uint64_t start = now_ns();
    int64_t left = timeout_ns;
    int rc = ACP_OK;
    bool lead = leader_try(e), interrupted = false;
    bool answer = doing == ACP_DOING_COMPLETE, glanced = answer && glance(e);
    uint64_t moving = atomic_load(&e->bytes_away) / 8; /* 8 bytes a nanosecond */
    uint64_t patience = (answer ? ANSWER_NS : SPIN_NS) + moving;
    if (patience > SPIN_MOST_NS)
        patience = SPIN_MOST_NS;
    patience = glanced ? GLANCE_NS : worth(e, patience);
    atomic_fetch_add(&e->suitors, 1);
    if (atomic_load_explicit(&e->held_links, memory_order_relaxed) ||
        atomic_load_explicit(&e->asked_later, memory_order_relaxed))
        links_ask(e);
    for (uint32_t spin = 0; !ready(context) && !e->stopping; spin++) {
        if (lead || (lead = leader_try(e)))
            progress_poll(e);
        else
            cpu_relax();
        if ((spin & 15) == 15)
            sched_yield();
        if (((spin & 7) == 7 || patience < SPIN_NS) && now_ns() - start > patience)
            break;
    }
    atomic_fetch_sub(&e->suitors, 1);
    uint32_t was = atomic_exchange(&e->control->doing, doing);
    bool told = false, watching = false;
    uint64_t asked = start, served = 0;
    uint32_t looks = 0, rings;
    while (!ready(context)) {
        if (e->config.tick && now_ns() - asked > (uint64_t)WAIT_SLICE_NS) {
            interrupted = true; /* a signal may have come while this thread was busy */
            asked = now_ns();
        }
        if (!watching && now_ns() - start > LOOK_AROUND_NS) {
            watching = true;
            node_watch(e);
            links_watch(e);
        }
        bool is_long = !told && now_ns() - start > LONG_WAIT_NS;
        if (interrupted || is_long) {
            if (lead)
                leader_release(e);
            lead = false;
            told |= is_long;
            if ((interrupted && tick_outside(e, ACP_TICK_SIGNAL)) ||
                (is_long && tick_outside(e, ACP_TICK_LONG))) {
                rc = ACP_E_INTERRUPTED;
                break;
            }
            interrupted = false;
        }
        if (atomic_load(&e->stopping)) {
            rc = ACP_E_CLOSED;
            break;
        }
        if (timeout_ns != ACP_FOREVER && (left = timeout_ns - (int64_t)(now_ns() - start)) <= 0) {
            rc = ACP_E_TIMEOUT;
            break;
        }
        int64_t most = watching ? WAIT_SLICE_NS : (int64_t)LOOK_AROUND_NS;
        if (doing == ACP_DOING_WAIT_UNTIL && atomic_load(&e->window_words))
            most = RETRY_NS; /* nobody rings for what a window writes */
        int64_t slice = left < most ? left : most;
        if (lead || (lead = leader_try(e))) {
            events_arm(e, false);
            bool look_on = now_ns() - served < worth(e, LOOK_ON_NS);
            rings = e->rings;
            if (progress_poll(e) ||
                (!look_on && !ready(context) && lead_asleep(e, slice, &interrupted)))
                served = e->rings == rings ? now_ns() : 0;
            else if (look_on)
                linger(e, &looks);
        } else {
            interrupted |= !doze(e, ready, context, slice);
        }
    }
    atomic_store(&e->control->doing, was);
    if (lead)
        leader_release(e);
    uint64_t waited = now_ns() - start;
    learn(e, doing, waited);
    if (answer)
        learn_answer(e, glanced, waited > moving ? waited - moving : 0);
    return rc;
}

/* Whoever led when it was closed leads no more, and nobody else does anything as the leader: what the
 * caller waited for is not written to its memory afterwards. */
static void await_leader(acp_engine *e)
{
    pthread_mutex_lock(&e->leader);
    pthread_mutex_unlock(&e->leader);
}

int progress_wait(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
                  acp_doing doing)
{
    atomic_fetch_add(&e->callers, 1);
    int rc = atomic_load(&e->stopping) ? ACP_E_CLOSED
                                       : wait_inside(e, ready, context, timeout_ns, doing);
    if (rc == ACP_E_CLOSED)
        await_leader(e);
    atomic_fetch_sub(&e->callers, 1);
    return rc;
}

bool progress_doze(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns)
{
    uint64_t end = now_ns() + (uint64_t)timeout_ns;
    bool there = false;
    atomic_fetch_add(&e->callers, 1);
    for (int64_t left = timeout_ns; left > 0 && !atomic_load(&e->stopping);
         left = (int64_t)(end - now_ns()))
        if ((there = ready(context)) || !doze(e, ready, context, left))
            break;
    atomic_fetch_sub(&e->callers, 1);
    return there;
}

/* Waking up once more would cost as much. Whoever had to be rung for has nothing more to say before
 * that, and may need this processor to wake up. */
static void look_on(acp_engine *e, uint32_t rings)
{
    uint64_t until = now_ns() + worth(e, LOOK_ON_NS);
    uint32_t looks = 0;
    while ((now_ns() < until || e->held_links) && !e->suitors && !e->stopping && e->rings == rings) {
        if ((inbox_waiting(e) || e->wire_count || e->barred_count) && progress_poll(e))
            until = now_ns() + worth(e, LOOK_ON_NS);
        linger(e, &looks);
    }
}

/* A caller may have begun to lead meanwhile. If it has taken the events off this thread it gives them
 * back with the lead: to wait for that would be one switch more. */
static bool lead_unless_led(acp_engine *e)
{
    return pthread_mutex_trylock(&e->leader) == 0 ||
           (atomic_load(&e->armed) && pthread_mutex_lock(&e->leader) == 0);
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
    e->thread_runs = pthread_create(&e->thread, NULL, progress_main, e) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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
