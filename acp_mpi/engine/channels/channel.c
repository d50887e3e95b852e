/* Sending and receiving by a channel: slots of the ring, the turn of threads, and waits. Between processes of a node both
 * ends use the ring by load and store; else slots travel as frames (channel_notes.c). */
#include "channels/channel.h"
#include "base/linux.h"
#include "base/stream_copy.h"
#include "channels/channel_direct.h"
#include "channels/channel_notes.h"
#include "channels/channel_queue.h"
#include "core/membarrier.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"
#include "messages/recv_wait.h"
#include "operations/any_source.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/doorbell.h"
#include "progress/progress.h"
#include "progress/wait.h"
#include "transport/link.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define STREAMED 2048u /* bytes; longer ones are written past the caches */
#if defined(__SSE2__)
#define STAGED ((uint64_t)1 << 20) /* of a slot: up to here it is filled beside the ring, whose lines the reader has had */
#else
#define STAGED 0u /* stores go through the caches in any case */
#endif
#define GLANCES 60u /* with the interpreter lock */
#define LOOKS 200u  /* before a wait that costs more */
#define LOOKS_AROUND 8u /* one of so many is for all that may end the wait */
#define YIELDS 16u  /* the same where other threads want this processor */

static_assert(ACP_CHANNEL_SIZE_MOST <= CHANNEL_REST && ACP_CHANNEL_MESSAGE_MOST == CHANNEL_REST, "sizes are in stamps");

static struct channel_ring *ring_of(acp_channel *c)
{
    bool gone = atomic_load(&c->closed) || (c->shape.sends && c->peer->lost); /* its memory may be unmapped */
    return gone ? NULL : atomic_load(&c->ring);
}

struct channel_ring *channel_enter(acp_channel *c)
{
    atomic_fetch_add(&c->inside, 1);
    struct channel_ring *ring = ring_of(c);
    if (!ring)
        atomic_fetch_sub(&c->inside, 1);
    return ring;
}

void channel_leave(acp_channel *c)
{
    atomic_fetch_sub(&c->inside, 1);
}

struct channel_ring *channel_turn_enter(acp_channel *c)
{
    uint64_t turn = atomic_load_explicit(&c->turn, memory_order_relaxed);
    if (!(turn & CHANNEL_BUSY))
        atomic_store(&c->turn, turn | CHANNEL_BUSY);
    struct channel_ring *ring = ring_of(c);
    if (!ring)
        channel_turn_leave(c);
    return ring;
}

void channel_turn_leave(acp_channel *c)
{
    uint64_t turn = atomic_load_explicit(&c->turn, memory_order_relaxed);
    atomic_store_explicit(&c->turn, turn & ~CHANNEL_BUSY, memory_order_release);
}

/* Its leader and its waiting threads look at the ring. */
void channel_wake_peer(acp_channel *c)
{
    struct peer *p = c->peer;
    if (p->relation != RELATION_NODE || p->lost)
        return;
    peer_channel_changed(c->engine, p);
}

void channel_wake_here(acp_engine *e)
{
    progress_event(e);
    if (atomic_load(&e->control->asleep))
        doorbell_kick(e);
}

/* Between a store into the ring and the look whether the other end waits for it. */
static void look_there(const acp_channel *c)
{
    membarrier_look(c->engine, c->peer->lost ? NULL : c->peer->shm.control);
}

void channel_publish(acp_channel *c, struct channel_ring *ring, uint64_t number, uint64_t stamp)
{
    transaction_fault_point();
    __atomic_store_n(channel_stamp(c, ring, number), stamp, __ATOMIC_RELEASE);
    transaction_fault_point();
    if (!c->shape.sends)
        return;
    look_there(c);
    if (atomic_load(&ring->receivers_wait))
        channel_wake_peer(c);
}

void channel_connect(acp_channel *c)
{
    struct heap *h = c->peer->mail.far ? NULL : mailbox_heap(c->engine, c->peer);
    uint64_t bytes = channel_ring_bytes(c->stride, c->shape.slots), nonce = c->their_nonce, at = c->their_ring;
    if (!h) {
        atomic_store(&c->way, CHANNEL_FAR);
        return;
    }
    if (at % 64 || at <= h->first || bytes > h->span || at > h->span - bytes) {
        atomic_store(&c->mismatched, true);
        return;
    }
    struct channel_ring *ring = (void *)(h->base + at);
    transaction_fault_point();
    if (!atomic_compare_exchange_strong(&ring->word, &nonce, nonce | CHANNEL_CONNECTED)) {
        atomic_store(&c->peer_closed, true); /* its note is under way */
        return;
    }
    atomic_store(&c->ring, ring);
    atomic_store(&c->way, CHANNEL_NEAR);
}

static bool has_free_slot(acp_channel *c, const struct channel_ring *ring)
{
    uint64_t next = atomic_load(&c->next), taken = atomic_load(&c->taken);
    if (next - taken < c->shape.slots)
        return true;
    uint64_t now = ring ? atomic_load(&ring->taken) : taken;
    if (now == taken || now - taken > c->shape.slots) /* the latter: damaged */
        return false;
    transaction_fault_point();
    atomic_compare_exchange_strong(&c->taken, &taken, now); /* another thread may have seen more meanwhile */
    return next - now < c->shape.slots;
}

static bool has_message(acp_channel *c, struct channel_ring *ring)
{
    uint64_t next = atomic_load(&c->next);
    uint64_t stamp = ring ? __atomic_load_n(channel_stamp(c, ring, next), __ATOMIC_SEQ_CST) : 0;
    return stamp && !((stamp ^ channel_mark(next)) >> 40);
}

/* Inside; `ring` is NULL if there is none to look at. */
static int state_of(acp_channel *c, struct channel_ring *ring)
{
    bool over = atomic_load(&c->peer_closed); /* before the look at the ring, as the next */
    int gone = peer_gone(c->engine, c->peer);
    if (atomic_load(&c->closed) || atomic_load(&c->engine->stopping)) /* also in a forked child */
        return ACP_E_DESTROYED;
    if (atomic_load(&c->mismatched))
        return ACP_E_MISMATCH;
    if (c->shape.sends) {
        if (over)
            return ACP_E_LEFT;
        if (gone != ACP_OK)
            return gone;
        return atomic_load(&c->met) && (c->way == CHANNEL_UNKNOWN || has_free_slot(c, ring)) ? ACP_OK : ACP_E_BUSY;
    }
    if (has_message(c, ring))
        return ACP_OK;
    if (atomic_load(&c->next) - atomic_load(&c->taken) == c->shape.slots)
        return ACP_E_FULL;
    return over ? ACP_E_LEFT : gone != ACP_OK ? gone : ACP_E_BUSY;
}

int acp_channel_state(acp_channel *c)
{
    struct channel_ring *ring = channel_enter(c);
    int rc = state_of(c, ring);
    if (ring)
        channel_leave(c);
    return rc;
}

bool acp_channel_is_far(const acp_channel *c)
{
    return c->way == CHANNEL_FAR;
}

/* Messages that have been sent and not given back. */
static uint64_t out_of(acp_channel *c)
{
    uint64_t next = atomic_load(&c->next), taken = atomic_load(&c->taken);
    struct channel_ring *ring = channel_enter(c);
    if (ring) {
        uint64_t now = atomic_load(&ring->taken);
        channel_leave(c);
        transaction_fault_point();
        if (now - taken <= next - taken && atomic_compare_exchange_strong(&c->taken, &taken, now)) /* else damaged */
            taken = now;
    }
    return next > taken ? next - taken : 0; /* that under way may have come back already */
}

static int event_state(acp_channel *c, enum acp_channel_event event)
{
    bool met = atomic_load(&c->met); /* before a loss, which may follow */
    if (event == ACP_CHANNEL_EMPTY && !out_of(c) && !atomic_load(&c->closed))
        return ACP_OK;
    int rc = acp_channel_state(c);
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
    bool mine, armed, asks;
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

bool channel_turn_try(acp_channel *c, uint64_t turn)
{
    uint64_t none = 0;
    return !atomic_load(&c->queue) && atomic_compare_exchange_strong(&c->turn, &none, turn);
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

bool channel_arm(acp_channel *c, bool on)
{
    struct channel_ring *ring = channel_enter(c);
    if (!ring)
        return false;
    transaction_fault_point();
    atomic_fetch_add(c->shape.sends ? &ring->senders_wait : &ring->receivers_wait, on ? 1u : UINT32_MAX);
    channel_leave(c);
    return true;
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

/* A thread that may sleep soon asks to be woken, and looks again. */
static bool end_is_ready_or_asks(void *context)
{
    struct channel_wait *w = context;
    if (end_is_ready(w))
        return true;
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

/* Yields where the other end, or a service, may need this processor. */
static bool comes_soon(struct channel_wait *w)
{
    const acp_channel *c = w->ends[0];
    const acp_engine *e = c->engine;
    bool service = rank_table_service(e, e->self) || rank_table_service(e, c->peer->slot);
    bool crowded = e->progress.crowded || (e->progress.packed && service);
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
    if (timeout_ns == 0)
        return ACP_E_TIMEOUT;
    for (uint32_t i = 0; i < w->count; i++)
        atomic_fetch_add_explicit(&w->ends[i]->waits, 1, memory_order_relaxed);
    if (comes_soon(w))
        return ACP_OK;
    const struct awaited what = {end_is_ready_or_asks, w, watch_other_ends, NULL, w};
    w->arm_at = wait_arm_at(e);
    int rc = any_source_wait(e, &what, timeout_ns, doing);
    arm(w, false);
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

/* The look of which a wait on a node mostly consists. */
static bool stirs(acp_channel *c, struct channel_ring *ring)
{
    return ring && (c->shape.sends ? has_free_slot(c, ring) : has_message(c, ring));
}

/* With the turn, and inside. */
static bool opens_soon(acp_channel *c, int64_t timeout_ns)
{
    struct channel_ring *ring = ring_of(c);
    int rc = state_of(c, ring);
    uint32_t looks = rc != ACP_E_BUSY || timeout_ns == 0 || c->engine->progress.crowded || !looks_pay(c) ? 0
                     : timeout_ns == ACP_CHANNEL_GLANCE ? GLANCES : LOOKS;
    while (rc == ACP_E_BUSY && looks--) {
        linux_cpu_relax();
        rc = looks % LOOKS_AROUND == 0 ? state_of(c, ring) : stirs(c, ring) ? ACP_OK : ACP_E_BUSY;
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

void *acp_channel_slot(acp_channel *c)
{
    struct channel_ring *ring = atomic_load(&c->ring);
    if (c->way == CHANNEL_NEAR && (c->shape.size < STREAMED || c->shape.size > STAGED))
        return ring ? channel_stamp(c, ring, c->next) + 1 : NULL;
    if (!c->held)
        c->held = aligned_alloc(64, (c->shape.size + 63) & ~(uint64_t)63);
    return c->held;
}

/* Either this sees that the end is closed, or its close sees that the slot is reserved, and leaves its note to this. */
int acp_channel_reserve(acp_channel *c, bool begins)
{
    acp_engine *e = c->engine;
    if (begins)
        channel_turn_leave(c);
    atomic_store(&c->reserved, begins);
    if (!atomic_load(&c->closed))
        return ACP_OK;
    atomic_store(&c->reserved, false);
    if (!atomic_load(&e->stopping)) { /* nor is this a forked child */
        pthread_mutex_lock(&e->lock);
        channel_notes_close(c);
        pthread_mutex_unlock(&e->lock);
    }
    return begins ? ACP_E_DESTROYED : ACP_OK;
}

void channel_use_up(acp_channel *c, bool counts)
{
    uint64_t messages = atomic_load_explicit(&c->messages, memory_order_relaxed);
    atomic_store_explicit(&c->next, c->next + 1, memory_order_release);
    atomic_store_explicit(&c->messages, messages + counts, memory_order_relaxed);
}

int channel_commit_now(acp_channel *c, const unsigned char *data, uint64_t size, uint64_t rest, bool first, uint64_t *sent)
{
    uint64_t number = c->next, stamp = channel_mark(number) | (first ? CHANNEL_FIRST : 0) | rest;
    if (c->way == CHANNEL_FAR) {
        channel_turn_leave(c);
        int rc = channel_notes_slot(c, data, size, stamp, sent);
        if (rc != ACP_OK)
            return rc;
    } else {
        struct channel_ring *ring = channel_turn_enter(c);
        if (!ring)
            return atomic_load(&c->closed) ? ACP_E_DESTROYED : ACP_E_LOST;
        void *slot = channel_stamp(c, ring, number) + 1;
        if (size >= STREAMED && data != slot)
            stream_copy(slot, data, size);
        else if (size && data != slot)
            memcpy(slot, data, size);
        channel_publish(c, ring, number, stamp);
    }
    channel_use_up(c, first);
    channel_turn_leave(c);
    return ACP_OK;
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

int channel_take_piece(acp_channel *c, acp_piece *piece)
{
    struct channel_ring *ring = channel_turn_enter(c);
    if (!ring)
        return ACP_E_DESTROYED;
    uint64_t number = c->next, stamp = __atomic_load_n(channel_stamp(c, ring, number), __ATOMIC_ACQUIRE);
    uint64_t rest = stamp & CHANNEL_REST, most = channel_slot_bytes(&c->shape);
    *piece = (acp_piece){.data = channel_stamp(c, ring, number) + 1, .number = number, .rest = rest,
                         .size = rest < most ? rest : most, .first = stamp & CHANNEL_FIRST};
    c->held[channel_place(c, number)] = 1;
    if (piece->first)
        c->directly = rest >= CHANNEL_LONG;
    channel_use_up(c, rest <= c->shape.size);
    channel_turn_leave(c);
    return ACP_OK;
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

static void order_lock(acp_channel *c)
{
    while (atomic_exchange_explicit(&c->order, 1, memory_order_acquire))
        sched_yield();
}

static void order_unlock(acp_channel *c)
{
    atomic_store_explicit(&c->order, 0, memory_order_release);
}

/* Slots go back in order: that of a view behind an older one waits for it. The end is not closed meanwhile, for closing
 * takes the lock, nor its ring given back before `taken` says that no view is left. */
void acp_channel_release(acp_channel *c, uint64_t number)
{
    if (atomic_load(&c->engine->stopping)) /* in a forked child, too: the parent's views live */
        return;
    uint64_t credit = 0;
    bool wakes = false;
    order_lock(c);
    struct channel_ring *ring = ring_of(c);
    c->held[channel_place(c, number)] = 0;
    uint64_t taken = atomic_load(&c->taken), next = atomic_load(&c->next), before = taken;
    while (taken < next && !c->held[channel_place(c, taken)])
        taken++;
    transaction_fault_point();
    if (c->way == CHANNEL_FAR && taken - c->credited >= (c->shape.segments ? 1 : (c->shape.slots + 1) / 2))
        credit = c->credited = taken;
    if (ring && taken != before) {
        atomic_store_explicit(&ring->taken, taken, memory_order_release);
        transaction_fault_point();
        look_there(c);
        wakes = atomic_load(&ring->senders_wait);
    }
    atomic_store_explicit(&c->taken, taken, memory_order_release);
    order_unlock(c);
    if (wakes)
        channel_wake_peer(c);
    if (!credit && ring)
        return;
    acp_engine *e = c->engine;
    pthread_mutex_lock(&e->lock);
    if (credit && !c->closed)
        channel_notes_credit(c, credit);
    else
        channel_notes_reap(e); /* of a closed end: that was the last view */
    pthread_mutex_unlock(&e->lock);
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

void acp_channel_look_at(acp_channel *c, acp_channel_look *out)
{
    uint64_t next = atomic_load(&c->next), taken = atomic_load(&c->taken);
    *out = (acp_channel_look){.connected = c->met, .closed = c->closed, .messages = c->messages, .waits = c->waits};
    if (c->met)
        out->other = c->other;
    struct channel_ring *ring = channel_enter(c);
    if (!c->shape.sends)
        out->held = next - taken;
    else
        out->pending = out_of(c);
    while (ring && !c->shape.sends && out->pending < c->shape.slots &&
           !((__atomic_load_n(channel_stamp(c, ring, next + out->pending), __ATOMIC_ACQUIRE) ^
              channel_mark(next + out->pending)) >> 40))
        out->pending++;
    if (ring)
        channel_leave(c);
}

static bool others_inside(const acp_channel *c)
{
    uint64_t turn = atomic_load(&c->turn);
    return atomic_load(&c->inside) || (turn & CHANNEL_BUSY && turn != (channel_turn_of_caller() | CHANNEL_BUSY));
}

void acp_channel_close(acp_channel *c)
{
    acp_engine *e = c->engine;
    if (atomic_exchange(&c->closed, true) || acp_engine_foreign(e))
        return;
    if (!e->stopping)
        progress_wake(e); /* threads that wait at it */
    while (others_inside(c))
        sched_yield();
    order_lock(c); /* nor is a slot being given back */
    order_unlock(c);
    if (e->stopping)
        return;
    channel_queue_serve(c); /* all of it has ended */
    peer_watch(e, c->peer); /* what its death would leave here is given back */
    pthread_mutex_lock(&e->lock);
    channel_notes_close(c);
    pthread_mutex_unlock(&e->lock);
}

void acp_channel_free(acp_channel *c)
{
    acp_engine *e = c->engine;
    acp_channel_close(c);
    if (acp_engine_foreign(e))
        return; /* a child has none of the parent's threads, and frees nothing */
    pthread_mutex_lock(&e->lock);
    channel_notes_forget(c);
    pthread_mutex_unlock(&e->lock);
    acp_engine_free(e);
}
