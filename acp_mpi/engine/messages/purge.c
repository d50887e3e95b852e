/* Purge of unexpected messages that no receive will take: after a death those with bytes under way, after the end of a
 * context all of that. */
#include "messages/purge.h"
#include "core/membarrier.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/credits.h"
#include "messages/pair_ring_deliver.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/purge_finished.h"
#include "messages/sender_heap.h"
#include "peers/peer.h"

/* Its bytes were under way from a dead process, or are in that one's heap. */
static bool orphaned(acp_engine *e, const struct mail_entry *l)
{
    enum entry_state state = mailbox_entry_state(l);
    bool held = state == ENTRY_DONE && l->place == PLACE_HELD && l->source < e->procs;
    const struct peer *p = held ? peer_known(e, rank_slot_of(e, (uint32_t)l->source)) : NULL;
    return state == ENTRY_FILLING ? mailbox_filler_check(e, l) == ACP_E_LOST : state == ENTRY_LOST || (p && p->lost);
}

/* Later messages of the same source, context and tag are lost with `l`: a receive would take one of them in its place. */
static void lose_those_behind(struct hold *hold, const struct mail_entry *l)
{
    struct mailbox_walk walk = {0};
    struct mail_entry *later;
    for (uint64_t at = l->link.next; (later = mailbox_entry(hold->heap, at)) && !mailbox_circles(&walk, at);
         at = later->link.next) {
        if (later->source != l->source || later->context != l->context || later->tag != l->tag)
            continue;
        enum entry_state state = mailbox_entry_state(later);
        if (state == ENTRY_LOST)
            return; /* the walk from that one marks the rest */
        if (state != ENTRY_DONE)
            continue;
        transaction_begin(hold);
        transaction_set(hold, &later->state, ENTRY_LOST);
        transaction_commit(hold);
    }
}

static int bury(struct hold *hold, struct mail_entry *l)
{
    int rc = l->block ? heap_give(hold->lane, hold->heap, &l->block, 0) : ACP_OK;
    if (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED)
        return rc;
    transaction_begin(hold);
    match_remove(hold, l);
    mailbox_entry_free(hold, l);
    transaction_commit(hold);
    return ACP_OK;
}

/* False: not yet. `all`: what the dead had sent is among the arrivals. */
static bool discard(struct hold *hold, struct mail_entry *l, bool all)
{
    acp_engine *e = hold->lane->engine;
    bool late = mailbox_context_ended(mailbox_of(hold->heap), l->context);
    bool orphan = orphaned(e, l);
    if (orphan && !all)
        return false;
    if (orphan)
        lose_those_behind(hold, l);
    if (orphan || (late && mailbox_entry_state(l) == ENTRY_DONE && l->place != PLACE_HELD))
        return bury(hold, l) == ACP_OK;
    return !late || purge_finished_receive(hold, l);
}

static void mail_bury(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    struct heap *h = mailbox_heap(e, e->job.own);
    struct hold hold;
    uint32_t slots[MAIL_WANTING];
    struct mail_entry *l;
    bool all = true;
    if (h && transaction_enter(&hold, lane, &mailbox_of(h)->section, h, 0) != ACP_OK) {
        e->mail.losses = 1; /* again, soon: the bringer of the last one does not ring once more */
        return;
    }
    e->mail.losses = 0;
    atomic_fetch_and(&e->doors->looks, ~LOOK_MAIL);
    if (!h)
        return;
    if (!sender_heap_reclaim(lane, h))
        e->mail.losses = 1;
    for (uint32_t class = 0; class < MAIL_CLASSES; class++) {
        int rc = pair_ring_deliver_all(&hold, class, NULL);
        all &= rc != ACP_E_BUSY && rc != ACP_E_INTERRUPTED;
        if (rc == ACP_OK)
            pair_ring_deliver_release(&hold, class);
        else if (rc != ACP_E_DAMAGED) /* which no other look mends */
            e->mail.losses = 1;
    }
    const acp_request *unwanted = e->mail.unwanted;
    struct mailbox_walk walk = {0};
    uint64_t next;
    for (uint64_t at = mailbox_of(h)->arrivals.first; (l = mailbox_entry(h, at)) && !mailbox_circles(&walk, at);
         at = next) {
        next = l->arrival.next;
        if (!discard(&hold, l, all))
            e->mail.losses = 1;
    }
    uint32_t count = credits_take_waiters(h, false, slots);
    transaction_leave(&hold);
    if (e->mail.unwanted != unwanted)
        membarrier_all(); /* the bringer of a message after the look finds that it must ring */
    credits_wake(e, slots, count);
}

enum due purge_due(const acp_engine *e)
{
    return e->mail.halted ? DUE_NOT : e->mail.losses ? DUE_SOON : e->mail.unwanted || e->doors->looks ? DUE_AWAKE : DUE_NOT;
}

void purge_step(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    if (e->doors->looks & LOOK_SENT) {
        atomic_fetch_and(&e->doors->looks, ~LOOK_SENT);
        pair_ring_deliver_answer(lane);
    }
    if (e->mail.losses || e->doors->looks & LOOK_MAIL)
        mail_bury(lane);
    if (e->mail.unwanted)
        purge_finished_drop(lane);
}
