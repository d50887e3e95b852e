/* A collective: its steps, one after the other, as far as messages have come.
 *
 * What goes wrong at one member reaches all that depend on it: instead of its messages it sends
 * empty ones that say so, and who gets one does the same. So a rank that has died is known to
 * members that never hear from it themselves, and nobody waits in vain. */
#include "collective.h"

#include "mail_match.h"
#include "progress.h"
#include "request.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MANY 64u /* messages to look at each time */
#define LEFT_NOTE ((uint64_t)1 << 63) /* of a message that brings nothing but the reason */
#define LEFT_LOST ((uint64_t)1 << 62) /* a rank has died; the low bits say which, + 1 */
#define LEFT_ASTRAY ((uint64_t)1 << 61) /* ranks have called what does not belong together */

int acp_collective_begin(acp_engine *e, const acp_plan *plan, void *const buffers[ACP_BUFFERS],
                         uint64_t context, uint64_t note, acp_collective **out)
{
    uint32_t most = plan->messages ? plan->messages : 1;
    acp_collective *c = calloc(1, sizeof *c + most * (sizeof *c->messages + sizeof *c->steps));
    if (!c)
        return ACP_E_SYSTEM;
    c->steps = (uint32_t *)(c->messages + most);
    c->engine = e;
    c->plan = plan;
    for (uint32_t i = 0; i < ACP_BUFFERS; i++)
        c->buffers[i] = buffers[i];
    c->context = context;
    c->note = note;
    c->era = e->mail_era;
    c->rank = -1;
    if (plan->fold >= 0) {
        c->fold = fold_of((acp_fold)plan->fold, (acp_type)plan->type);
        c->width = type_size((acp_type)plan->type);
    }
    *out = c;
    return ACP_OK;
}

static void *place(const acp_collective *c, uint8_t buffer, uint64_t at)
{
    return c->buffers[buffer] ? c->buffers[buffer] + at : NULL;
}

static void end_with(acp_collective *c, int status, int64_t rank)
{
    if (c->status == ACP_OK) {
        c->status = status;
        c->rank = rank;
    }
}

/* Bytes that the sender has kept are brought when a message is ended. Who leads must not wait for
 * them, for nobody else serves progress meanwhile: it brings them bit by bit before. True: not all. */
static bool far(acp_lane *lane, acp_collective *c, acp_request *r)
{
    if (lane->index != LANE_LEADER || !acp_request_pulls(r))
        return false;
    uint64_t before = pull_at(r);
    int rc = acp_request_pull(lane, r);
    c->moves |= pull_at(r) != before;
    c->again |= rc != ACP_OK && rc != ACP_E_HANDLE;
    return rc != ACP_OK;
}

/* Nothing of it may write to the caller's memory any more. Who leads must not wait for the end of
 * what cannot be cancelled, for nobody else brings it: that stays open. */
static void drop_messages(acp_lane *lane, acp_collective *c)
{
    for (uint32_t i = c->open; i-- > 0;) {
        acp_request *request = c->messages[i];
        if (!acp_request_done(request))
            acp_request_cancel(lane, request);
        if (lane->index == LANE_LEADER && !acp_request_done(request))
            continue;
        if (far(lane, c, request))
            continue;
        acp_request_end(lane, request, NULL);
        c->messages[i] = c->messages[--c->open];
        c->steps[i] = c->steps[c->open];
    }
}

void collective_fail(acp_lane *lane, acp_collective *c, int status, int64_t rank)
{
    end_with(c, status, rank);
    drop_messages(lane, c);
}

/* Who is held for dead itself has no say in who else is. */
static uint64_t reason(const acp_collective *c)
{
    bool known = c->rank >= 0 && !c->engine->outcast;
    uint64_t who = (known ? (uint64_t)c->rank : (uint64_t)acp_rank(c->engine)) + 1;
    return LEFT_NOTE | (c->status == ACP_E_LOST && known ? LEFT_LOST : 0) |
           (c->astray ? LEFT_ASTRAY : 0) | who;
}

static void under_way(acp_collective *c, acp_request *request)
{
    c->messages[c->open] = request;
    c->steps[c->open++] = c->at;
}

static int begin_send(acp_lane *lane, acp_collective *c, const acp_step *s)
{
    acp_envelope envelope = {.context = c->context, .size = s->size, .note = c->note};
    acp_request *request = NULL;
    if (unlikely(c->status != ACP_OK)) {
        envelope.size = 0;
        envelope.note = reason(c);
    }
    int rc = acp_send(lane, s->rank, &envelope, place(c, s->left, s->left_at), &request);
    if (rc == ACP_OK && request)
        under_way(c, request);
    return rc;
}

static int begin_receive(acp_lane *lane, acp_collective *c, const acp_step *s)
{
    acp_envelope want = {.context = c->context, .source = s->rank, .size = s->size};
    acp_request *request;
    int rc = acp_receive(lane, &want, place(c, s->where, s->where_at), &request);
    if (rc != ACP_OK)
        return rc;
    under_way(c, request);
    if (request->letter) /* its receiver waits, or whoever drives its progress is to be rung for */
        __atomic_store_n(&request->letter->attention,
                         c->released ? ATTENTION_SLEEPS : ATTENTION_WAITS, __ATOMIC_RELAXED);
    return ACP_OK;
}

/* Whoever says that a rank has died may be the only one to know it that this process is in touch with. */
static void heard_of_loss(acp_engine *e, uint64_t rank)
{
    struct peer *p = rank < e->procs ? peer_of_slot(e, slot_of_rank(e, (uint32_t)rank)) : NULL;
    if (p)
        peer_said_lost(e, p);
}

/* What came is what the others were to send. */
static void check(acp_collective *c, const acp_step *s, int rc, const acp_envelope *got)
{
    if (rc != ACP_OK && rc != ACP_E_TRUNCATED) {
        end_with(c, rc, s->rank);
    } else if (s->kind == ACP_STEP_SEND) {
        return;
    } else if (got->note & LEFT_NOTE) {
        uint64_t who = (got->note & UINT32_MAX) - 1;
        if (got->note & LEFT_LOST)
            heard_of_loss(c->engine, who);
        else if (who == acp_rank(c->engine)) /* what this rank calls is why */
            who = s->rank;
        c->astray |= (got->note & LEFT_ASTRAY) != 0;
        end_with(c, got->note & LEFT_LOST ? ACP_E_LOST : ACP_E_LEFT, (int64_t)who);
    } else if (rc != ACP_OK || got->note != c->note || got->size != s->size) {
        c->theirs = c->status == ACP_OK ? got->note : c->theirs;
        c->astray = true;
        end_with(c, ACP_E_MISMATCH, s->rank);
    }
}

/* ACP_OK: none is under way any more. */
static int await(acp_lane *lane, acp_collective *c)
{
    for (uint32_t i = c->open; i-- > 0;) {
        acp_request *r = c->messages[i];
        acp_envelope got = {0};
        if (!acp_request_done(r))
            continue;
        if (far(lane, c, r))
            return ACP_E_HANDLE; /* one at a time */
        const acp_step *s = &c->plan->steps[c->steps[i]];
        int rc = acp_request_end(lane, r, &got);
        c->messages[i] = c->messages[--c->open];
        c->steps[i] = c->steps[c->open];
        check(c, s, rc, &got);
    }
    if (unlikely(c->status != ACP_OK))
        drop_messages(lane, c);
    return c->open ? ACP_E_HANDLE : ACP_OK;
}

/* ACP_E_HANDLE: messages are under way, ACP_COLLECTIVE_FOLD: the caller folds. */
static int step(acp_lane *lane, acp_collective *c, const acp_step *s)
{
    switch (s->kind) {
    case ACP_STEP_SEND:
        return begin_send(lane, c, s);
    case ACP_STEP_AWAIT:
        return await(lane, c);
    default:
        break;
    }
    if (c->status != ACP_OK)
        return ACP_OK;
    void *where = place(c, s->where, s->where_at);
    const void *left = place(c, s->left, s->left_at);
    switch (s->kind) {
    case ACP_STEP_RECEIVE:
        return begin_receive(lane, c, s);
    case ACP_STEP_COPY:
        if (s->size && where != left)
            memmove(where, left, s->size);
        return ACP_OK;
    default:
        if (!s->size)
            return ACP_OK;
        if (!c->fold)
            return ACP_COLLECTIVE_FOLD;
        c->fold(where, left, place(c, s->right, s->right_at), s->size / c->width);
        return ACP_OK;
    }
}

/* Has a member died? Those that heard of it first do not come again, so nobody goes on. Who has ended
 * in order has sent what it had to send; if not, those that depend on it hear of that. */
static void look_at_losses(acp_lane *lane, acp_collective *c)
{
    acp_engine *e = lane->engine;
    c->departed = e->departed;
    for (uint32_t i = 0; i < c->plan->members && c->status == ACP_OK; i++) {
        const struct peer *p = peer_known(e, slot_of_rank(e, c->plan->ranks[i]));
        if (p && p->lost && !peer_left(p))
            collective_fail(lane, c, ACP_E_LOST, c->plan->ranks[i]);
    }
}

static bool is_astray(const acp_collective *c, const struct letter *l)
{
    return l->context == c->context &&
           (l->note & LEFT_NOTE ? l->note & LEFT_ASTRAY : l->note != c->note);
}

/* What has come and no step has asked for yet may tell that nobody else ever will: the first that was
 * called in place of this, else that others have found such a thing. */
static int listen_to_all(acp_lane *lane, acp_collective *c)
{
    struct heap *h = mail_heap(c->engine, c->engine->own);
    struct mailbox *box = &h->head->mailbox;
    struct hold hold;
    uint64_t now = __atomic_load_n(&box->sequence, __ATOMIC_ACQUIRE);
    if (c->status != ACP_OK)
        c->heard = now;
    if (c->heard == now)
        return ACP_OK;
    int rc = section_enter(&hold, lane, &box->section, h, mail_patience(lane));
    if (rc != ACP_OK)
        return rc;
    acp_envelope astray = {.source = ACP_ANY};
    uint64_t steps = box->kept;
    const struct letter *l;
    for (uint64_t at = box->arrivals.last;
         (l = letter_at(h, at)) && steps-- && l->sequence >= c->heard; at = l->arrival.previous)
        if (is_astray(c, l) && (astray.source == ACP_ANY || !(l->note & LEFT_NOTE)))
            envelope_of(l, &astray);
    c->heard = box->sequence;
    section_leave(&hold);
    if (astray.source == ACP_ANY)
        return ACP_OK;
    const acp_step none = {.kind = ACP_STEP_RECEIVE, .rank = (uint32_t)astray.source};
    check(c, &none, ACP_OK, &astray);
    drop_messages(lane, c);
    return ACP_OK;
}

/* A member may wait for a message that its sender's plan has not: each one tells all. */
static int tell_all(acp_lane *lane, acp_collective *c)
{
    while (c->told < c->plan->members) {
        uint32_t rank = c->plan->ranks[c->told];
        acp_envelope envelope = {.context = c->context, .note = reason(c)};
        acp_request *request = NULL;
        int rc = (int64_t)rank == acp_rank(c->engine)
                     ? ACP_OK
                     : acp_send(lane, rank, &envelope, NULL, &request);
        if (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED)
            return rc;
        c->told++;
        if (request)
            under_way(c, request);
        drop_messages(lane, c);
        if (c->open)
            return ACP_E_HANDLE;
    }
    return ACP_OK;
}

int collective_drive(acp_lane *lane, acp_collective *c)
{
    const acp_plan *plan = c->plan;
    c->moves = c->again = false;
    if (unlikely(lane->engine->departed != c->departed))
        look_at_losses(lane, c);
    if (unlikely(c->watched) && c->era == lane->engine->mail_era) {
        int rc = listen_to_all(lane, c);
        if (rc != ACP_OK)
            return rc == ACP_E_INTERRUPTED ? rc : ACP_E_BUSY;
    }
    while (c->at < plan->count) {
        const acp_step *s = &plan->steps[c->at];
        int rc = step(lane, c, s);
        if (rc == ACP_COLLECTIVE_FOLD) {
            atomic_store_explicit(&c->state, COLLECTIVE_FOLDS, memory_order_release);
            return ACP_OK;
        }
        if (rc == ACP_E_BUSY || rc == ACP_E_HANDLE || rc == ACP_E_INTERRUPTED)
            return rc;
        if (rc != ACP_OK)
            collective_fail(lane, c, rc, rc == ACP_E_LOST ? (int64_t)s->rank : -1);
        c->at++;
    }
    drop_messages(lane, c);
    if (unlikely(c->open))
        return ACP_E_HANDLE;
    if (unlikely(c->astray)) {
        int rc = tell_all(lane, c);
        if (rc != ACP_OK)
            return rc;
    }
    atomic_store_explicit(&c->state, COLLECTIVE_OVER, memory_order_release);
    return ACP_OK;
}

/* Until something of it is done. ACP_E_BUSY: not yet, but it listens for more from now on. */
static int wait(acp_collective *c, int64_t timeout_ns)
{
    uint32_t which;
    bool few = c->open <= MANY, first = !c->watched && timeout_ns > MAIL_FIRST_NS;
    if (collective_overdue(c)) {
        collective_watch(c);
        return ACP_E_BUSY;
    }
    int rc = requests_wait(c->engine, c->messages + (few ? 0 : c->open - 1), few ? c->open : 1,
                           &c->departed, c->watched ? &c->heard : NULL,
                           first ? MAIL_FIRST_NS : timeout_ns, &which);
    if (rc != ACP_E_TIMEOUT || !first)
        return rc;
    collective_watch(c);
    return ACP_E_BUSY;
}

static int run(acp_collective *c, int64_t timeout_ns, bool to_the_end)
{
    acp_engine *e = c->engine;
    uint64_t start = timeout_ns == ACP_FOREVER ? 0 : now_ns();
    acp_lane *lane;
    while (!(lane = acp_lane_take(e)))
        sched_yield();
    while (atomic_load_explicit(&c->state, memory_order_relaxed) == COLLECTIVE_RUNS) {
        int rc = collective_drive(lane, c);
        int64_t left = timeout_ns;
        if (timeout_ns != ACP_FOREVER) {
            left -= (int64_t)(now_ns() - start);
            left = left < 0 ? 0 : left;
        }
        if (rc == ACP_E_HANDLE) {
            rc = wait(c, left);
            if (rc == ACP_E_TIMEOUT && !to_the_end)
                break;
        } else if (rc == ACP_E_BUSY)
            sched_yield();
        else if (rc == ACP_E_INTERRUPTED && !tick(e, ACP_TICK_SIGNAL))
            continue; /* a wait has asked already */
        if (rc != ACP_OK && rc != ACP_E_BUSY)
            collective_fail(lane, c, rc, -1);
    }
    acp_lane_give(lane);
    uint32_t state = atomic_load(&c->state);
    if (state == COLLECTIVE_RUNS)
        return ACP_E_TIMEOUT;
    return state == COLLECTIVE_FOLDS ? ACP_COLLECTIVE_FOLD : c->status;
}

int acp_collective_run(acp_collective *c, int64_t timeout_ns)
{
    return run(c, timeout_ns, true);
}

int acp_collective_run_for(acp_collective *c, int64_t timeout_ns)
{
    return run(c, timeout_ns, false);
}

void acp_collective_due(const acp_collective *c, void **where, const void **left,
                        const void **right, uint64_t *size)
{
    const acp_step *s = &c->plan->steps[c->at];
    *where = place(c, s->where, s->where_at);
    *left = place(c, s->left, s->left_at);
    *right = place(c, s->right, s->right_at);
    *size = s->size;
}

void acp_collective_lost(acp_collective *c, uint32_t rank)
{
    end_with(c, ACP_E_LOST, rank);
}

int64_t acp_collective_trouble(const acp_collective *c, uint64_t *theirs)
{
    *theirs = c->status == ACP_E_MISMATCH ? c->theirs : 0;
    return c->rank;
}
