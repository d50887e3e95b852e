/* What is in fast boxes is brought to the mailbox, in its section. Who dies meanwhile leaves `taken` as it was
 * before the message on which it worked, or as it is after it, and busy: only who has the section sets that, so the next
 * one to enter knows that nobody works there any more. */
#include "messages/fastbox_deliver.h"
#include "base/linux.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/fastbox.h"
#include "messages/mail_match.h"
#include "messages/match.h"
#include "peers/peer.h"
#include "peers/peer_liveness.h"

static int bring_one(struct hold *hold, struct peer *to, struct fastbox *b, uint64_t number, uint64_t size)
{
    acp_fast m;
    fast_read(b, number, size, &m);
    return mail_place(hold, to, &m.envelope, m.data, &b->taken, (number + 1) | FAST_BUSY);
}

/* Nobody takes from it meanwhile. After its end a look: what has come since then its sender has taken back, or it
 * is seen. */
static int bring_all(struct hold *hold, struct peer *to, struct fastbox *b)
{
    for (;;) {
        uint64_t taken = __atomic_load_n(&b->taken, __ATOMIC_SEQ_CST), number = taken & ~FAST_BUSY, size;
        if (!(taken & FAST_BUSY) &&
            (!fast_full(b, number, &size) ||
             !__atomic_compare_exchange_n(&b->taken, &taken, taken | FAST_BUSY, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_RELAXED))) {
            if (!fast_full(b, __atomic_load_n(&b->taken, __ATOMIC_SEQ_CST), &size))
                return ACP_OK;
            continue;
        }
        int rc = ACP_OK;
        for (; rc == ACP_OK && fast_full(b, number, &size); number += rc == ACP_OK)
            rc = bring_one(hold, to, b, number, size);
        fault_point();
        __atomic_store_n(&b->taken, number, __ATOMIC_SEQ_CST);
        if (rc != ACP_OK)
            return rc;
    }
}

int fast_clear(struct hold *hold)
{
    struct fastboxes *all = &hold->heap->head->mailbox.fast;
    uint64_t owned = fast_owned(all);
    int rc = ACP_OK;
    for (; owned && rc == ACP_OK; owned &= owned - 1)
        rc = bring_all(hold, hold->lane->engine->job.own, &all->boxes[__builtin_ctzll(owned)]);
    return rc;
}

/* Its process is known to have ended, or not to send any more: else it may fill it beside the next owner. */
static bool is_gone(const struct peer *p)
{
    return p->lost && (p->left || !process_lives(p->row.pid, p->row.start_time));
}

void fast_release(struct hold *hold)
{
    acp_engine *e = hold->lane->engine;
    struct fastboxes *all = &hold->heap->head->mailbox.fast;
    for (uint32_t i = 0; i < FAST_BOXES; i++) {
        struct fastbox *b = &all->boxes[i];
        uint64_t rank = __atomic_load_n(&b->owner, __ATOMIC_RELAXED) - 1, size;
        const struct peer *p = rank < e->procs ? peer_known(e, slot_of_rank(e, (uint32_t)rank)) : NULL;
        if (!p || !is_gone(p))
            continue;
        uint64_t taken = __atomic_load_n(&b->taken, __ATOMIC_SEQ_CST);
        if (taken & FAST_BUSY || fast_full(b, taken, &size)) { /* it has come since they were cleared */
            e->mail.losses = 1;
            continue;
        }
        __atomic_fetch_and(&all->owned, ~((uint64_t)1 << i), __ATOMIC_SEQ_CST);
        __atomic_store_n(&b->owner, 0, __ATOMIC_SEQ_CST);
    }
}

int fast_bring(acp_lane *lane, struct peer *to)
{
    struct hold hold;
    struct heap *h = mail_heap(lane->engine, to);
    if (!h)
        return fail_lost(lane, to, 0, 0);
    int rc = section_enter(&hold, lane, &h->head->mailbox.section, h, mail_patience(lane));
    if (rc != ACP_OK)
        return rc;
    rc = bring_all(&hold, to, to->mail.fast.box);
    section_leave(&hold);
    return rc;
}
