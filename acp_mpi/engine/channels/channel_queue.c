/* Sends and receives that go on beside the program. Each end has a queue of them. It is served, the oldest first, by
 * whoever finds the turn of the end free: the caller that begins one, a thread that gives the turn back, or the leader
 * when something has changed. A call that waits comes behind the queue. */
#include "channels/channel_queue.h"
#include "base/linux.h"
#include "channels/channel.h"
#include "channels/channel_attend.h"
#include "core/membarrier.h"
#include "core/state/peer.h"
#include "operations/any_source.h"
#include "peers/peer.h"
#include "progress/doorbell.h"
#include "transport/link.h"

#include <stdlib.h>
#include <string.h>

#define SERVER 2u /* the turn of no thread */

struct acp_channel_op {
    acp_channel *end;
    acp_channel_op *next;
    unsigned char *data; /* the caller's */
    uint64_t room;       /* bytes of `data` */
    uint64_t whole;      /* bytes of the message */
    uint64_t at;         /* of which that many have been moved */
    uint64_t sent;       /* bytes of the next slot that a link has taken */
    bool begun;
    bool served; /* somebody is at it; with the engine's lock */
    int status;
    acp_flag done;
};

void channel_queue_stir(acp_engine *e)
{
    if (atomic_load(&e->channels.queued))
        atomic_store(&e->channels.stirred, true);
}

/* True: it is over. */
static bool send_pieces(acp_channel *c, acp_channel_op *op)
{
    uint64_t rest = op->whole - op->at, part = rest < c->shape.size ? rest : c->shape.size;
    op->status = channel_commit_now(c, op->data + op->at, part, rest, op->at == 0, &op->sent);
    op->begun |= op->sent || op->status == ACP_OK;
    if (op->status == ACP_E_BUSY) {
        atomic_store(&c->engine->channels.crowded, true);
        return false;
    }
    op->at += part;
    op->sent = 0;
    return op->status != ACP_OK || op->at == op->whole;
}

/* Pieces of a message whose sender has given up are dropped. */
static bool take_pieces(acp_channel *c, acp_channel_op *op)
{
    acp_piece p;
    op->status = channel_take_piece(c, &p);
    if (op->status != ACP_OK)
        return true;
    if (p.first) {
        op->begun = true;
        op->whole = p.rest;
        op->at = 0;
    }
    bool mine = op->begun && op->whole - op->at == p.rest;
    if (mine && op->at < op->room)
        memcpy(op->data + op->at, p.data, p.size < op->room - op->at ? p.size : op->room - op->at);
    op->at += mine ? p.size : 0;
    acp_channel_release(c, p.number);
    if (!op->begun || op->at < op->whole)
        return false;
    op->status = op->whole > op->room ? ACP_E_TRUNCATED : ACP_OK;
    return true;
}

/* Until it is over, or must wait. */
static bool serve_one(acp_channel *c, acp_channel_op *op)
{
    for (;;) {
        int rc = channel_state(c);
        if (rc == ACP_E_BUSY)
            return false;
        if (rc != ACP_OK) {
            op->status = rc;
            return true;
        }
        if (c->shape.sends && c->way == CHANNEL_UNKNOWN)
            channel_connect(c);
        else if (c->shape.sends ? send_pieces(c, op) : take_pieces(c, op))
            return true;
        else if (op->status == ACP_E_BUSY)
            return false;
    }
}

static void unlist(acp_engine *e, const acp_channel *c)
{
    acp_channel *listed = atomic_load(&e->channels.queued), **at = &listed;
    while (*at != c)
        at = &(*at)->queued_next;
    *at = c->queued_next;
    atomic_store(&e->channels.queued, listed);
}

/* Out of the queue, with the lock. */
static void take_out(acp_channel *c, acp_channel_op *op)
{
    acp_channel_op *before = atomic_load(&c->queue);
    if (before == op) {
        before = NULL;
        atomic_store(&c->queue, op->next);
    } else {
        while (before->next != op)
            before = before->next;
        before->next = op->next;
    }
    if (!op->next)
        c->queue_last = before;
    if (!c->queue_last)
        unlist(c->engine, c);
}

/* The oldest, from now on served. */
static acp_channel_op *next_op(acp_channel *c)
{
    pthread_mutex_lock(&c->engine->lock);
    acp_channel_op *op = atomic_load(&c->queue);
    if (op)
        op->served = true;
    pthread_mutex_unlock(&c->engine->lock);
    return op;
}

/* Once it is done its owner frees it. */
static void leave_op(acp_channel *c, acp_channel_op *op, bool over)
{
    pthread_mutex_lock(&c->engine->lock);
    op->served = false;
    if (over) {
        take_out(c, op);
        atomic_store(&op->done.is, 1);
    }
    pthread_mutex_unlock(&c->engine->lock);
}

static void arm_queue(acp_channel *c, bool on)
{
    if (c->queue_attends != on)
        (on ? channel_attend_begin : channel_attend_end)(c->engine);
    c->queue_attends = on;
    if (c->queue_armed == on)
        return;
    c->queue_armed = channel_arm(c, on) && on;
    if (c->queue_armed && c->way != CHANNEL_FAR)
        membarrier_wait(c->engine);
}

/* With the turn. False: the oldest must wait. */
static bool serve_all(acp_channel *c)
{
    bool over = true, any = false;
    for (acp_channel_op *op; over && (op = next_op(c)); any |= over) {
        over = serve_one(c, op);
        leave_op(c, op, over);
    }
    arm_queue(c, !over);
    if (any)
        channel_wake_here(c->engine);
    return over;
}

static bool take_turn(acp_channel *c)
{
    uint64_t none = 0;
    return atomic_compare_exchange_strong(&c->turn, &none, SERVER);
}

static void serve(acp_channel *c)
{
    while (atomic_load(&c->queue)) {
        if (!take_turn(c)) {
            membarrier_wait(c->engine);
            if (!take_turn(c))
                return; /* its holder looks at the queue after that */
        }
        bool over = serve_all(c);
        atomic_store(&c->turn, 0);
        if (atomic_load(&c->turn_waiters))
            channel_wake_here(c->engine);
        /* What came before it was armed, or while the turn was taken, has woken nobody. */
        if (!over && (channel_state(c) == ACP_E_BUSY || atomic_load(&c->engine->channels.crowded)))
            return;
    }
}

void channel_queue_serve(acp_channel *c)
{
    serve(c);
    if (atomic_load(&c->queue) && atomic_load(&c->engine->channels.crowded))
        doorbell_kick(c->engine); /* the leader may sleep, and the link have room again */
}

acp_channel_op *acp_channel_begin(acp_channel *c, void *data, uint64_t size)
{
    acp_engine *e = c->engine;
    acp_channel_op *op = calloc(1, sizeof *op);
    if (!op)
        return NULL;
    op->end = c;
    op->data = data;
    op->room = op->whole = size;
    pthread_mutex_lock(&e->lock);
    if (c->queue_last) {
        c->queue_last->next = op;
    } else {
        c->queued_next = atomic_load(&e->channels.queued);
        atomic_store(&e->channels.queued, c);
        atomic_store(&c->queue, op);
    }
    c->queue_last = op;
    pthread_mutex_unlock(&e->lock);
    channel_queue_serve(c);
    if (!acp_flag_is_set(&op->done)) {
        peer_watch(e, c->peer);
        link_watch(e, c->peer, FLOW_COLOR);
    }
    return op;
}

const acp_flag *acp_channel_op_done(const acp_channel_op *op)
{
    return &op->done;
}

static bool is_done(void *context)
{
    const acp_channel_op *op = context;
    return acp_flag_is_set(&op->done);
}

static void watch_other_end(acp_engine *e, const void *whom)
{
    const acp_channel_op *op = whom;
    peer_watch(e, op->end->peer);
    link_watch(e, op->end->peer, FLOW_COLOR);
}

int acp_channel_op_wait(acp_channel_op *op, int64_t timeout_ns)
{
    const struct awaited what = {is_done, op, watch_other_end, NULL, op, false};
    acp_doing doing = op->end->shape.sends ? ACP_DOING_SEND : ACP_DOING_RECEIVE;
    return is_done(op) ? ACP_OK : any_source_wait(op->end->engine, &what, timeout_ns, doing);
}

int acp_channel_op_cancel(acp_channel_op *op)
{
    acp_engine *e = op->end->engine;
    pthread_mutex_lock(&e->lock);
    int rc = acp_flag_is_set(&op->done) ? ACP_E_HANDLE : op->served ? ACP_E_BUSY : op->begun ? ACP_E_HANDLE : ACP_OK;
    if (rc == ACP_OK) {
        take_out(op->end, op);
        atomic_store(&op->done.is, 1);
    }
    pthread_mutex_unlock(&e->lock);
    if (rc == ACP_OK)
        channel_wake_here(e);
    return rc;
}

int acp_channel_op_end(acp_channel_op *op, uint64_t *size)
{
    int rc = op->status;
    *size = op->whole;
    free(op);
    return rc;
}

enum due channel_queue_due(const acp_engine *e)
{
    return atomic_load(&e->channels.stirred) ? DUE_NOW : atomic_load(&e->channels.crowded) ? DUE_SOON : DUE_NOT;
}

/* Each end once. One that is served stays, also when its owner frees it meanwhile. */
bool channel_queue_poll(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    struct channels_state *s = &e->channels;
    bool any = atomic_exchange(&s->stirred, false);
    atomic_store(&s->crowded, false);
    pthread_mutex_lock(&e->lock);
    s->pass++;
    for (acp_channel *c = atomic_load(&s->queued); c;) {
        if (c->pass == s->pass || channel_state(c) == ACP_E_BUSY) {
            c = c->queued_next;
            continue;
        }
        c->pass = s->pass;
        atomic_fetch_add(&c->inside, 1);
        pthread_mutex_unlock(&e->lock);
        serve(c);
        pthread_mutex_lock(&e->lock);
        s->reap |= c->closed;
        atomic_fetch_sub(&c->inside, 1);
        c = atomic_load(&s->queued);
    }
    pthread_mutex_unlock(&e->lock);
    return any;
}
