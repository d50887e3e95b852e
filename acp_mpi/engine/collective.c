/* A collective: its steps, one after the other, as far as messages have come.
 *
 * What goes wrong at one member reaches all that depend on it: instead of its messages it sends
 * empty ones that say so, and who gets one does the same. So a rank that has died is known to
 * members that never hear from it themselves, and nobody waits in vain. */
#include "collective.h"

#include "progress.h"

#include <stdlib.h>
#include <string.h>

#define LEFT_NOTE ((uint64_t)1 << 63) /* of a message that brings nothing but the reason */
#define LEFT_LOST ((uint64_t)1 << 62) /* a rank has died; the low bits say which, + 1 */

int acp_collective_begin(acp_engine *e, const acp_plan *plan, void *const buffers[ACP_BUFFERS],
                         uint64_t context, uint64_t note, acp_collective **out)
{
    acp_collective *c =
        calloc(1, sizeof *c + (plan->messages ? plan->messages : 1) * sizeof(struct under_way));
    if (!c)
        return ACP_E_SYSTEM;
    c->engine = e;
    c->plan = plan;
    for (uint32_t i = 0; i < ACP_BUFFERS; i++)
        c->buffers[i] = buffers[i];
    c->context = context;
    c->note = note;
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

static void leave(acp_collective *c, int status, int64_t rank)
{
    if (c->status == ACP_OK) {
        c->status = status;
        c->rank = rank;
    }
}

/* Nothing of it may write to the caller's memory any more. */
static void drop_messages(acp_lane *lane, acp_collective *c)
{
    while (c->open) {
        acp_request *request = c->messages[--c->open].request;
        if (!acp_request_done(request))
            acp_request_cancel(lane, request);
        acp_request_end(lane, request, NULL);
    }
}

void collective_fail(acp_lane *lane, acp_collective *c, int status, int64_t rank)
{
    leave(c, status, rank);
    drop_messages(lane, c);
}

static uint64_t reason(const acp_collective *c)
{
    uint64_t who = c->rank >= 0 ? (uint64_t)c->rank + 1 : (uint64_t)acp_rank(c->engine) + 1;
    return LEFT_NOTE | (c->status == ACP_E_LOST ? LEFT_LOST : 0) | who;
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
        c->messages[c->open++] = (struct under_way){request, c->at};
    return rc;
}

static int begin_receive(acp_lane *lane, acp_collective *c, const acp_step *s)
{
    acp_envelope want = {.context = c->context, .source = s->rank, .tag = ACP_ANY,
                         .size = s->size};
    acp_request *request;
    int rc = acp_receive(lane, &want, place(c, s->where, s->where_at), &request);
    if (rc == ACP_OK)
        c->messages[c->open++] = (struct under_way){request, c->at};
    return rc;
}

/* What came is what the others were to send. */
static void check(acp_collective *c, const acp_step *s, int rc, const acp_envelope *got)
{
    if (rc != ACP_OK && rc != ACP_E_TRUNCATED) {
        leave(c, rc, s->rank);
    } else if (s->kind == ACP_STEP_SEND) {
        return;
    } else if (got->note & LEFT_NOTE) {
        uint64_t who = got->note & UINT32_MAX;
        leave(c, got->note & LEFT_LOST ? ACP_E_LOST : ACP_E_LEFT, (int64_t)who - 1);
    } else if (rc != ACP_OK || got->note != c->note || got->size != s->size) {
        c->theirs = c->status == ACP_OK ? got->note : c->theirs;
        leave(c, ACP_E_MISMATCH, s->rank);
    }
}

/* ACP_OK: none is under way any more. */
static int await(acp_lane *lane, acp_collective *c)
{
    for (uint32_t i = c->open; i-- > 0;) {
        struct under_way m = c->messages[i];
        acp_envelope got;
        if (!acp_request_done(m.request))
            continue;
        int rc = acp_request_end(lane, m.request, &got);
        if (rc == ACP_E_BUSY)
            return rc;
        c->messages[i] = c->messages[--c->open];
        check(c, &c->plan->steps[m.step], rc, &got);
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

int collective_drive(acp_lane *lane, acp_collective *c)
{
    const acp_plan *plan = c->plan;
    while (c->at < plan->count) {
        const acp_step *s = &plan->steps[c->at];
        int rc = step(lane, c, s);
        if (rc == ACP_COLLECTIVE_FOLD) {
            atomic_store_explicit(&c->state, COLLECTIVE_FOLDS, memory_order_release);
            return ACP_OK;
        }
        if (rc == ACP_E_BUSY || rc == ACP_E_HANDLE)
            return rc;
        if (rc != ACP_OK)
            collective_fail(lane, c, rc, rc == ACP_E_LOST ? (int64_t)s->rank : -1);
        c->at++;
    }
    drop_messages(lane, c);
    atomic_store_explicit(&c->state, COLLECTIVE_OVER, memory_order_release);
    return ACP_OK;
}

int acp_collective_run(acp_collective *c, int64_t timeout_ns)
{
    acp_engine *e = c->engine;
    uint64_t start = timeout_ns == ACP_FOREVER ? 0 : now_ns();
    acp_lane *lane;
    while (!(lane = acp_lane_take(e)))
        sched_yield();
    while (atomic_load_explicit(&c->state, memory_order_relaxed) == COLLECTIVE_RUNS) {
        int rc = collective_drive(lane, c);
        if (rc != ACP_E_HANDLE)
            continue;
        int64_t left = timeout_ns;
        if (timeout_ns != ACP_FOREVER) {
            left -= (int64_t)(now_ns() - start);
            left = left < 0 ? 0 : left;
        }
        rc = acp_request_wait(e, c->messages[c->open - 1].request, left);
        if (rc != ACP_OK)
            collective_fail(lane, c, rc, -1);
    }
    acp_lane_give(lane);
    return atomic_load(&c->state) == COLLECTIVE_FOLDS ? ACP_COLLECTIVE_FOLD : c->status;
}

bool acp_collective_done(const acp_collective *c)
{
    return atomic_load_explicit(&c->state, memory_order_acquire) != COLLECTIVE_RUNS;
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

int64_t acp_collective_trouble(const acp_collective *c, uint64_t *theirs)
{
    *theirs = c->status == ACP_E_MISMATCH ? c->theirs : 0;
    return c->rank;
}
