/* The messages in pair rings are moved to the mailbox, in its section. A process that dies meanwhile leaves `taken` as
 * it was before the current message, or as it is after it, and busy: only the section's holder sets that, so the next
 * holder knows that the ring is not in work any more. */
#include "messages/pair_ring_deliver.h"
#include "base/linux.h"
#include "core/lane.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mail_match.h"
#include "messages/match.h"
#include "messages/pair_ring.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/peer_liveness.h"

static int bring_one(struct hold *hold, struct peer *to, struct pair_ring *ring, const struct ring_line *lines,
                     uint64_t at, uint64_t size)
{
    acp_envelope m;
    uint64_t data[ACP_SHORT_MOST / 8];
    pair_ring_envelope(ring, &lines[at % RING_LINES], size, &m);
    pair_ring_copy(lines, at, data, size);
    return match_place(hold, to, &m, data, &ring->taken, pair_ring_sealed(at + pair_ring_count(size)) | RING_BUSY);
}

/* The ring is busy: receivers take nothing from it meanwhile. */
static int bring_some(struct hold *hold, struct peer *to, struct pair_ring *ring, const struct ring_line *lines,
                      uint64_t at)
{
    uint64_t size;
    enum ring_state state;
    int rc = ACP_OK;
    while (rc == ACP_OK && (state = pair_ring_state(lines, at, &size)) != RING_EMPTY) {
        rc = state == RING_FULL ? bring_one(hold, to, ring, lines, at, size) : mailbox_damaged(hold->lane, to, 0);
        if (rc == ACP_OK)
            at += pair_ring_count(size);
    }
    transaction_fault_point();
    __atomic_store_n(&ring->taken, pair_ring_sealed(at), __ATOMIC_SEQ_CST);
    return rc;
}

/* A look after its end: a message that has come since is taken back by its sender, or seen here. */
static int bring_all(struct hold *hold, struct peer *to, struct pair_ring *ring, const struct ring_line *lines)
{
    for (;;) {
        uint64_t word = __atomic_load_n(&ring->taken, __ATOMIC_SEQ_CST), at, size;
        if (!pair_ring_unseal(word, &at))
            return mailbox_damaged(hold->lane, to, 0);
        enum ring_state state = pair_ring_state(lines, at, &size);
        if (!(word & RING_BUSY) && state != RING_FULL) {
            if (__atomic_load_n(&ring->taken, __ATOMIC_SEQ_CST) != word)
                continue;
            return state == RING_EMPTY ? ACP_OK : mailbox_damaged(hold->lane, to, 0);
        }
        if (!(word & RING_BUSY) && !__atomic_compare_exchange_n(&ring->taken, &word, word | RING_BUSY, false,
                                                                __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            continue;
        int rc = bring_some(hold, to, ring, lines, at);
        if (rc != ACP_OK)
            return rc;
    }
}

/* Do the ring's owner and place fit? */
static bool is_owned(acp_engine *e, const struct pair_ring *ring, uint32_t place)
{
    uint64_t rank = __atomic_load_n(&ring->owner, __ATOMIC_RELAXED) - 1;
    return rank % RING_SENDERS == place && newcomers_find(e, rank);
}

int pair_ring_deliver_all(struct hold *hold)
{
    acp_engine *e = hold->lane->engine;
    struct pair_rings *all = &mailbox_of(hold->heap)->rings;
    uint64_t owned = pair_ring_owned(all);
    int rc = ACP_OK;
    for (; owned && rc == ACP_OK; owned &= owned - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(owned);
        const struct ring_line *lines = pair_ring_lines(hold->heap, &all->rings[i]);
        rc = lines && is_owned(e, &all->rings[i], i) ? bring_all(hold, e->job.own, &all->rings[i], lines)
                                                     : mailbox_damaged(hold->lane, e->job.own, 0);
    }
    return rc;
}

/* Its process is known to have ended, or not to send any more: else it may fill it beside the next owner. */
static bool sender_is_gone(const struct peer *p)
{
    return p->lost && (p->left || !linux_process_lives(p->row.pid, p->row.start_time));
}

/* Its block goes back. No message of the next owner stands where one of this stood: a thread that has looked does not
 * take it for one. */
static bool release(struct hold *hold, struct pair_rings *all, uint32_t i)
{
    struct pair_ring *ring = &all->rings[i];
    const struct ring_line *lines = pair_ring_lines(hold->heap, ring);
    uint64_t word = __atomic_load_n(&ring->taken, __ATOMIC_SEQ_CST), at, size;
    if (!pair_ring_unseal(word, &at))
        return true; /* it is lost, which does no harm */
    if (word & RING_BUSY || __atomic_load_n(&ring->copying, __ATOMIC_ACQUIRE) ||
        (lines && pair_ring_state(lines, at, &size) == RING_FULL)) /* a message has come since they were cleared */
        return false;
    __atomic_fetch_and(&all->owned, ~((uint64_t)1 << i), __ATOMIC_SEQ_CST);
    __atomic_store_n(&ring->lines, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&ring->taken, pair_ring_sealed(at + RING_LINES), __ATOMIC_SEQ_CST);
    int rc = ring->block ? heap_give(hold->lane, hold->heap, &ring->block, 0) : ACP_OK;
    if (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED)
        return false;
    __atomic_store_n(&ring->owner, 0, __ATOMIC_SEQ_CST);
    return true;
}

void pair_ring_deliver_release(struct hold *hold)
{
    acp_engine *e = hold->lane->engine;
    struct pair_rings *all = &mailbox_of(hold->heap)->rings;
    for (uint32_t i = 0; i < RING_SENDERS; i++) {
        uint64_t rank = __atomic_load_n(&all->rings[i].owner, __ATOMIC_RELAXED) - 1;
        const struct peer *p = rank < e->procs ? peer_known(e, rank_slot_of(e, (uint32_t)rank)) : NULL;
        if (p && sender_is_gone(p) && !release(hold, all, i))
            e->mail.losses = 1;
    }
}

int pair_ring_deliver_own(acp_lane *lane, struct peer *to)
{
    struct hold hold;
    struct ring_sender *s = &to->mail.ring;
    struct heap *h = mailbox_heap(lane->engine, to);
    if (!h)
        return peer_liveness_fail(lane, to, 0, 0);
    int rc = transaction_enter(&hold, lane, &mailbox_of(h)->section, h, mail_match_patience(lane));
    if (rc != ACP_OK)
        return rc;
    uint64_t taken, sent = atomic_load_explicit(&s->sent, memory_order_relaxed);
    bool good = pair_ring_unseal(__atomic_load_n(&s->ring->taken, __ATOMIC_ACQUIRE), &taken) &&
                sent - taken <= RING_LINES;
    rc = good ? bring_all(&hold, to, s->ring, s->lines) : mailbox_damaged(lane, to, 0);
    /* The lane that fills it fills nothing now: a message that was not there has been written over. */
    if (rc == ACP_OK && lane->index == LANE_CALLER &&
        __atomic_load_n(&s->ring->taken, __ATOMIC_ACQUIRE) != pair_ring_sealed(sent))
        rc = mailbox_damaged(lane, to, 0);
    transaction_leave(&hold);
    return rc;
}

/* Ends the receives in that list for which a message of this process may have been. */
static void end_receives(struct hold *hold, struct peer *to, uint64_t at)
{
    acp_engine *e = hold->lane->engine;
    struct mailbox_walk walk = {0};
    struct mail_entry *l;
    for (uint64_t next; (l = mailbox_entry(hold->heap, at)) && !mailbox_circles(&walk, at); at = next) {
        next = l->link.next;
        if (mailbox_entry_state(l) != ENTRY_POSTED ||
            (l->want_source != e->rank && l->want_source != (uint64_t)ACP_ANY))
            continue;
        transaction_begin(hold);
        mailbox_unlink(hold, l);
        transaction_set(hold, &l->state, ENTRY_DAMAGED);
        transaction_commit(hold);
        match_ring(hold->lane, to, l);
    }
}

/* Nobody knows what it was, so each receive that it may have been for ends. */
static void tell_loss(acp_lane *lane, struct peer *to)
{
    struct hold hold;
    struct heap *h = mailbox_heap(lane->engine, to);
    if (!h || transaction_enter(&hold, lane, &mailbox_of(h)->section, h, 0) != ACP_OK)
        return;
    const struct mailbox *box = mailbox_of(h);
    bring_all(&hold, to, to->mail.ring.ring, to->mail.ring.lines);
    if (pair_ring_lacks(lane->engine, to)) {
        for (uint32_t i = 0; i < MAIL_BUCKETS; i++)
            end_receives(&hold, to, box->receives[i].first);
        end_receives(&hold, to, box->wild.first);
    }
    transaction_leave(&hold);
}

void pair_ring_deliver_doubt(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    for (struct peer *p = NULL; (p = peer_next(e, p));)
        if (!p->lost && pair_ring_lacks(e, p))
            tell_loss(lane, p);
}
