/* Contexts that have ended: late and unmatched messages of theirs are discarded. A collective that fails on one rank
 * is waited for in vain only by members that have not been told yet: their messages until then belong to no
 * collective, and would fill the mailbox one call after the other. */
#include "messages/purge_finished.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/pair_ring.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/rendezvous_get.h"
#include "messages/request.h"
#include "progress/doorbell.h"

#define ENDED_MANY 128u /* contexts that end well between two purges of late messages */

void purge_finished_add(acp_engine *e, uint64_t context, bool in_vain)
{
    const struct heap *h = atomic_load_explicit(&e->job.own->memory.heap, memory_order_acquire);
    if (!h || !context)
        return;
    struct mailbox *box = mailbox_of(h);
    mailbox_end_context(box, context);
    uint32_t many = atomic_load_explicit(&e->mail.contexts_ended, memory_order_relaxed) + 1;
    uint64_t kept = mailbox_kept(box);
    bool look = kept && many > ENDED_MANY + kept / 4;
    atomic_store_explicit(&e->mail.contexts_ended, look ? 0 : many, memory_order_relaxed);
    /* The list of ended contexts is bounded, and a ring would keep its messages. */
    look |= many % ENDED_MANY == 0 && (pair_ring_any(h, MAIL_USERS) || pair_ring_any(h, MAIL_COLLECTIVES));
    if (!look && !in_vain)
        return;
    atomic_store(&e->mail.losses, 1);
    doorbell_kick(e);
}

void acp_context_ends(acp_engine *e, uint64_t context)
{
    purge_finished_add(e, context, true);
}

/* In the section: the leader receives it, without room for its bytes. */
bool purge_finished_receive(struct hold *hold, struct mail_entry *l)
{
    acp_engine *e = hold->lane->engine;
    acp_request *r = request_new(hold->lane, REQUEST_RECEIVE);
    if (!r)
        return false;
    r->entry = l;
    l->room = l->buffer = l->global = 0;
    mailbox_set_attention(l, ATTENTION_SLEEPS); /* the bringer rings */
    transaction_begin(hold);
    match_remove(hold, l);
    transaction_commit(hold);
    r->next = e->mail.unwanted;
    e->mail.unwanted = r;
    return true;
}

/* False: it can be dropped; bytes kept by its sender have been given back there. */
static bool stays(acp_lane *lane, acp_request *r)
{
    if (!acp_request_done(r) || rendezvous_get_active(r)) /* by a reset it may be done before that has come */
        return true;
    int rc = acp_request_pulls(r) ? acp_request_pull(lane, r) : ACP_OK;
    if (rc == ACP_E_BUSY) /* no event rings */
        lane->engine->mail.losses = 1;
    return rc == ACP_E_BUSY || rc == ACP_E_HANDLE || rc == ACP_E_INTERRUPTED;
}

void purge_finished_drop(acp_lane *lane)
{
    for (acp_request **at = &lane->engine->mail.unwanted, *r; (r = *at);) {
        if (stays(lane, r)) {
            at = &r->next;
        } else {
            *at = r->next;
            acp_request_end(lane, r, NULL);
        }
    }
}
