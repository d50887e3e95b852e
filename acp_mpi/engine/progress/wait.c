/* Waits of callers: a caller polls for a while, for most events come soon, and then sleeps. It leads while no other
 * thread does. */
#include "progress/wait.h"
#include "base/linux.h"
#include "core/upcalls.h"
#include "progress/doorbell.h"
#include "progress/progress.h"
#include "progress/reactor.h"

#include <sched.h>

#define ANSWER_NS 150000u    /* a look for an owner's answer: the owner may have to be woken first */
#define GLANCE_NS 8000u      /* a short one, where the owner gets a processor only then: an awake owner answers */
#define SPIN_MOST_NS 250000u /* a long one, for the bytes under way */
#define SURPRISE_NS 50000u   /* an answer counts as no later than twice the mean and that */
#define COST_OF_MOVING 4096u /* of a wait no longer than the estimate for the bytes that move */
#define TRY_OTHER 32u
#define MORE_NS 25000u /* so long after the last message of a stream its sender is asked for those that it holds back */
#define VAIN_MOST 5u
#define ONE_THREAD 0x100u
#define WAIT_SLICE_NS ((int64_t)500000000) /* so that a signal before the sleep is seen */
#define LOOK_AROUND_NS ((uint64_t)20000000) /* after that a wait also registers for deaths on the node */

struct wait {
    acp_engine *engine;
    bool (*ready)(void *);
    void *context;
    int64_t timeout_ns;
    acp_doing doing;
    uint64_t start;
    uint64_t asked;  /* for signals */
    uint64_t served; /* the last time a peer, or the caller itself, was served */
    uint32_t looks;
    uint64_t doubted; /* the last time it asked about commands, or began to watch */
    bool at_once, lead, interrupted, told, watching;
};

acp_doing wait_begin(acp_engine *e, acp_doing doing)
{
    uint32_t word = atomic_load_explicit(&e->control->doing, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&e->control->doing, &word,
                                         ((word & ~0xffu) + ONE_THREAD) | doing))
        ;
    return (acp_doing)(word & 0xff);
}

void wait_end(acp_engine *e, acp_doing doing, acp_doing was)
{
    uint32_t word = atomic_load_explicit(&e->control->doing, memory_order_relaxed), then;
    do {
        uint32_t others = (word & ~0xffu) - ONE_THREAD;
        bool mine = (word & 0xff) == doing;
        then = !others ? ACP_DOING_COMPUTE : others | (mine ? was : word & 0xff);
    } while (!atomic_compare_exchange_weak(&e->control->doing, &word, then));
}

/* Polling pays for messages that come soon. If they do not, for other processes need the processors, it is shorter:
 * on the links of messages each poll is a system call. */
static uint64_t shortened(const acp_engine *e, uint64_t time_ns)
{
    return time_ns >> atomic_load_explicit(&e->progress.vain, memory_order_relaxed);
}

uint64_t wait_arm_at(const acp_engine *e)
{
    return linux_now_ns() + shortened(e, SPIN_NS) / 2;
}

uint64_t wait_look_on_ns(const acp_engine *e)
{
    if (e->tcp.long_input && !e->tcp.brief_turns) /* its sender wakes this process with much at a time */
        return 0;
    return e->progress.crowded ? shortened(e, LOOK_ON_NS) : LOOK_ON_NS;
}

static void learn(acp_engine *e, acp_doing doing, uint64_t waited_ns)
{
    uint32_t vain = atomic_load_explicit(&e->progress.vain, memory_order_relaxed);
    bool messages = doing == ACP_DOING_RECEIVE || doing == ACP_DOING_SEND ||
                    doing == ACP_DOING_COLLECTIVE;
    if (!messages || !e->tcp.wire_count)
        return;
    if (waited_ns < 2 * SPIN_NS)
        vain = 0;
    else if (vain < VAIN_MOST)
        vain++;
    atomic_store_explicit(&e->progress.vain, vain, memory_order_relaxed);
}

/* Decides between a long and a short look for an answer. An owner that is woken on a halted processor answers within a
 * long look. One that is woken on the caller's processor, for all others have other work, answers when the caller
 * sleeps: yielding does not let it in (Linux 6.18, which protects a slice). Measured times decide; now and then the
 * other look is tried. Where bytes move meanwhile both take longer, and are compared apart. */
static bool glance(acp_engine *e, bool moves)
{
    struct experience *a = &e->progress.answers[moves];
    uint32_t turn = atomic_fetch_add_explicit(&a->count, 1, memory_order_relaxed);
    bool better = a->cost[true] < a->cost[false];
    return better != (turn % TRY_OTHER == TRY_OTHER - 1);
}

static void learn_answer(acp_engine *e, bool glanced, uint64_t waited_ns, uint64_t moving_ns)
{
    bool moves = moving_ns > GLANCE_NS;
    if (waited_ns <= GLANCE_NS)
        return; /* the owner was awake */
    _Atomic uint32_t *mean = &e->progress.answers[moves].cost[glanced];
    uint32_t before = atomic_load_explicit(mean, memory_order_relaxed);
    uint64_t cost = moves ? waited_ns * COST_OF_MOVING / moving_ns : waited_ns;
    uint64_t most = 2ull * before + SURPRISE_NS; /* one late answer says little of the next */
    cost = cost < most ? cost : most;
    atomic_store_explicit(mean, before - before / 8 + (uint32_t)cost / 8, memory_order_relaxed);
}

void wait_pause(const acp_engine *e, uint32_t *looks)
{
    linux_cpu_relax();
    if (++*looks % 16 == 0 && !e->tcp.wire_count)
        sched_yield();
}

/* `moving`: time for the bytes under way. */
static uint64_t patience(const acp_engine *e, bool answer, bool glanced, uint64_t moving)
{
    uint64_t look = moving + (answer ? ANSWER_NS : shortened(e, SPIN_NS));
    if (glanced)
        return GLANCE_NS;
    return look < SPIN_MOST_NS ? look : SPIN_MOST_NS;
}

static void spin_until(struct wait *w, uint64_t patience_ns)
{
    acp_engine *e = w->engine;
    atomic_fetch_add(&e->progress.suitors, 1);
    if (atomic_load_explicit(&e->tcp.held_links, memory_order_relaxed) ||
        atomic_load_explicit(&e->tcp.asked_later, memory_order_relaxed))
        e->up->ask(e);
    for (uint32_t spin = 0; !w->ready(w->context) && !e->stopping; spin++) {
        if (w->lead || (w->lead = progress_leader_try(e)))
            progress_poll(e);
        else
            linux_cpu_relax();
        if ((spin & 15) == 15)
            sched_yield();
        if ((spin & 7) == 7 && e->tcp.more_follows && linux_now_ns() - w->start > MORE_NS)
            e->up->ask_more(e);
        if (((spin & 7) == 7 || patience_ns < SPIN_NS) && linux_now_ns() - w->start > patience_ns)
            break;
    }
    atomic_fetch_sub(&e->progress.suitors, 1);
}

/* A handler may use the engine, and even close it: it counts as outside. */
static bool tick_outside(acp_engine *e, int reason)
{
    wait_caller_leave(e);
    bool end = wait_tick(e, reason);
    wait_caller_enter(e);
    return end;
}

/* True: a signal handler, or the tick of a long wait, ends it. */
static bool disturbed(struct wait *w)
{
    acp_engine *e = w->engine;
    if (e->config.tick && linux_now_ns() - w->asked > (uint64_t)WAIT_SLICE_NS) {
        w->interrupted = true; /* a signal may have come while this thread was busy */
        w->asked = linux_now_ns();
    }
    bool is_long = !w->told && linux_now_ns() - w->start > LONG_WAIT_NS;
    if (!w->interrupted && !is_long)
        return false;
    if (w->lead)
        progress_leader_release(e);
    w->lead = false;
    w->told |= is_long;
    bool end = (w->interrupted && tick_outside(e, ACP_TICK_SIGNAL)) ||
               (is_long && tick_outside(e, ACP_TICK_LONG));
    w->interrupted = false;
    return end;
}

/* Until an event, or for a slice of time. */
static void rest(struct wait *w, int64_t left)
{
    acp_engine *e = w->engine;
    int64_t slice = w->watching ? WAIT_SLICE_NS : (int64_t)LOOK_AROUND_NS, doubt = (int64_t)wait_doubt_ns(e);
    slice = doubt < slice ? doubt : slice;
    if (w->doing == ACP_DOING_WAIT_UNTIL && atomic_load(&e->progress.unrung_words))
        slice = RETRY_NS; /* a window's writes do not ring */
    slice = left < slice ? left : slice;
    if (!w->lead && !(w->lead = progress_leader_try(e))) {
        w->interrupted |= !doorbell_doze(e, w->ready, w->context, slice);
        return;
    }
    reactor_arm(e, false);
    bool look_on = linux_now_ns() - w->served < wait_look_on_ns(e);
    uint32_t rings = e->progress.rings;
    if (progress_poll(e) ||
        (!look_on && !w->ready(w->context) && progress_sleep(e, slice, &w->interrupted)))
        w->served = e->progress.rings == rings ? linux_now_ns() : 0;
    else if (look_on)
        wait_pause(e, &w->looks);
}

/* Does the wait depend on a link that waits for a descriptor? After so long a time that is an error of this
 * process. */
static bool is_short(const struct wait *w)
{
    acp_engine *e = w->engine;
    uint64_t since = atomic_load_explicit(&e->tcp.short_since, memory_order_relaxed);
    uint64_t now = since ? linux_now_ns() : 0, timeout = e->config.peer_timeout_ns;
    return since && now - w->start > timeout && now - since > timeout && e->up->short_lasts(e);
}

static int sleep_until_ready(struct wait *w)
{
    acp_engine *e = w->engine;
    while (!w->ready(w->context)) {
        if (!w->watching && linux_now_ns() - w->start > LOOK_AROUND_NS) {
            w->watching = true;
            w->doubted = linux_now_ns();
            e->up->watch(e);
        } else if (w->watching && linux_now_ns() - w->doubted > wait_doubt_ns(e)) {
            w->doubted = linux_now_ns();
            e->up->doubt(e);
        }
        if (disturbed(w))
            return ACP_E_INTERRUPTED;
        if (atomic_load(&e->stopping))
            return ACP_E_CLOSED;
        int64_t left = w->timeout_ns;
        if (left != ACP_FOREVER && (left -= (int64_t)(linux_now_ns() - w->start)) <= 0)
            return ACP_E_TIMEOUT;
        if (is_short(w))
            return ACP_E_SHORT;
        rest(w, left);
    }
    return ACP_OK;
}

static int wait_inside(struct wait *w)
{
    acp_engine *e = w->engine;
    uint64_t moving = atomic_load(&e->ops.bytes_away) / 8; /* 8 bytes a nanosecond */
    bool answer = w->doing == ACP_DOING_COMPLETE;
    bool glanced = answer && glance(e, moving > GLANCE_NS);
    w->start = w->asked = linux_now_ns();
    w->lead = progress_leader_try(e);
    spin_until(w, w->at_once ? 0 : patience(e, answer, glanced, moving));
    acp_doing was = wait_begin(e, w->doing);
    int rc = sleep_until_ready(w);
    wait_end(e, w->doing, was);
    if (w->lead)
        progress_leader_release(e);
    uint64_t waited = linux_now_ns() - w->start;
    learn(e, w->doing, waited);
    if (answer)
        learn_answer(e, glanced, waited, moving);
    return rc;
}

/* Returns when the leader of the closing time has ended. After that no other thread acts as the leader: the awaited
 * bytes are not written to the caller's memory any more. */
static void await_leader(acp_engine *e)
{
    pthread_mutex_lock(&e->progress.leader);
    pthread_mutex_unlock(&e->progress.leader);
}

static int wait_for(struct wait *w)
{
    acp_engine *e = w->engine;
    wait_caller_enter(e);
    int rc = atomic_load(&e->stopping) ? ACP_E_CLOSED : wait_inside(w);
    if (rc == ACP_E_CLOSED)
        await_leader(e);
    wait_caller_leave(e);
    return rc;
}

int wait_ready(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
               acp_doing doing)
{
    struct wait w = {.engine = e, .ready = ready, .context = context, .timeout_ns = timeout_ns,
                     .doing = doing};
    return wait_for(&w);
}

int wait_asleep(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
                acp_doing doing)
{
    struct wait w = {.engine = e, .ready = ready, .context = context, .timeout_ns = timeout_ns,
                     .doing = doing, .at_once = true};
    return wait_for(&w);
}

bool wait_doze(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns)
{
    uint64_t end = linux_now_ns() + (uint64_t)timeout_ns;
    bool there = false;
    wait_caller_enter(e);
    for (int64_t left = timeout_ns; left > 0 && !atomic_load(&e->stopping);
         left = (int64_t)(end - linux_now_ns()))
        if ((there = ready(context)) || !doorbell_doze(e, ready, context, left))
            break;
    wait_caller_leave(e);
    return there;
}
