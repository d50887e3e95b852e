/* Calls that wait: for the turn, for a slot or a message, for room on a link. */
#include "base/linux.h"
#include "channels/channel.h"
#include "channels/channel_attend.h"
#include "channels/channel_notes.h"
#include "channels/channel_queue.h"
#include "core/membarrier.h"
#include "core/state/peer.h"
#include "messages/recv_wait.h"
#include "operations/any_source.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/wait.h"
#include "transport/link.h"

#include <sched.h>

#define GLANCES 60u /* with the interpreter lock */
#define LOOKS 200u  /* before a wait that costs more */
#define LOOKS_AROUND 8u /* one of so many is for all that may end the wait */
#define YIELDS 16u  /* the same where other threads want this processor */
#define SOON_NS ((uint64_t)40000) /* a wait of which no more is a look's */

static int event_state(acp_channel *c, enum acp_channel_event event)
{
    bool met = atomic_load(&c->met); /* before a loss, which may follow */
    if (event == ACP_CHANNEL_EMPTY && !channel_out_of(c) && !atomic_load(&c->closed))
        return ACP_OK;
    int rc = channel_state(c);
    if (event == ACP_CHANNEL_MET && met && rc != ACP_E_DESTROYED && rc != ACP_E_MISMATCH)
        return ACP_OK;
    return event != ACP_CHANNEL_READY && rc == ACP_OK ? ACP_E_BUSY : rc;
}

struct channel_wait {
    acp_channel *const *ends;
    uint32_t count, which;
    enum acp_channel_event event;
    uint64_t thread; /* takes the turn, too; 0: does not want it */
    acp_request *also; /* ends the wait, too; NULL: none */
    uint64_t arm_at;
    bool mine, armed, asks, attends;
    int rc;
};

static bool look_at_ends(struct channel_wait *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t at = (w->which + i) % w->count;
        w->rc = event_state(w->ends[at], w->event);
        if (w->rc != ACP_E_BUSY) {
            w->which = at;
            return true;
        }
    }
    w->which = w->also ? w->count : w->which;
    return w->also && recv_wait_done(w->also);
}

static bool end_is_ready(void *context)
{
    struct channel_wait *w = context;
    if (w->thread && !w->mine) {
        w->mine = channel_turn_try(w->ends[0], w->thread);
        w->rc = atomic_load(&w->ends[0]->closed) ? ACP_E_DESTROYED : ACP_E_BUSY;
        if (!w->mine)
            return w->rc != ACP_E_BUSY;
    }
    return look_at_ends(w);
}

/* A receiver has its ring from the begin; a sender that has none yet waits for a note, and does not count among those
 * that the ring wakes when it gets one meanwhile. */
static void arm(struct channel_wait *w, bool on)
{
    bool near = w->thread && !w->mine; /* a store may end the wait: a frame comes by this process's leader */
    for (uint32_t i = 0; i < w->count && (on || w->armed); i++) {
        near |= w->ends[i]->way != CHANNEL_FAR;
        w->armed |= channel_arm(w->ends[i], on);
    }
    if (on && near)
        membarrier_wait(w->ends[0]->engine);
}

static void attend(struct channel_wait *w, bool on)
{
    if (w->attends != on)
        (on ? channel_attend_begin : channel_attend_end)(w->ends[0]->engine);
    w->attends = on;
}

/* A thread that may sleep soon asks to be woken, and looks again. */
static bool end_is_ready_or_asks(void *context)
{
    struct channel_wait *w = context;
    acp_engine *e = w->ends[0]->engine;
    if (end_is_ready(w)) {
        channel_notes_hear(e); /* else it is left for the progress thread */
        attend(w, false);      /* likewise notes */
        return true;
    }
    attend(w, true);
    if (w->asks || linux_now_ns() < w->arm_at)
        return false;
    w->asks = true;
    arm(w, true);
    return end_is_ready(w);
}

static void watch_other_ends(acp_engine *e, const void *whom)
{
    const struct channel_wait *w = whom;
    for (uint32_t i = 0; i < w->count; i++) {
        peer_watch(e, w->ends[i]->peer);
        link_watch(e, w->ends[i]->peer, FLOW_COLOR);
    }
    if (w->also)
        recv_wait_watch(e, w->also);
}

/* A store of the other end may end the wait: else a note may need this thread as leader. */
static bool looks_pay(const acp_channel *c)
{
    return c->met && c->way != CHANNEL_FAR && !peers_apart(c->engine);
}

/* The other end has last waited on the processor of this thread: it goes on when that is free. The system leaves two
 * threads there that have slept in turns. */
static bool shares_processor(const acp_channel *c, struct channel_ring *ring)
{
    uint32_t here = (uint32_t)sched_getcpu() + 1;
    _Atomic uint32_t *mine = &ring->processors[c->shape.sends];
    if (atomic_load_explicit(mine, memory_order_relaxed) != here)
        atomic_store_explicit(mine, here, memory_order_relaxed);
    return here && atomic_load_explicit(&ring->processors[!c->shape.sends], memory_order_relaxed) == here;
}

/* May one end be a service that needs the processor on which the other looks? */
static bool serves(const acp_channel *c)
{
    const acp_engine *e = c->engine;
    return e->progress.packed && (rank_table_service(e, e->self) || rank_table_service(e, c->peer->slot));
}

/* A look may keep the processor from the other end, to which a yield does not give it: unless the last wait was short. */
static bool only_sleep_helps(const acp_channel *c)
{
    return c->apart && serves(c) && !atomic_load_explicit(&c->soon, memory_order_relaxed);
}

/* Yields where the other end may need this processor. */
static bool comes_soon(struct channel_wait *w)
{
    acp_channel *c = w->ends[0];
    struct channel_ring *ring = looks_pay(c) ? channel_enter(c) : NULL;
    bool crowded = c->engine->progress.crowded || serves(c) || (ring && shares_processor(c, ring));
    if (ring)
        channel_leave(c);
    for (uint32_t i = crowded ? YIELDS : LOOKS; i && looks_pay(c); i--) {
        if (crowded)
            sched_yield();
        else
            linux_cpu_relax();
        if (end_is_ready(w))
            return true;
    }
    return false;
}

static int ends_await(struct channel_wait *w, int64_t timeout_ns, acp_doing doing)
{
    acp_engine *e = w->ends[0]->engine;
    if (end_is_ready(w))
        return ACP_OK;
    if (timeout_ns == 0) {
        channel_attend_now(e);
        return end_is_ready(w) ? ACP_OK : ACP_E_TIMEOUT;
    }
    for (uint32_t i = 0; i < w->count; i++)
        atomic_fetch_add_explicit(&w->ends[i]->waits, 1, memory_order_relaxed);
    if (comes_soon(w))
        return ACP_OK;
    const struct awaited what = {end_is_ready_or_asks, w, watch_other_ends, NULL, w, only_sleep_helps(w->ends[0])};
    uint64_t begin = linux_now_ns();
    w->arm_at = what.at_once ? 0 : wait_arm_at(e);
    int rc = any_source_wait(e, &what, timeout_ns, doing);
    attend(w, false);
    arm(w, false);
    atomic_store_explicit(&w->ends[0]->soon, linux_now_ns() - begin < SOON_NS, memory_order_relaxed);
    return rc;
}

void acp_channel_give_turn(acp_channel *c)
{
    atomic_store_explicit(&c->turn, 0, memory_order_release);
    membarrier_look(c->engine, c->engine->control);
    if (atomic_load(&c->turn_waiters))
        channel_wake_here(c->engine);
    if (atomic_load(&c->queue))
        channel_queue_serve(c);
}

/* With the turn, and inside. */
static bool opens_soon(acp_channel *c, int64_t timeout_ns)
{
    struct channel_ring *ring = channel_ring_of(c);
    int rc = channel_state_of(c, ring);
    uint32_t most = rc != ACP_E_BUSY || timeout_ns == 0 || c->engine->progress.crowded || !looks_pay(c) ? 0
                    : timeout_ns == ACP_CHANNEL_GLANCE ? GLANCES : LOOKS;
    uint32_t looks = most;
    while (rc == ACP_E_BUSY && looks--) {
        linux_cpu_relax();
        rc = looks % LOOKS_AROUND == 0 ? channel_state_of(c, ring) : channel_stirs(c, ring) ? ACP_OK : ACP_E_BUSY;
        if (looks == most - LOOKS_AROUND && ring && shares_processor(c, ring))
            break;
    }
    return rc == ACP_OK && (!c->shape.sends || c->way != CHANNEL_UNKNOWN);
}

int acp_channel_open(acp_channel *c, int64_t timeout_ns)
{
    acp_doing doing = c->shape.sends ? ACP_DOING_SEND : ACP_DOING_RECEIVE;
    struct channel_wait w = {.ends = &c, .count = 1, .thread = channel_turn_of_caller(), .rc = ACP_E_BUSY};
    int rc;
    if ((atomic_load(&c->turn) & ~CHANNEL_BUSY) == w.thread)
        return ACP_E_HANDLE;
    w.mine = channel_turn_try(c, w.thread | CHANNEL_BUSY);
    if (w.mine && opens_soon(c, timeout_ns))
        return ACP_OK;
    if (w.mine)
        channel_turn_leave(c);
    int64_t patience = timeout_ns == ACP_CHANNEL_GLANCE ? 0 : timeout_ns;
    uint64_t start = linux_now_ns();
    atomic_fetch_add(&c->turn_waiters, 1);
    for (;;) {
        rc = ends_await(&w, patience ? wait_left(patience, start) : 0, doing);
        rc = rc == ACP_OK ? w.rc : rc;
        if (rc != ACP_OK || !c->shape.sends || c->way != CHANNEL_UNKNOWN)
            break;
        channel_connect(c);
    }
    atomic_fetch_sub(&c->turn_waiters, 1);
    if (rc != ACP_OK && w.mine)
        acp_channel_give_turn(c);
    return rc;
}

int acp_channel_commit(acp_channel *c, const void *data, uint64_t size, uint64_t rest, bool first, int64_t timeout_ns)
{
    uint64_t sent = 0, start = timeout_ns == ACP_FOREVER || timeout_ns == 0 || c->way != CHANNEL_FAR ? 0 : linux_now_ns();
    int rc;
    if (atomic_load(&c->engine->stopping)) /* a child that was forked inside a reservation */
        return ACP_E_DESTROYED;
    while ((rc = channel_commit_now(c, data, size, rest, first, &sent)) == ACP_E_BUSY) {
        int64_t left = start ? wait_left(timeout_ns, start) : timeout_ns;
        if ((rc = wait_ready(c->engine, channel_notes_room, c, left, ACP_DOING_SEND)) != ACP_OK)
            return rc; /* the next message takes this slot */
    }
    return rc;
}

int acp_channel_send_short(acp_channel *c, const void *data, uint64_t size)
{
    uint64_t sent = 0;
    int rc = acp_channel_open(c, ACP_CHANNEL_GLANCE);
    if (rc != ACP_OK)
        return rc;
    rc = channel_commit_now(c, data, size, size, true, &sent);
    acp_channel_give_turn(c);
    return rc;
}

int acp_channel_take(acp_channel *c, int64_t timeout_ns, acp_piece *piece)
{
    int rc = acp_channel_open(c, timeout_ns);
    if (rc == ACP_OK && (rc = channel_take_piece(c, piece)) != ACP_OK)
        acp_channel_give_turn(c);
    return rc;
}

int acp_channel_take_next(acp_channel *c, int64_t timeout_ns, acp_piece *piece)
{
    int rc = acp_channel_await(c, ACP_CHANNEL_READY, timeout_ns);
    return rc == ACP_OK ? channel_take_piece(c, piece) : rc;
}

int acp_channel_await(acp_channel *c, enum acp_channel_event event, int64_t timeout_ns)
{
    struct channel_wait w = {.ends = &c, .count = 1, .event = event};
    int rc = ends_await(&w, timeout_ns, c->shape.sends ? ACP_DOING_SEND : ACP_DOING_RECEIVE);
    return rc == ACP_OK ? w.rc : rc;
}

int acp_channel_select(acp_channel *const *ends, uint32_t count, uint32_t from, acp_request *also, int64_t timeout_ns,
                       uint32_t *which)
{
    struct channel_wait w = {.ends = ends, .count = count, .which = from % count, .also = also};
    if (also)
        recv_wait_attend(also);
    int rc = ends_await(&w, timeout_ns, ACP_DOING_RECEIVE);
    *which = w.which;
    return rc;
}
