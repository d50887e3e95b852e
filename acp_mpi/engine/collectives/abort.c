/* Failures of collectives. A failure at one member reaches all that depend on it: instead of its messages it sends
 * empty ones with the reason, and a member that gets one does the same. So a dead rank is known even to members that
 * never get a message from it, and no member waits in vain. */
#include "collectives/abort.h"
#include "collectives/schedule.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mail_match.h"
#include "messages/mailbox.h"
#include "messages/pair_ring_deliver.h"
#include "peers/peer.h"

#define LEFT_NOTE ACP_NOTE_LEFT /* of a message that carries only the reason */
#define LEFT_LOST ((uint64_t)1 << 62) /* a rank has died; the low bits are its number + 1 */
#define LEFT_ASTRAY ((uint64_t)1 << 61) /* a mismatch; the low bits are two ranks and their calls */
#define LEFT_ENDS ((uint64_t)1 << 60) /* without LEFT_ASTRAY: a rank is in finalize; the low bits likewise */
#define RANK_BITS 22u
#define CALL_BITS 6u
#define SAYS_WHY (LEFT_ASTRAY - 1)

static void end_with(acp_collective *c, int status, int64_t rank)
{
    if (c->status == ACP_OK) {
        c->status = status;
        c->rank = rank;
    }
}

void abort_fail(acp_lane *lane, acp_collective *c, int status, int64_t rank)
{
    end_with(c, status, rank);
    schedule_cancel(lane, c);
}

/* A process that counts as dead itself does not declare others dead. */
uint64_t abort_reason(const acp_collective *c)
{
    if (c->why)
        return LEFT_NOTE | LEFT_ASTRAY | c->why;
    bool known = c->rank >= 0 && !c->engine->job.outcast;
    uint64_t who = (known ? (uint64_t)c->rank : (uint64_t)acp_rank(c->engine)) + 1;
    uint64_t how = c->status == ACP_E_LOST ? LEFT_LOST : c->status == ACP_E_FINALIZING ? LEFT_ENDS : 0;
    return LEFT_NOTE | (known ? how : 0) | who;
}

/* Takes over a reported loss: the sender may be the only peer in touch with this process that knows of it. */
static void heard_of_loss(acp_engine *e, uint64_t rank)
{
    struct peer *p = rank < e->procs ? peer_of_slot(e, rank_slot_of(e, (uint32_t)rank)) : NULL;
    if (p)
        peer_said_lost(e, p);
}

static bool types_differ(uint64_t one, uint64_t other)
{
    return (one & ACP_NOTE_TYPE) && (other & ACP_NOTE_TYPE) && ((one ^ other) & ACP_NOTE_TYPE);
}

static uint64_t why_astray(const acp_collective *c, uint32_t rank, uint64_t theirs)
{
    uint64_t why = types_differ(theirs, c->note);
    const uint64_t calls[] = {c->note, theirs}, ranks[] = {acp_rank(c->engine), rank};
    for (uint32_t i = 0; i < 2; i++)
        why = why << CALL_BITS | ((calls[i] >> ACP_NOTE_CALL_AT) & ((1u << CALL_BITS) - 1));
    for (uint32_t i = 0; i < 2; i++)
        why = why << RANK_BITS | ranks[i];
    return why;
}

static void go_astray(acp_collective *c, uint32_t rank, uint64_t theirs, uint64_t why)
{
    if (c->status == ACP_OK) {
        c->theirs = theirs;
        c->why = why;
    }
    c->astray = true;
    end_with(c, ACP_E_MISMATCH, rank);
}

void abort_check(acp_collective *c, const acp_step *s, int rc, const acp_envelope *got)
{
    if (rc != ACP_OK && rc != ACP_E_TRUNCATED && rc != ACP_E_TYPE) {
        end_with(c, rc, s->rank);
    } else if (s->kind == ACP_STEP_SEND) {
        return;
    } else if ((got->note & LEFT_NOTE) && (got->note & LEFT_ASTRAY)) {
        go_astray(c, s->rank, 0, got->note & SAYS_WHY);
    } else if (got->note & LEFT_NOTE) {
        uint64_t who = (got->note & UINT32_MAX) - 1;
        if (got->note & LEFT_LOST)
            heard_of_loss(c->engine, who);
        else if (who == acp_rank(c->engine)) /* the call of this rank is the reason */
            who = s->rank;
        int status = got->note & LEFT_LOST ? ACP_E_LOST : got->note & LEFT_ENDS ? ACP_E_FINALIZING : ACP_E_LEFT;
        end_with(c, status, (int64_t)who);
    } else if (rc != ACP_OK || !acp_notes_belong(got->note, c->note) || got->size != s->size) {
        go_astray(c, s->rank, got->note, why_astray(c, s->rank, got->note));
    }
}

/* Has a member died? The members that learned of it first do not come again, so none goes on. A member that has ended
 * in order has sent all its messages; if not, the members that depend on it are told by others. */
void abort_check_losses(acp_lane *lane, acp_collective *c)
{
    acp_engine *e = lane->engine;
    c->departed = e->job.departed;
    for (uint32_t i = 0; i < c->plan->members && c->status == ACP_OK; i++) {
        const struct peer *p = peer_known(e, rank_slot_of(e, c->plan->ranks[i]));
        if (p && p->lost && !peer_left(p))
            abort_fail(lane, c, ACP_E_LOST, c->plan->ranks[i]);
    }
}

static bool is_astray(const acp_collective *c, const struct mail_entry *l)
{
    return l->context == c->context &&
           (l->note & LEFT_NOTE ? l->note & LEFT_ASTRAY : !acp_notes_belong(l->note, c->note));
}

/* Looks at messages that no step has received yet, for they may be the only sign of a mismatch: prefers the first of
 * another call to reports of others that found one. */
int abort_scan(acp_lane *lane, acp_collective *c)
{
    struct heap *h = mailbox_heap(c->engine, c->engine->job.own);
    struct mailbox *box = mailbox_of(h);
    struct hold hold;
    uint64_t now = __atomic_load_n(&box->sequence, __ATOMIC_ACQUIRE);
    if (c->status != ACP_OK)
        c->heard = now;
    if (c->heard == now && !pair_ring_any(h, MAIL_COLLECTIVES))
        return ACP_OK;
    int rc = transaction_enter(&hold, lane, &box->section, h, mail_match_patience(lane));
    if (rc != ACP_OK)
        return rc;
    /* A posted receive has brought them, but this may only wait to send. What cannot be brought now is the next time. */
    pair_ring_deliver_all(&hold, MAIL_COLLECTIVES, NULL);
    acp_envelope astray = {.source = ACP_ANY};
    struct mailbox_walk walk = {0};
    const struct mail_entry *l;
    for (uint64_t at = box->arrivals.last; (l = mailbox_entry(h, at)) && !mailbox_circles(&walk, at) &&
                                           l->sequence >= c->heard; at = l->arrival.previous)
        if (is_astray(c, l) && (astray.source == ACP_ANY || !(l->note & LEFT_NOTE)))
            mail_match_envelope(l, &astray);
    c->heard = box->sequence;
    transaction_leave(&hold);
    if (astray.source == ACP_ANY)
        return ACP_OK;
    const acp_step none = {.kind = ACP_STEP_RECEIVE, .rank = (uint32_t)astray.source};
    abort_check(c, &none, ACP_OK, &astray);
    schedule_cancel(lane, c);
    return ACP_OK;
}

/* In a mismatch a member may wait for a message that its sender's plan does not have: each one tells all. */
int abort_notify(acp_lane *lane, acp_collective *c)
{
    while (c->told < c->plan->members) {
        uint32_t rank = c->plan->ranks[c->told];
        acp_envelope envelope = {.context = c->context, .note = abort_reason(c)};
        acp_request *request = NULL;
        bool other = (int64_t)rank != acp_rank(c->engine);
        int rc = other ? acp_send(lane, rank, &envelope, NULL, &request) : ACP_OK;
        if (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED)
            return rc;
        c->told++;
        if (request)
            schedule_track(c, request, c->at);
        schedule_cancel(lane, c);
        if (c->open)
            return ACP_E_HANDLE;
    }
    return ACP_OK;
}

void acp_collective_lost(acp_collective *c, uint32_t rank)
{
    end_with(c, ACP_E_LOST, rank);
}

void acp_collective_astray(acp_collective *c, uint64_t why)
{
    end_with(c, ACP_E_MISMATCH, -1);
    c->why = why;
}

int64_t acp_collective_trouble(const acp_collective *c, uint64_t *theirs, uint64_t *why)
{
    acp_engine *e = c->engine;
    if (c->released) /* a thread that closes the library may be about to end it */
        pthread_mutex_lock(&e->collectives.lock);
    *theirs = c->status == ACP_E_MISMATCH ? c->theirs : 0;
    *why = c->status == ACP_E_MISMATCH ? c->why : 0;
    int64_t rank = c->rank;
    if (c->released)
        pthread_mutex_unlock(&e->collectives.lock);
    return rank;
}
