/* Looking for a message without receiving it; taking it, so that no other receive gets it. */
#include "core/membarrier.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/credits.h"
#include "messages/pair_ring.h"
#include "messages/pair_ring_deliver.h"
#include "messages/mail_match.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/recv_wait.h"
#include "messages/request.h"
#include "operations/any_source.h"
#include "peers/peer.h"

static int look(acp_lane *lane, const acp_envelope *want, acp_envelope *found, uint64_t *taken,
                int64_t patience_ns)
{
    acp_engine *e = lane->engine;
    struct hold hold;
    uint32_t slots[MAIL_WANTING], count = 0;
    struct heap *h = mailbox_heap(e, e->job.own);
    if (!h)
        return lane_fail(lane, ACP_E_FULL, 0, 0);
    if (!mail_match_plausible(e, want)) {
        lane_fail(lane, want->tag < ACP_ANY ? ACP_E_ARGUMENT : ACP_E_RANK, 0, 0);
        lane->fault.rank = want->source;
        return lane->fault.status;
    }
    enum mail_class class = mailbox_class(want->context);
    if (!__atomic_load_n(&mailbox_of(h)->kept[class], __ATOMIC_ACQUIRE) && !pair_ring_any(h, class))
        return ACP_E_HANDLE;
    int rc = transaction_enter(&hold, lane, &mailbox_of(h)->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    if ((rc = pair_ring_deliver_all(&hold, class, want)) != ACP_OK) {
        transaction_leave(&hold);
        return rc;
    }
    struct mail_entry *l = match_find(h, want);
    if (l)
        mail_match_envelope(l, found);
    if (l && taken) {
        transaction_begin(&hold);
        match_remove(&hold, l);
        transaction_set(&hold, &l->list, AMONG_TAKEN);
        transaction_commit(&hold);
        count = credits_take_waiters(h, false, slots);
        *taken = mailbox_entry_offset(h, l);
    }
    transaction_leave(&hold);
    credits_wake(e, slots, count);
    return l ? ACP_OK : ACP_E_HANDLE;
}

int acp_probe(acp_lane *lane, const acp_envelope *want, acp_envelope *found, uint64_t *taken)
{
    return look(lane, want, found, taken, mail_match_patience(lane));
}

struct probe_wait {
    acp_lane *lane;
    const acp_envelope *want;
    acp_envelope *found;
    uint64_t *taken;
    struct peer *source;
    uint32_t era; /* of the mailbox */
    uint32_t damages;
    int rc;
    bool armed, over; /* done: a further call must not take another message */
};

static bool probe_ready(void *context)
{
    struct probe_wait *w = context;
    acp_engine *e = w->lane->engine;
    if (w->over)
        return true;
    int gone = w->source                         ? peer_gone(e, w->source)
               : any_source_lost(e, w->want->among) ? ACP_E_LOST
                                                    : ACP_OK; /* before the look: all that it has sent is there then */
    w->rc = w->era == e->mail.era ? look(w->lane, w->want, w->found, w->taken, HEAP_PATIENCE_NS)
                                  : ACP_E_CLOSED;
    w->over = w->rc != ACP_E_HANDLE && w->rc != ACP_E_BUSY && w->rc != ACP_E_INTERRUPTED;
    if (!w->over && gone == ACP_OK && unlikely(w->damages != e->mail.probe_damages))
        gone = mailbox_damaged(w->lane, e->job.own, 0);
    if (!w->over && gone != ACP_OK) {
        w->rc = gone;
        w->over = true;
    }
    if (w->over)
        return true;
    if (w->armed)
        return false;
    w->armed = true;
    membarrier_all(); /* a sender that keeps a message after the look rings */
    return probe_ready(context);
}

int acp_probe_wait(acp_engine *e, const acp_envelope *want, acp_envelope *found, uint64_t *taken,
                   int64_t timeout_ns)
{
    struct heap *h = mailbox_heap(e, e->job.own);
    struct probe_wait w = {.want = want, .found = found, .taken = taken, .era = e->mail.era,
                           .damages = e->mail.probe_damages};
    if (!h)
        return ACP_E_FULL;
    if (!mail_match_plausible(e, want))
        return want->tag < ACP_ANY ? ACP_E_ARGUMENT : ACP_E_RANK;
    if (!(w.lane = acp_lane_take(e)))
        return ACP_E_BUSY;
    if (want->source != ACP_ANY && want->source != (int64_t)e->rank)
        w.source = peer_of_slot(e, rank_slot_of(e, (uint32_t)want->source));
    acp_request source = {.peer = w.source, .any = want->source == ACP_ANY,
                          .among = want->among}, *draft = &source;
    atomic_fetch_add(&e->mail.probes, 1);
    __atomic_fetch_add(&mailbox_of(h)->probing, 1, __ATOMIC_SEQ_CST);
    int rc = recv_wait_until(e, probe_ready, &w, timeout_ns, ACP_DOING_PROBE, &draft, 1, false);
    if (w.era == e->mail.era)
        __atomic_fetch_sub(&mailbox_of(h)->probing, 1, __ATOMIC_SEQ_CST);
    atomic_fetch_sub(&e->mail.probes, 1);
    acp_lane_give(w.lane);
    return rc == ACP_OK ? w.rc : rc;
}
