/* Send queue: messages that wait for credit, or for memory: each destination's in their order. */
#include "messages/message_send_queue.h"
#include "core/state/peer.h"
#include "messages/deliver.h"
#include "messages/flow_send.h"
#include "messages/recv_wait.h"
#include "messages/request.h"
#include "messages/send.h"
#include "peers/rank_table.h"
#include "progress/doorbell.h"

#include <stdlib.h>

/* With the lock held: the first queued message to `to` that has not arrived, before `r`. */
static acp_request *first_of(const acp_engine *e, const struct peer *to, const acp_request *r)
{
    acp_request *first = e->mail.waiting;
    while (first && first != r && (first->peer != to || first->step != STEP_ARRIVE))
        first = first->next;
    return first == r ? NULL : first;
}

bool message_send_queue_has(acp_engine *e, const struct peer *to)
{
    pthread_mutex_lock(&e->mail.lock);
    bool any = first_of(e, to, NULL) != NULL;
    pthread_mutex_unlock(&e->mail.lock);
    return any;
}

/* No event tells that a heap has memory, nor that there is room if too many wait for it. */
static bool stuck(const acp_request *r)
{
    return r->step != STEP_ARRIVE || r->landing.looks;
}

static void enqueue(acp_engine *e, acp_request *r)
{
    r->next = NULL;
    *e->mail.waiting_end = r;
    e->mail.waiting_end = &r->next;
    atomic_fetch_add(&e->mail.sends, 1);
}

static void dequeue(acp_engine *e, acp_request **at)
{
    acp_request *r = *at;
    *at = r->next;
    if (e->mail.waiting_end == &r->next)
        e->mail.waiting_end = at;
    atomic_fetch_sub(&e->mail.sends, 1);
}

int message_send_queue_add(acp_lane *lane, const acp_request *draft, acp_request **request)
{
    acp_engine *e = lane->engine;
    acp_request *r = request_new(lane, REQUEST_SEND);
    if (!r)
        return ACP_E_SYSTEM;
    *r = *draft;
    pthread_mutex_lock(&e->mail.lock);
    enqueue(e, r);
    pthread_mutex_unlock(&e->mail.lock);
    atomic_fetch_add(&e->mail.stuck, 1); /* until a leader has looked */
    doorbell_kick(e); /* room may have come since, or the caller goes on to compute */
    *request = r;
    return ACP_OK;
}

/* With the lock held: its place in the queue; NULL: none. */
static acp_request **place_of(acp_engine *e, const acp_request *r)
{
    acp_request **at = &e->mail.waiting;
    while (*at && *at != r)
        at = &(*at)->next;
    return *at ? at : NULL;
}

/* A send by load and store that has not arrived, or of which all bytes are still here. */
static int withdraw_near(acp_lane *lane, acp_request **at, acp_request **request, const uint64_t *note)
{
    acp_request *r = *at;
    if (r->step == STEP_OPEN) {
        int rc = deliver_withdraw(lane, &r->landing, note);
        if (rc != ACP_OK)
            return rc;
    } else if (r->step != STEP_ARRIVE) {
        return ACP_E_HANDLE;
    } else if (note) {
        r->envelope.size = 0;
        r->envelope.note = *note;
        r->data = NULL;
        r->alone = true;
        *request = NULL;
        return ACP_OK;
    }
    dequeue(lane->engine, at);
    request_over(r, ACP_E_CANCELLED);
    return ACP_OK;
}

int message_send_queue_withdraw(acp_lane *lane, acp_request **request, const uint64_t *note)
{
    acp_engine *e = lane->engine;
    pthread_mutex_lock(&e->mail.lock);
    acp_request **at = place_of(e, *request);
    int rc = at ? withdraw_near(lane, at, request, note) : ACP_E_HANDLE;
    pthread_mutex_unlock(&e->mail.lock);
    return at ? rc : flow_send_withdraw(*request, note);
}

enum due message_send_queue_due(const acp_engine *e)
{
    return !e->mail.sends || e->mail.halted ? DUE_NOT : e->mail.stuck ? DUE_SOON : DUE_AWAKE;
}

bool message_send_queue_step(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    bool any = false;
    uint32_t waits = 0;
    pthread_mutex_lock(&e->mail.lock);
    if (unlikely(atomic_load(&e->mail.halted))) {
        pthread_mutex_unlock(&e->mail.lock);
        return false;
    }
    for (acp_request **at = &e->mail.waiting, *r; (r = *at);) {
        uint64_t before = r->at + r->step;
        acp_request *first = first_of(e, r->peer, r);
        int rc = send_advance(lane, r, first);
        any |= r->at + r->step != before;
        if (rc == ACP_E_BUSY && r->step == STEP_ARRIVE && first)
            first->landing.before = 0; /* a later one might meet the receive that fits it */
        if (rc == ACP_E_FULL || rc == ACP_E_BUSY) {
            waits += rc == ACP_E_BUSY || stuck(r);
            at = &r->next;
            continue;
        }
        dequeue(e, at);
        any = true;
        if (r->alone)
            request_free(lane, r);
        else
            request_over(r, rc);
    }
    atomic_store(&e->mail.stuck, waits);
    pthread_mutex_unlock(&e->mail.lock);
    return any;
}

int message_send_queue_finish(acp_lane *lane, acp_request *r)
{
    acp_engine *e = lane->engine;
    while (!acp_request_done(r) && acp_request_cancel(lane, r) == ACP_E_BUSY &&
           acp_request_wait(e, r, MAIL_AGAIN_NS) != ACP_E_CLOSED)
        continue;
    while (!acp_request_done(r) && acp_request_wait(e, r, ACP_FOREVER) == ACP_E_INTERRUPTED)
        continue;
    if (!acp_request_done(r)) {
        pthread_mutex_lock(&e->mail.lock);
        acp_request **at = place_of(e, r);
        if (at)
            dequeue(e, at); /* the request is about to be freed */
        pthread_mutex_unlock(&e->mail.lock);
        return lane_fail(lane, ACP_E_CLOSED, 0, r->envelope.size);
    }
    if (r->status != ACP_OK) {
        lane_fail(lane, r->status, 0, r->envelope.size);
        lane->fault.rank = rank_table_rank(e, r->peer->slot);
    }
    return r->status;
}

/* The engine is not in use; the heaps have been emptied. */
void message_send_queue_reset(acp_engine *e)
{
    atomic_fetch_add(&e->mail.era, 1);
    for (uint32_t i = 0; i <= LANE_LOCKED; i++) /* the others when they are taken next (lane.c) */
        e->lanes[i].entry_count = 0;
    pthread_mutex_lock(&e->mail.lock);
    while (e->mail.waiting) {
        acp_request *r = e->mail.waiting;
        dequeue(e, &e->mail.waiting);
        if (r->alone)
            request_free(&e->lanes[LANE_CALLER], r);
        else
            request_over(r, ACP_E_CLOSED);
    }
    pthread_mutex_unlock(&e->mail.lock);
}
