/* An end of a channel: slots of the ring, and the turn of threads. Between processes of a node both ends use the ring by
 * load and store; else slots travel as frames (channel_notes.c). */
#include "channels/channel.h"
#include "base/stream_copy.h"
#include "channels/channel_attend.h"
#include "channels/channel_direct.h"
#include "channels/channel_notes.h"
#include "channels/channel_queue.h"
#include "core/membarrier.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"
#include "peers/peer.h"
#include "progress/doorbell.h"
#include "progress/progress.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define STREAMED 2048u /* bytes; longer ones are written past the caches */
#if defined(__SSE2__)
#define STAGED ((uint64_t)1 << 20) /* of a slot: up to here it is filled beside the ring, whose lines the reader has had */
#else
#define STAGED 0u /* stores go through the caches in any case */
#endif

static_assert(ACP_CHANNEL_SIZE_MOST <= CHANNEL_REST && ACP_CHANNEL_MESSAGE_MOST == CHANNEL_REST, "sizes are in stamps");

struct channel_ring *channel_enter(acp_channel *c)
{
    atomic_fetch_add(&c->inside, 1);
    struct channel_ring *ring = channel_ring_of(c);
    if (!ring)
        atomic_fetch_sub(&c->inside, 1);
    return ring;
}

void channel_leave(acp_channel *c)
{
    atomic_fetch_sub(&c->inside, 1);
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
    struct heap *h = c->far ? NULL : mailbox_heap(c->engine, c->peer);
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
int channel_state_of(acp_channel *c, struct channel_ring *ring)
{
    bool over = atomic_load(&c->peer_closed); /* before the look at the ring, as the next */
    int gone = peer_gone(c->engine, c->peer);
    if (atomic_load(&c->closed) || atomic_load(&c->engine->stopping)) /* also in a forked child */
        return ACP_E_DESTROYED;
    if (atomic_load(&c->mismatched))
        return ACP_E_MISMATCH;
    if (c->shape.sends) {
        if (over || (ring && atomic_load(&ring->word) & CHANNEL_ENDED))
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

int channel_state(acp_channel *c)
{
    struct channel_ring *ring = channel_enter(c);
    int rc = channel_state_of(c, ring);
    if (ring)
        channel_leave(c);
    return rc;
}

int acp_channel_state(acp_channel *c)
{
    channel_attend_now(c->engine);
    return channel_state(c);
}

bool acp_channel_is_far(const acp_channel *c)
{
    return c->way == CHANNEL_FAR;
}

bool channel_stirs(acp_channel *c, struct channel_ring *ring)
{
    return ring && (c->shape.sends ? has_free_slot(c, ring) : has_message(c, ring));
}

/* Messages that have been sent and not given back. */
uint64_t channel_out_of(acp_channel *c)
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

void *acp_channel_slot(acp_channel *c)
{
    struct channel_ring *ring = atomic_load(&c->ring);
    if (c->way == CHANNEL_NEAR && (c->shape.size < STREAMED || c->shape.size > STAGED))
        return ring ? channel_stamp(c, ring, c->next) + 1 : NULL;
    if (!c->held)
        c->held = aligned_alloc(64, c->shape.size / 64 * 64 + 64);
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
    struct channel_ring *ring = channel_ring_of(c);
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

void acp_channel_look_at(acp_channel *c, acp_channel_look *out)
{
    channel_attend_now(c->engine);
    uint64_t next = atomic_load(&c->next), taken = atomic_load(&c->taken);
    *out = (acp_channel_look){.connected = c->met, .closed = c->closed, .messages = c->messages, .waits = c->waits};
    if (c->met)
        out->other = c->other;
    struct channel_ring *ring = channel_enter(c);
    if (!c->shape.sends)
        out->held = next - taken;
    else
        out->pending = channel_out_of(c);
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
    channel_attend_now(e);
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
