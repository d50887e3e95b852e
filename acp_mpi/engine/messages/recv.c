/* Receives: posted, or served by a message that is there already. */
#include "messages/recv.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/credits.h"
#include "messages/pair_ring_deliver.h"
#include "messages/flow_solicit.h"
#include "messages/mail_match.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/request.h"
#include "messages/shared_copy.h"
#include "operations/any_source.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "progress/doorbell.h"

#include <string.h>

static void offer(acp_engine *e, acp_request *r, struct mail_entry *l)
{
    uint64_t global = r->room > MAIL_INLINE && r->buffer ? acp_query_ga(e, r->buffer, r->room) : 0;
    l->buffer = (uint64_t)(uintptr_t)r->buffer;
    l->global = global;
    l->room = mailbox_room_sealed(r->room, (uint64_t)(uintptr_t)r->buffer, global);
}

static void post(struct hold *hold, acp_request *r, const acp_envelope *want, struct mail_entry *l)
{
    l->context = want->context;
    l->want_source = (uint64_t)want->source;
    l->want_tag = (uint64_t)want->tag;
    l->want_note = want->note;
    l->held = mailbox_want_sealed(l);
    l->place = PLACE_NONE;
    mailbox_set_attention(l, ATTENTION_NONE);
    offer(hold->lane->engine, r, l);
    r->damages = hold->lane->engine->mail.damages;
    transaction_set(hold, &l->state, ENTRY_POSTED);
    mailbox_link(hold, l, want->source == ACP_ANY || want->tag == ACP_ANY ? AMONG_WILD
                                                                          : AMONG_RECEIVES);
}

/* In the section of the own mailbox: a message that is there, or the receive is posted. */
static int match(struct hold *hold, acp_request *r, const acp_envelope *want)
{
    struct mail_entry *l = match_find(hold->heap, want);
    int rc = ACP_OK;
    transaction_begin(hold);
    if (l && unlikely(!acp_note_fits(want->note, l->note))) {
        acp_envelope stays;
        mail_match_envelope(l, &stays);
        if ((rc = mailbox_entry_get(hold, &l)) != ACP_OK) {
            transaction_cancel(hold);
            return rc;
        }
        l->context = want->context;
        l->list = AMONG_NONE;
        mailbox_set_attention(l, ATTENTION_NONE);
        match_refused(hold, l, &stays);
    } else if (l) {
        match_remove(hold, l);
        offer(hold->lane->engine, r, l);
    } else if ((rc = mailbox_entry_get(hold, &l)) == ACP_OK) {
        post(hold, r, want, l);
    } else {
        transaction_cancel(hold);
        return rc;
    }
    r->entry = l;
    transaction_commit(hold);
    return ACP_OK;
}

/* Requests the bytes of a taken message from a peer that still has them, for it may have no memory for them. */
static void ask_for_bytes(acp_engine *e, const acp_request *r)
{
    const struct mail_entry *l = r->entry;
    if (mailbox_entry_state(l) != ENTRY_FILLING || l->filler != e->self || !r->buffer ||
        __atomic_load_n(&l->place, __ATOMIC_RELAXED) != PLACE_NONE)
        return;
    atomic_store(&e->mail.due, true);
    doorbell_kick(e);
}

/* Also matches a message put into a ring before its sender could see the receive. */
static int match_all(struct hold *hold, acp_request *r, const acp_envelope *want)
{
    enum mail_class class = mailbox_class(want->context);
    int rc = pair_ring_deliver_all(hold, class, want);
    if (rc == ACP_OK)
        rc = match(hold, r, want);
    if (rc != ACP_OK || mailbox_entry_state(r->entry) != ENTRY_POSTED)
        return rc;
    atomic_thread_fence(memory_order_seq_cst);
    rc = pair_ring_deliver_all(hold, class, want);
    if (likely(rc == ACP_OK) || mailbox_entry_state(r->entry) != ENTRY_POSTED)
        return ACP_OK;
    transaction_begin(hold);
    mailbox_unlink(hold, r->entry);
    mailbox_entry_free(hold, r->entry);
    transaction_commit(hold);
    return rc;
}

static int receive(acp_lane *lane, acp_request *r, const acp_envelope *want)
{
    acp_engine *e = lane->engine;
    struct hold hold;
    uint32_t slots[MAIL_WANTING];
    struct heap *h = mailbox_heap(e, e->job.own);
    if (!h)
        return lane_fail(lane, ACP_E_FULL, 0, 0);
    int rc = transaction_enter(&hold, lane, &mailbox_of(h)->section, h, mail_match_patience(lane));
    if (rc != ACP_OK)
        return rc;
    rc = match_all(&hold, r, want);
    bool posted = rc == ACP_OK && mailbox_entry_state(r->entry) == ENTRY_POSTED;
    uint64_t sequence = posted ? r->entry->sequence : 0;
    uint32_t count = credits_take_waiters(h, posted, slots);
    transaction_leave(&hold);
    credits_wake(e, slots, count);
    if (unlikely(posted && e->mail.stopped))
        flow_solicit_senders(e, want, sequence);
    if (rc == ACP_OK && !posted)
        ask_for_bytes(e, r);
    return rc;
}

static acp_request *receive_new(acp_lane *lane, void *buffer, uint64_t room)
{
    acp_request *r = request_new(lane, REQUEST_RECEIVE);
    if (r) {
        r->buffer = buffer;
        r->room = room;
        r->gathers = !buffer && room == UINT64_MAX;
    }
    return r;
}

/* Its waiters watch that rank, and know that another process may bring the bytes. */
static void await_from(acp_request *r, int64_t source)
{
    acp_engine *e = r->engine;
    if (source != ACP_ANY && source != (int64_t)e->rank &&
        (r->peer = peer_of_slot(e, rank_slot_of(e, (uint32_t)source))) && !r->peer->watched)
        peer_watch(e, r->peer);
}

int acp_receive(acp_lane *lane, const acp_envelope *want, void *buffer, acp_request **request)
{
    acp_engine *e = lane->engine;
    if (!mail_match_plausible(e, want)) {
        lane_fail(lane, want->tag < ACP_ANY ? ACP_E_ARGUMENT : ACP_E_RANK, 0, want->size);
        lane->fault.rank = want->source;
        return lane->fault.status;
    }
    acp_request *r = receive_new(lane, buffer, want->size);
    if (!r)
        return ACP_E_SYSTEM;
    await_from(r, want->source);
    r->any = want->source == ACP_ANY;
    if (r->any)
        any_source_hold(r->among = want->among);
    int rc = receive(lane, r, want);
    if (rc != ACP_OK) {
        request_free(lane, r);
        return rc;
    }
    *request = r;
    return ACP_OK;
}

int acp_receive_taken(acp_lane *lane, uint64_t taken, void *buffer, uint64_t room,
                      acp_request **request)
{
    struct hold hold;
    acp_engine *e = lane->engine;
    struct heap *h = mailbox_heap(e, e->job.own);
    struct mail_entry *l = h ? mailbox_entry(h, taken) : NULL;
    if (!l || l->list != AMONG_TAKEN)
        return lane_fail(lane, ACP_E_HANDLE, 0, 0);
    int rc = transaction_enter(&hold, lane, &mailbox_of(h)->section, h, mail_match_patience(lane));
    if (rc != ACP_OK)
        return rc;
    acp_request *r = receive_new(lane, buffer, room);
    if (r) {
        offer(e, r, l);
        r->entry = l;
        /* The filler may look for the buffer now. */
        __atomic_store_n(&l->list, AMONG_NONE, __ATOMIC_RELEASE);
        *request = r;
    }
    transaction_leave(&hold);
    if (r)
        ask_for_bytes(e, r);
    if (r && newcomers_find(e, l->source))
        await_from(r, (int64_t)l->source);
    return r ? ACP_OK : ACP_E_SYSTEM;
}

/* Copies bytes that have come by a block and are not in the buffer yet; then parts that it may copy itself. */
bool recv_follow(acp_request *r)
{
    struct mail_entry *l = r->entry;
    acp_engine *e = r->engine;
    uint64_t place = __atomic_load_n(&l->place, __ATOMIC_ACQUIRE), copied = r->copied;
    if (!r->buffer || (place != PLACE_BLOCK && place != PLACE_SHARED))
        return false;
    uint64_t filled = mailbox_unsealed(__atomic_load_n(&l->filled, __ATOMIC_ACQUIRE));
    const struct heap *h = atomic_load_explicit(&e->job.own->memory.heap, memory_order_relaxed);
    filled = filled > l->size ? 0 : filled < r->room ? filled : r->room;
    if (filled > copied && mailbox_block_in(h, l->block, filled)) {
        memcpy(r->buffer + copied, h->base + l->block + copied, filled - copied);
        r->copied = filled;
    }
    bool helped = place == PLACE_SHARED &&
                  shared_copy_help(e, l, r->buffer, l->size < r->room ? l->size : r->room);
    return helped || r->copied > copied;
}

/* The state of an entry; LOST also if the rank that brings the bytes, or should, is dead or in finalize; DAMAGED if
 * something else has written there, for then no end of it may come. */
enum entry_state recv_state(const acp_request *r)
{
    acp_engine *e = r->engine;
    const struct mail_entry *l = r->entry;
    enum entry_state state = mailbox_entry_state(l);
    bool lost = false;
    if (likely(state == ENTRY_DONE))
        return state;
    if (state == ENTRY_FILLING) {
        int rc = mailbox_filler_check(e, l);
        if (unlikely(rc == ACP_E_DAMAGED))
            return ENTRY_DAMAGED;
        lost = rc == ACP_E_LOST;
    } else if (state == ENTRY_POSTED && unlikely(r->damages != e->mail.damages)) {
        return ENTRY_DAMAGED;
    } else if (state == ENTRY_POSTED && (e->job.departed || e->job.leavers)) {
        lost = r->any ? any_source_lost(e, r->among) : r->peer && peer_gone(e, r->peer) != ACP_OK;
    } else if (state != ENTRY_POSTED && state != ENTRY_LOST && state != ENTRY_REFUSED) {
        return ENTRY_DAMAGED;
    }
    if (!lost)
        return state;
    /* The message may have come in between: a dead process brings no more. */
    enum entry_state now = mailbox_entry_state(l);
    return now == state ? ENTRY_LOST : now;
}

bool acp_request_done(const acp_request *r)
{
    if (r->entry && (r->era != r->engine->mail.era || recv_state(r) >= ENTRY_DONE))
        return true;
    return atomic_load_explicit(&r->over, memory_order_acquire);
}
