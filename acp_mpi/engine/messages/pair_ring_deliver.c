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
#include "peers/rank_table.h"

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

/* Ends the receives in that list for which a message of this rank may have been; returns whether there are any. */
static bool end_listed(struct hold *hold, struct peer *to, uint64_t source, enum mail_class class, uint64_t at)
{
    bool any = false;
    struct mailbox_walk walk = {0};
    struct mail_entry *l;
    for (uint64_t next; (l = mailbox_entry(hold->heap, at)) && !mailbox_circles(&walk, at); at = next) {
        next = l->link.next;
        if (mailbox_entry_state(l) != ENTRY_POSTED || mailbox_class(l->context) != class ||
            (l->want_source != source && l->want_source != (uint64_t)ACP_ANY))
            continue;
        transaction_begin(hold);
        mailbox_unlink(hold, l);
        transaction_set(hold, &l->state, ENTRY_DAMAGED);
        transaction_commit(hold);
        match_ring(hold->lane, to, l);
        any = true;
    }
    return any;
}

/* Nobody knows what it was. */
static bool end_receives(struct hold *hold, struct peer *to, uint64_t source, enum mail_class class)
{
    const struct mailbox *box = mailbox_of(hold->heap);
    bool any = end_listed(hold, to, source, class, box->wild.first);
    for (uint32_t i = 0; i < MAIL_BUCKETS; i++)
        any |= end_listed(hold, to, source, class, box->receives[i].first);
    return any;
}

/* The first message from that place on; `end`: there is none before it. */
static uint64_t next_full(const struct ring_line *lines, uint64_t at, uint64_t end)
{
    uint64_t size;
    while (at < end && pair_ring_state(lines, at, &size) != RING_FULL)
        at++;
    return at;
}

/* The end of the last message that can be seen. */
static uint64_t last_end(const struct ring_line *lines)
{
    uint64_t last = 0, size;
    for (uint32_t i = 0; i < RING_LINES; i++) {
        uint64_t at = (__atomic_load_n(&lines[i].stamp, __ATOMIC_RELAXED) >> 16) - 1;
        if (pair_ring_state(lines, at, &size) == RING_FULL && at + pair_ring_count(size) > last)
            last = at + pair_ring_count(size);
    }
    return last;
}

/* In place of a message that is gone: its sender leaves it to the receiver, which tells the threads that wait for one. In its
 * line `tag` is the place of the next, sealed. */
static uint64_t gone_stamp(uint64_t at)
{
    return (at + 1) << 16 | 0xffff;
}

/* By the receiver: what is not a message is passed over, up to the next one, or until its sender finds that there is
 * none. */
static void pass_over(struct pair_ring *ring, struct ring_line *lines)
{
    uint64_t word = __atomic_load_n(&ring->taken, __ATOMIC_SEQ_CST), at, size, next;
    if (!pair_ring_unseal(word, &at)) {
        __atomic_store_n(&ring->taken, pair_ring_sealed(last_end(lines)), __ATOMIC_SEQ_CST);
        return;
    }
    struct ring_line *line = &lines[at % RING_LINES];
    uint64_t stamp = __atomic_load_n(&line->stamp, __ATOMIC_SEQ_CST);
    if (pair_ring_state(lines, at, &size) == RING_FULL)
        return;
    if (stamp != gone_stamp(at) || !pair_ring_unseal(line->tag, &next) || next - at > RING_LINES)
        next = next_full(lines, at, at + RING_LINES);
    if (next == at + RING_LINES)
        __atomic_compare_exchange_n(&line->stamp, &stamp, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
    else if (__atomic_load_n(&line->stamp, __ATOMIC_SEQ_CST) == stamp) /* else it has come meanwhile */
        __atomic_compare_exchange_n(&ring->taken, &word, pair_ring_sealed(next), false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED);
}

static bool may_come_from(const acp_envelope *want, uint32_t place)
{
    return want->source == ACP_ANY || (uint64_t)want->source % RING_SENDERS == place;
}

int pair_ring_deliver_all(struct hold *hold, enum mail_class class, const acp_envelope *want)
{
    acp_engine *e = hold->lane->engine;
    struct pair_rings *all = &mailbox_of(hold->heap)->rings[class];
    uint64_t owned = pair_ring_owned(all);
    int rc = ACP_OK;
    for (; owned && rc == ACP_OK; owned &= owned - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(owned);
        struct pair_ring *ring = &all->rings[i];
        struct ring_line *lines = is_owned(e, ring, i) ? pair_ring_lines(hold->heap, ring) : NULL;
        rc = lines ? bring_all(hold, e->job.own, ring, lines) : mailbox_damaged(hold->lane, e->job.own, 0);
        if (unlikely(rc == ACP_E_DAMAGED) && want && !may_come_from(want, i)) {
            rc = ACP_OK;
        } else if (unlikely(rc == ACP_E_DAMAGED) && want && lines) { /* this call tells it */
            end_receives(hold, e->job.own, __atomic_load_n(&ring->owner, __ATOMIC_RELAXED) - 1, class);
            pass_over(ring, lines);
        }
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
    if (word & RING_BUSY || pair_ring_copying(ring, at) ||
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

void pair_ring_deliver_release(struct hold *hold, enum mail_class class)
{
    acp_engine *e = hold->lane->engine;
    struct pair_rings *all = &mailbox_of(hold->heap)->rings[class];
    for (uint32_t i = 0; i < RING_SENDERS; i++) {
        uint64_t rank = __atomic_load_n(&all->rings[i].owner, __ATOMIC_RELAXED) - 1;
        const struct peer *p = rank < e->procs ? peer_known(e, rank_slot_of(e, (uint32_t)rank)) : NULL;
        if (p && sender_is_gone(p) && !release(hold, all, i))
            e->mail.losses = 1;
    }
}

/* Words of its ring that this process has written itself. */
static void restore(struct hold *hold, const struct ring_sender *s)
{
    acp_engine *e = hold->lane->engine;
    if (!pair_ring_owner_fits(s->ring, e->rank % RING_SENDERS))
        __atomic_store_n(&s->ring->owner, (uint64_t)e->rank + 1, __ATOMIC_RELEASE);
    if (s->ring->owner == (uint64_t)e->rank + 1 && pair_ring_lines(hold->heap, s->ring) != s->lines)
        __atomic_store_n(&s->ring->lines, (uint64_t)((unsigned char *)s->lines - hold->heap->base), __ATOMIC_RELEASE);
}

/* By its sender: a message is gone. Receives that wait for one end, and later messages come; if there are none, the
 * next call that looks there is told. */
static void report_gap(struct hold *hold, struct peer *to, enum mail_class class)
{
    const struct ring_sender *s = &to->mail.rings[class];
    uint64_t word = __atomic_load_n(&s->ring->taken, __ATOMIC_SEQ_CST), at;
    uint64_t filled = atomic_load_explicit(&s->filled, memory_order_acquire);
    bool known = pair_ring_unseal(word, &at) && at < filled && filled - at <= RING_LINES;
    if (pair_ring_copying(s->ring, filled))
        return; /* maybe from there */
    at = known || !filled ? at : filled - 1;
    uint64_t next = known ? next_full(s->lines, at, filled) : filled;
    bool told = !filled || end_receives(hold, to, hold->lane->engine->rank, class);
    if (!told) {
        struct ring_line *line = &s->lines[at % RING_LINES];
        __atomic_store_n(&line->tag, pair_ring_sealed(next), __ATOMIC_RELAXED);
        __atomic_store_n(&line->stamp, gone_stamp(at), __ATOMIC_SEQ_CST);
    }
    __atomic_compare_exchange_n(&s->ring->taken, &word, pair_ring_sealed(told ? next : at), false, __ATOMIC_SEQ_CST,
                                __ATOMIC_RELAXED);
}

int pair_ring_deliver_own(acp_lane *lane, struct peer *to, enum mail_class class)
{
    struct hold hold;
    const struct ring_sender *s = &to->mail.rings[class];
    struct heap *h = mailbox_heap(lane->engine, to);
    if (!h)
        return peer_liveness_fail(lane, to, 0, 0);
    int64_t patience = lane->hurries ? 0 : mail_match_patience(lane);
    int rc = transaction_enter(&hold, lane, &mailbox_of(h)->section, h, patience);
    if (rc != ACP_OK)
        return rc;
    restore(&hold, s);
    rc = bring_all(&hold, to, s->ring, s->lines);
    /* A message that this process has put there, and that is neither there nor taken, has been written over. */
    if (unlikely(pair_ring_lacks(lane->engine, to, class))) {
        report_gap(&hold, to, class);
        rc = mailbox_damaged(lane, to, 0);
    }
    transaction_leave(&hold);
    return rc;
}

/* May it own a ring here? */
static bool may_own(const struct mailbox *box, uint32_t rank)
{
    uint32_t place = rank % RING_SENDERS;
    bool may = false;
    for (uint32_t class = 0; class < MAIL_CLASSES; class++) {
        const struct pair_ring *ring = &box->rings[class].rings[place];
        may |= ring->owner == (uint64_t)rank + 1 || !pair_ring_owner_fits(ring, place);
    }
    return may;
}

void pair_ring_deliver_ask(acp_engine *e)
{
    const struct heap *h = atomic_load_explicit(&e->job.own->memory.heap, memory_order_acquire);
    if (!h || !(e->mail.probes || mailbox_posted(mailbox_of(h))))
        return;
    for (struct peer *p = NULL; (p = peer_next(e, p));)
        if (may_own(mailbox_of(h), rank_table_rank(e, p->slot)) && p != e->job.own && !p->lost &&
            p->relation == RELATION_NODE && p->shm.doors)
            peer_must_look(e, p, LOOK_SENT);
}

void pair_ring_deliver_answer(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    for (struct peer *p = NULL; (p = peer_next(e, p));)
        for (uint32_t class = 0; class < MAIL_CLASSES; class++)
            if (!p->lost && pair_ring_before(e, p, class))
                pair_ring_deliver_own(lane, p, class);
}
