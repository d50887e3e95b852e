/* Contexts that have ended: of what still comes of them, and has come unasked, nothing is kept. A
 * collective that fails on one rank is waited for in vain only by those that have not heard of it yet:
 * what they have sent, or send until then, is nobody's, and would fill the mailbox one call after the
 * other. */
#include "messages/purge_finished.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/eager_slot.h"
#include "messages/pair_ring.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/rendezvous_get.h"
#include "messages/request.h"
#include "progress/doorbell.h"

#define ENDED_MANY 128u /* then it is time to look for what came of those that went well, or came late */

static struct mail_lot *lot_of(struct mailbox *box, uint64_t context)
{
    return &box->ended[(context ^ context >> 32) % MAIL_LOTS];
}

bool mail_context_ended(const struct mailbox *box, uint64_t context)
{
    const struct mail_lot *lot = lot_of((struct mailbox *)box, context);
    bool ended = false;
    for (uint32_t i = 0; i < MAIL_LOT; i++)
        ended |= __atomic_load_n(&lot->contexts[i], __ATOMIC_RELAXED) == context;
    return ended && context; /* that of users never does */
}

void mail_context_ends(acp_engine *e, uint64_t context, bool in_vain)
{
    const struct heap *h = atomic_load_explicit(&e->job.own->shm.heap, memory_order_acquire);
    if (!h || !context)
        return;
    struct mailbox *box = &h->head->mailbox;
    struct mail_lot *lot = lot_of(box, context);
    uint64_t at = __atomic_fetch_add(&lot->next, 1, __ATOMIC_RELAXED) % MAIL_LOT;
    __atomic_store_n(&lot->contexts[at], context, __ATOMIC_RELAXED);
    uint32_t many = atomic_load_explicit(&e->mail.contexts_ended, memory_order_relaxed) + 1;
    uint64_t kept = __atomic_load_n(&box->kept, __ATOMIC_RELAXED);
    bool look = kept && many > ENDED_MANY + kept / 4;
    atomic_store_explicit(&e->mail.contexts_ended, look ? 0 : many, memory_order_relaxed);
    if (in_vain || many % ENDED_MANY == 0) /* as long as they are known here */
        eager_forget(e);
    /* It is not known for ever, and what is in a ring would be kept. */
    look |= many % ENDED_MANY == 0 && pair_ring_any(h);
    if (!look && !in_vain)
        return;
    atomic_store(&e->mail.losses, 1);
    progress_kick(e);
}

void acp_context_ends(acp_engine *e, uint64_t context)
{
    mail_context_ends(e, context, true);
}

/* In the section: it is received, without room for its bytes, by whoever leads. */
bool mail_unwant(struct hold *hold, struct letter *l)
{
    acp_engine *e = hold->lane->engine;
    acp_request *r = request_new(hold->lane, REQUEST_RECEIVE);
    if (!r)
        return false;
    r->letter = l;
    l->room = l->buffer = l->global = 0;
    letter_attend(l, ATTENTION_SLEEPS); /* who brings them rings */
    section_begin(hold);
    mail_unkeep(hold, l);
    section_commit(hold);
    r->next = e->mail.unwanted;
    e->mail.unwanted = r;
    return true;
}

/* What its sender has kept is given back there. */
static bool stays(acp_lane *lane, acp_request *r)
{
    if (!acp_request_done(r) || pull_under_way(r)) /* by a reset it may be done before that has come */
        return true;
    int rc = acp_request_pulls(r) ? acp_request_pull(lane, r) : ACP_OK;
    if (rc == ACP_E_BUSY) /* nobody rings */
        lane->engine->mail.losses = 1;
    return rc == ACP_E_BUSY || rc == ACP_E_HANDLE || rc == ACP_E_INTERRUPTED;
}

void mail_drop_unwanted(acp_lane *lane)
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
