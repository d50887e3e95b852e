/* A collective: its steps, one after the other, as far as messages have come. Failures are in abort.c. */
#include "collectives/schedule.h"
#include "base/linux.h"
#include "collectives/abort.h"
#include "collectives/reduce.h"
#include "collectives/schedule_eager.h"
#include "core/upcalls.h"
#include "messages/flow.h"
#include "messages/mailbox.h"
#include "messages/message_send_queue.h"
#include "messages/recv_wait.h"
#include "messages/rendezvous_get.h"
#include "messages/request.h"
#include "progress/doorbell.h"
#include "progress/wait.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MANY 64u /* messages to look at each time */
#define WATCH_MOST_NS ((int64_t)1000000000)

int acp_collective_begin(acp_engine *e, const acp_plan *plan, void *const buffers[ACP_BUFFERS],
                         uint64_t context, uint64_t note, acp_collective **out)
{
    uint32_t most = plan->messages ? plan->messages : 1;
    /* malloc has blocks of this size at hand for each thread, which calloc does not look at */
    acp_collective *c =
        malloc(sizeof *c + most * (sizeof *c->messages + sizeof *c->steps + sizeof *c->light));
    if (!c)
        return ACP_E_SYSTEM;
    memset(c, 0, sizeof *c);
    c->steps = (uint32_t *)(c->messages + most);
    c->light = c->steps + most;
    c->engine = e;
    c->plan = plan;
    for (uint32_t i = 0; i < ACP_BUFFERS; i++)
        c->buffers[i] = buffers[i];
    c->context = (context & (ACP_CONTEXT_COLLECTIVE - 1)) | ACP_CONTEXT_COLLECTIVE;
    c->note = note;
    c->era = e->mail.era;
    c->rank = -1;
    if (plan->fold >= 0) {
        c->fold = reduce_fold((acp_fold)plan->fold, (acp_type)plan->type);
        c->width = reduce_type_size((acp_type)plan->type);
    }
    *out = c;
    return ACP_OK;
}

/* Gets bytes that are still with the sender before a message is ended: a signal handler may end the wait for them. The
 * leader must not wait, for no other thread serves progress meanwhile: it gets them bit by bit. ACP_E_HANDLE: not
 * all. */
static int bring_first(acp_lane *lane, acp_collective *c, acp_request *r)
{
    if (!acp_request_pulls(r))
        return ACP_OK;
    uint64_t before = rendezvous_get_bytes(r);
    int rc = acp_request_pull(lane, r);
    if (rc == ACP_OK || (rc == ACP_E_INTERRUPTED && lane_may_wait(lane)))
        return rc;
    c->moves |= rendezvous_get_bytes(r) != before;
    c->again |= rc != ACP_E_HANDLE;
    return ACP_E_HANDLE;
}

/* Cancels a message if possible; a send that has not begun carries the reason instead. NULL: it ends by itself. */
static int request_withdraw(acp_lane *lane, const acp_collective *c, acp_request **r)
{
    uint64_t why = abort_reason(c);
    if (acp_request_done(*r))
        return ACP_OK;
    return (*r)->kind == REQUEST_SEND && c->status != ACP_OK ? message_send_queue_withdraw(lane, r, &why)
                                                             : acp_request_cancel(lane, *r);
}

void schedule_cancel(acp_lane *lane, acp_collective *c)
{
    bool waits = lane_may_wait(lane);
    c->lights = 0;
    for (uint32_t i = c->open; i-- > 0;) {
        acp_request *request = c->messages[i];
        int rc;
        while ((rc = request_withdraw(lane, c, &request)) == ACP_E_BUSY && waits &&
               acp_request_wait(c->engine, request, MAIL_AGAIN_NS) != ACP_E_CLOSED)
            continue;
        c->again |= rc == ACP_E_BUSY;
        if (request && !waits &&
            (!acp_request_done(request) || bring_first(lane, c, request) != ACP_OK))
            continue;
        if (request)
            acp_request_end(lane, request, NULL);
        c->messages[i] = c->messages[--c->open];
        c->steps[i] = c->steps[c->open];
    }
}

void schedule_track(acp_collective *c, acp_request *request, uint32_t step)
{
    c->messages[c->open] = request;
    c->steps[c->open++] = step;
}

static int begin_send(acp_lane *lane, acp_collective *c, const acp_step *s)
{
    acp_envelope envelope = {.context = c->context, .size = s->size, .note = c->note};
    acp_request *request = NULL;
    if (unlikely(c->status != ACP_OK)) {
        envelope.size = 0;
        envelope.note = abort_reason(c);
    }
    const void *data = schedule_address(c, s->left, s->left_at);
    if (schedule_eager_send(lane, c, s, &envelope, data))
        return ACP_OK;
    int rc = acp_send(lane, s->rank, &envelope, data, &request);
    if (rc == ACP_OK && request)
        schedule_track(c, request, c->at);
    return rc;
}

int schedule_receive(acp_lane *lane, acp_collective *c, uint32_t step)
{
    const acp_step *s = &c->plan->steps[step];
    acp_envelope want = {.context = c->context, .source = s->rank, .size = s->size,
                         .note = c->note | ACP_NOTE_LEFT};
    acp_request *request;
    int rc = acp_receive(lane, &want, schedule_address(c, s->where, s->where_at), &request);
    if (rc != ACP_OK)
        return rc;
    schedule_track(c, request, step);
    if (request->entry) /* its receiver waits, or the thread that drives progress is to be rung for */
        __atomic_store_n(&request->entry->attention,
                         c->released ? ATTENTION_SLEEPS : ATTENTION_WAITS, __ATOMIC_RELAXED);
    return ACP_OK;
}

/* ACP_OK: no message is under way any more. */
static int await(acp_lane *lane, acp_collective *c)
{
    int looked = c->lights ? schedule_eager_poll(lane, c) : ACP_OK;
    if (unlikely(looked != ACP_OK))
        return looked;
    for (uint32_t i = c->open; i-- > 0;) {
        acp_request *r = c->messages[i];
        acp_envelope got = {0};
        if (!acp_request_done(r))
            continue;
        int rc = bring_first(lane, c, r);
        if (rc != ACP_OK)
            return rc; /* one at a time */
        const acp_step *s = &c->plan->steps[c->steps[i]];
        rc = acp_request_end(lane, r, &got);
        c->messages[i] = c->messages[--c->open];
        c->steps[i] = c->steps[c->open];
        abort_check(c, s, rc, &got);
    }
    if (unlikely(c->status != ACP_OK))
        schedule_cancel(lane, c);
    return c->open || c->lights ? ACP_E_HANDLE : ACP_OK;
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
    void *where = schedule_address(c, s->where, s->where_at);
    const void *left = schedule_address(c, s->left, s->left_at);
    switch (s->kind) {
    case ACP_STEP_RECEIVE:
        return schedule_eager_expect(lane, c, c->at);
    case ACP_STEP_COPY:
        if (s->size && where != left)
            memmove(where, left, s->size);
        return ACP_OK;
    case ACP_STEP_CALL:
        return ACP_COLLECTIVE_FOLD;
    default:
        if (!s->size)
            return ACP_OK;
        if (!c->fold)
            return ACP_COLLECTIVE_FOLD;
        c->fold(where, left, schedule_address(c, s->right, s->right_at), s->size / c->width);
        return ACP_OK;
    }
}

void schedule_enter(acp_engine *e)
{
    for (;;) {
        atomic_fetch_add(&e->collectives.drivers, 1);
        if (likely(!atomic_load(&e->mail.halted)) || pthread_equal(e->mail.halter, pthread_self()))
            return; /* the thread that resets would wait for itself: it may end one */
        atomic_fetch_sub(&e->collectives.drivers, 1);
        while (atomic_load(&e->mail.halted))
            sched_yield();
    }
}

void schedule_close(acp_lane *lane, acp_collective *c)
{
    abort_fail(lane, c, ACP_E_CLOSED, -1);
    atomic_store(&c->state, COLLECTIVE_OVER);
}

int schedule_advance(acp_lane *lane, acp_collective *c)
{
    const acp_plan *plan = c->plan;
    c->moves = c->again = false;
    if (unlikely(c->era != lane->engine->mail.era)) {
        schedule_close(lane, c);
        return ACP_OK;
    }
    if (unlikely(lane->engine->job.departed != c->departed))
        abort_check_losses(lane, c);
    if (unlikely(c->watched)) {
        int rc = abort_scan(lane, c);
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
            abort_fail(lane, c, rc, rc == ACP_E_LOST ? (int64_t)s->rank : -1);
        c->at++;
    }
    schedule_cancel(lane, c);
    if (unlikely(c->open))
        return ACP_E_HANDLE;
    if (unlikely(c->astray)) {
        int rc = abort_notify(lane, c);
        if (rc != ACP_OK)
            return rc;
    }
    atomic_store_explicit(&c->state, COLLECTIVE_OVER, memory_order_release);
    return ACP_OK;
}

/* The death of a rank, or a message that may be the answer to another call, ends a wait, too. */
static bool answer_doubtful(void *context)
{
    const acp_collective *c = context;
    acp_engine *e = c->engine;
    if (e->job.departed != c->departed)
        return true;
    const struct heap *h = c->watched ? mailbox_heap(e, e->job.own) : NULL;
    return h && __atomic_load_n(&mailbox_of(h)->sequence, __ATOMIC_ACQUIRE) != c->heard;
}

bool schedule_try_lock(acp_engine *e)
{
    if (pthread_mutex_trylock(&e->collectives.lock))
        return false;
    if (likely(!atomic_load(&e->mail.halted)))
        return true;
    pthread_mutex_unlock(&e->collectives.lock);
    return false;
}

/* A thread that would have driven the others found the lock taken, and may sleep by now. */
void schedule_unlock(acp_engine *e)
{
    pthread_mutex_unlock(&e->collectives.lock);
    if (atomic_load(&e->collectives.news))
        doorbell_kick(e);
}

void schedule_watch(acp_collective *c)
{
    acp_engine *e = c->engine;
    struct heap *h = mailbox_heap(e, e->job.own);
    int64_t pause = c->pause < WATCH_MOST_NS / 2 ? 2 * c->pause : WATCH_MOST_NS;
    c->pause = pause;
    c->watch_at = linux_now_ns() + (uint64_t)pause;
    if (!h || c->era != e->mail.era)
        return;
    bool listens = atomic_exchange(&c->watched, true);
    if (!listens)
        __atomic_fetch_add(&mailbox_of(h)->probing, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&e->collectives.lock); /* another thread may be driving it and changing them */
    for (uint32_t i = 0; i < c->open; i++)
        if (c->messages[i]->peer)
            flow_watch(e, c->messages[i]->peer);
    schedule_unlock(e);
    doorbell_kick(e); /* for messages that have come already, and ranks in finalize */
    if (pause == WATCH_MOST_NS)
        e->up->doubt(e);
}

bool schedule_overdue(acp_collective *c)
{
    uint64_t now = linux_now_ns(), at = c->watch_at;
    if (!at) {
        c->pause = MAIL_FIRST_NS;
        c->watch_at = now + (uint64_t)c->pause;
    }
    return at && now >= at;
}

int64_t schedule_wait_left(const acp_collective *c)
{
    int64_t left = (int64_t)(c->watch_at - linux_now_ns());
    return left > 0 ? left : 0;
}

/* Until a message is done. ACP_E_BUSY: none is, but from now on mismatches and losses are watched, too. */
static int wait(acp_collective *c, int64_t timeout_ns)
{
    bool few = c->open <= MANY, first = !c->watched && timeout_ns > MAIL_FIRST_NS;
    if (schedule_overdue(c)) {
        schedule_watch(c);
        return ACP_E_BUSY;
    }
    int rc = recv_wait_any(c->engine, c->messages + (few ? 0 : c->open - 1), few ? c->open : 1,
                           answer_doubtful, c, false, ACP_DOING_COLLECTIVE, first ? MAIL_FIRST_NS : timeout_ns);
    if (rc != ACP_E_TIMEOUT || !first)
        return rc;
    schedule_watch(c);
    return ACP_E_BUSY;
}

/* As far as it goes; `failure`: the error that ends it. More threads may wait than there are lanes. */
static int advance(acp_collective *c, int failure)
{
    acp_lane *lane = lane_await(c->engine);
    schedule_enter(c->engine);
    if (failure != ACP_OK)
        abort_fail(lane, c, failure, -1);
    int rc = schedule_advance(lane, c);
    schedule_leave(c->engine);
    acp_lane_give(lane);
    return rc;
}

static int run(acp_collective *c, int64_t timeout_ns, bool to_the_end)
{
    uint64_t start = timeout_ns == ACP_FOREVER ? 0 : linux_now_ns();
    int rc = ACP_OK;
    while (atomic_load_explicit(&c->state, memory_order_relaxed) == COLLECTIVE_RUNS) {
        rc = advance(c, rc == ACP_E_BUSY ? ACP_OK : rc);
        int64_t left = wait_left(timeout_ns, start);
        if (rc == ACP_E_HANDLE && c->lights) {
            schedule_eager_spin(c);
            rc = ACP_OK;
        } else if (rc == ACP_E_HANDLE) {
            rc = wait(c, left);
            if (rc == ACP_E_TIMEOUT && !to_the_end)
                break;
        } else if (rc == ACP_E_BUSY) {
            sched_yield();
        }
    }
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

int64_t acp_collective_called(const acp_collective *c)
{
    const acp_step *s = &c->plan->steps[c->at];
    return s->kind == ACP_STEP_CALL ? (int64_t)s->rank : -1;
}

void acp_collective_due(const acp_collective *c, void **where, const void **left,
                        const void **right, uint64_t *size)
{
    const acp_step *s = &c->plan->steps[c->at];
    *where = schedule_address(c, s->where, s->where_at);
    *left = schedule_address(c, s->left, s->left_at);
    *right = schedule_address(c, s->right, s->right_at);
    *size = s->size;
}
