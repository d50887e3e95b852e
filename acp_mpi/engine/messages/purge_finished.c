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
#include "messages/mail_match.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/pair_ring.h"
#include "messages/rendezvous_get.h"
#include "messages/request.h"
#include "progress/doorbell.h"

#define LATE_LOOKS 1024u /* at what is kept, from the end */
#define ENDED_MANY 128u /* then it is time to look for what came of those that went well, or came late */

static struct mail_lot *lot_of(struct mailbox *box, uint64_t context)
{
    return &box->ended[(context ^ context >> 32) % MAIL_LOTS];
}

static uint32_t place_of(const struct mail_lot *lot, uint64_t context)
{
    uint32_t i = 0;
    while (i < MAIL_LOT && __atomic_load_n(&lot->contexts[i], __ATOMIC_RELAXED) != context)
        i++;
    return context ? i : MAIL_LOT; /* that of users never ends */
}

bool mail_context_ended(const struct mailbox *box, uint64_t context)
{
    return place_of(lot_of((struct mailbox *)box, context), context) < MAIL_LOT;
}

bool mail_context_well(const struct mailbox *box, uint64_t context)
{
    const struct mail_lot *lot = lot_of((struct mailbox *)box, context);
    uint32_t at = place_of(lot, context);
    return at < MAIL_LOT && __atomic_load_n(&lot->next, __ATOMIC_RELAXED) >> (MAIL_WELL + at) & 1;
}

void mail_keep_late(acp_engine *e, uint64_t context, uint32_t source, uint64_t note)
{
    pthread_mutex_lock(&e->mail.lock);
    uint32_t i = 0, count = e->mail.late_count;
    while (i < count && e->mail.late[i].context != context)
        i++;
    if (i == count && i < LATE_MOST) {
        e->mail.late[i] = (struct late_note){context, note, source};
        atomic_store(&e->mail.late_count, count + 1);
    }
    pthread_mutex_unlock(&e->mail.lock);
    atomic_store(&e->collectives.news, true); /* it may be for one that goes on by itself */
}

void mail_look_late(acp_engine *e, const struct letter *l)
{
    if (unlikely(mail_context_well(&mail_heap(e, e->job.own)->head->mailbox, l->context)))
        mail_keep_late(e, l->context, (uint32_t)l->source, l->note);
}

void mail_look_for_late(acp_lane *lane)
{
    struct hold hold;
    struct heap *h = mail_heap(lane->engine, lane->engine->job.own);
    const struct letter *l;
    if (!h || !__atomic_load_n(&h->head->mailbox.kept, __ATOMIC_ACQUIRE) ||
        section_enter(&hold, lane, &h->head->mailbox.section, h, mail_patience(lane)) != ACP_OK)
        return;
    uint64_t steps = h->head->mailbox.kept < LATE_LOOKS ? h->head->mailbox.kept : LATE_LOOKS;
    for (uint64_t at = h->head->mailbox.arrivals.last; (l = letter_at(h, at)) && steps--; at = l->arrival.previous)
        mail_look_late(lane->engine, l);
    section_leave(&hold);
}

void mail_context_ends(acp_engine *e, uint64_t context, bool in_vain)
{
    struct heap *h = context ? mail_heap(e, e->job.own) : NULL; /* who only sends has not mapped it yet */
    if (!h)
        return;
    struct mailbox *box = &h->head->mailbox;
    struct mail_lot *lot = lot_of(box, context);
    uint64_t at = __atomic_fetch_add(&lot->next, 1, __ATOMIC_RELAXED) % ((uint64_t)1 << MAIL_WELL) % MAIL_LOT;
    uint64_t well = (uint64_t)1 << (MAIL_WELL + at);
    if (in_vain)
        __atomic_fetch_and(&lot->next, ~well, __ATOMIC_RELAXED);
    else
        __atomic_fetch_or(&lot->next, well, __ATOMIC_RELAXED);
    __atomic_store_n(&lot->contexts[at], context, __ATOMIC_RELAXED);
    if (!in_vain && unlikely(__atomic_load_n(&box->reasons_kept, __ATOMIC_RELAXED)))
        atomic_store(&e->doors->late, 1); /* one may have come for it before it had ended */
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
