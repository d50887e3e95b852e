/* Messages of this process to others by link: at once if they fit into one frame and the link has room, else step by
 * step, by the leader. */
#include "messages/flow_send.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "messages/flow.h"
#include "messages/flow_solicit.h"
#include "messages/mailbox.h"
#include "messages/request.h"
#include "messages/sender_heap.h"
#include "operations/protocol_tcp.h"
#include "operations/reserve.h"
#include "peers/peer.h"
#include "progress/doorbell.h"
#include "transport/frame.h"
#include "transport/link.h"
#include "transport/link_io.h"
#include "transport/tcp_send_queue.h"

#include <stdlib.h>
#include <string.h>

#define COPIED_MOST ((uint64_t)128 << 10) /* longer ones take the while to go out in any case */
#define COPIED_IN_ALL ((uint64_t)4 << 20) /* for one receiver */

static int control_say(acp_lane *lane, struct flow *c, struct message *m, const void *payload,
                       uint64_t size)
{
    m->from = lane->engine->self;
    return protocol_tcp_command(lane, c->peer, FLOW_COLOR, m, payload, size);
}

static struct message opening(uint64_t id, const acp_envelope *envelope)
{
    return (struct message){.kind = ACP_MAIL, .id = id, .dst = envelope->context,
                            .src = (uint64_t)envelope->tag, .a = envelope->size,
                            .b = envelope->note};
}

static bool one_frame(uint64_t size)
{
    return size <= FRAME_PAYLOAD_MOST;
}

/* There is memory for a frame, too: the peer would wait for the rest of a message that has begun. */
static bool room(acp_engine *e, const struct flow *c)
{
    const struct link *link = c->peer->tcp.links[FLOW_COLOR];
    bool provided = !link || tcp_send_queue_provide(&e->tcp.outbox_spares);
    if (!provided)
        flow_retry(e, ACP_E_FULL);
    return provided && (!link || link_io_room(link));
}

/* May a message begin now, and are its bytes to go with it? */
static bool may_begin(acp_engine *e, const struct flow *c)
{
    return c->heard != WORD_FULL && room(e, c);
}
static bool may_bring(const struct flow *c, uint64_t size)
{
    return size <= MAIL_INLINE || c->heard != WORD_KEEP;
}

struct outgoing *flow_send_new(acp_engine *e, struct flow *c, uint64_t id)
{
    struct outgoing *p = reserve_take(e, sizeof *p);
    _Static_assert(sizeof *p <= KEPT_SMALL, "memory is kept for one");
    if (!p)
        return NULL;
    *p = (struct outgoing){.id = id ? id : ++e->mail.outgoing_serial};
    *c->outgoing_end = p;
    c->outgoing_end = &p->next;
    return p;
}

/* The bytes are the sender's again: ends the request. */
static void outgoing_settle(struct outgoing *p, int status)
{
    if (p->request)
        request_over(p->request, status);
    p->request = NULL;
}

static void outgoing_end(struct flow *c, struct outgoing **at)
{
    struct outgoing *p = *at;
    *at = p->next;
    if (!*at)
        c->outgoing_end = at;
    if (p->own)
        c->copied -= p->envelope.size;
    free(p->own);
    free(p);
}

static int begin(acp_lane *lane, struct flow *c, struct outgoing *p)
{
    struct message m = opening(p->id, &p->envelope);
    uint64_t first = one_frame(m.a) ? m.a : FRAME_PAYLOAD_MOST;
    bool bring = may_bring(c, m.a);
    m.flags = bring ? 0 : FLOW_KEPT;
    p->state = bring ? OUTGOING_BEGUN : OUTGOING_KEPT;
    p->done = bring ? first : 0;
    p->taken = bring && one_frame(m.a);
    return control_say(lane, c, &m, p->data, p->done);
}

int flow_send_try(acp_lane *lane, struct flow *c, struct outgoing *p, uint8_t asked, uint64_t before)
{
    struct message m = opening(p->id, &p->envelope);
    m.flags = FLOW_MEET | asked;
    m.after = before;
    p->state = OUTGOING_TRIED;
    return control_say(lane, c, &m, p->data, m.a <= MAIL_INLINE ? m.a : 0);
}

static int bring_more(acp_lane *lane, struct flow *c, struct outgoing *p)
{
    uint64_t left = p->envelope.size - p->done;
    uint64_t size = one_frame(left) ? left : FRAME_PAYLOAD_MOST;
    struct message m = {.kind = ACP_MAIL_PART, .id = p->id, .a = p->done};
    int rc = control_say(lane, c, &m, p->data + p->done, size);
    p->done += size;
    return rc;
}

/* Moves a slice to the own heap; when all is there the receiver is told. ACP_E_BUSY: later. */
static int keep_more(acp_lane *lane, struct flow *c, struct outgoing *p)
{
    acp_engine *e = lane->engine;
    struct heap *h = mailbox_heap(e, e->job.own);
    int rc = !h         ? lane_fail(lane, ACP_E_FULL, ACP_GA_NULL, p->envelope.size)
             : p->block ? ACP_OK
                        : sender_heap_take(lane, h, c->peer, p->envelope.size, &p->block, 0);
    if (rc != ACP_OK)
        return rc;
    uint64_t left = p->envelope.size - p->done, size = left < SLICE_BYTES ? left : SLICE_BYTES;
    memcpy(sender_heap_bytes(h, p->block) + p->done, p->data + p->done, size);
    p->done += size;
    if (p->done < p->envelope.size)
        return ACP_OK;
    uint64_t block = p->block;
    p->block = 0; /* the peer's from now on, even if it is dead */
    struct message m = {.kind = ACP_MAIL_WHERE, .id = p->id,
                        .after = sender_heap_hand_over(e, h, c->peer, block)};
    rc = control_say(lane, c, &m, NULL, 0);
    if (rc != ACP_OK) /* the peer does not learn of it */
        sender_heap_give(lane, h, block, c->peer->slot, 0);
    return rc;
}

/* All bytes are on their way, but the receiver may still answer that they stay here. A copy of a shorter message frees
 * its sender from waiting for that answer. */
static void keep_copy(struct flow *c, struct outgoing *p)
{
    if (!p->request || p->taken || p->done < p->envelope.size || p->envelope.size > COPIED_MOST ||
        c->copied + p->envelope.size > COPIED_IN_ALL || !(p->own = malloc(p->envelope.size)))
        return;
    memcpy(p->own, p->data, p->envelope.size);
    p->data = p->own;
    c->copied += p->envelope.size;
    outgoing_settle(p, ACP_OK);
}

/* Begins waiting messages, in their order; true if any began. */
static bool begin_some(acp_lane *lane, struct flow *c, int *rc)
{
    acp_engine *e = lane->engine;
    bool any = false;
    for (struct outgoing *p = c->outgoing; p && *rc == ACP_OK; p = p->next) {
        if (p->state == OUTGOING_TRIED && (c->heard != WORD_FULL || !p->began_in_vain))
            return any; /* it may be the next to go: the receiver has, or had, room since it was tried */
        if (p->state != OUTGOING_WAITING || (c->heard == WORD_FULL && p->began_in_vain))
            continue;
        if (!room(e, c))
            break;
        p->began_in_vain = c->heard == WORD_FULL;
        *rc = p->began_in_vain ? flow_send_try(lane, c, p, 0, c->full_at) : begin(lane, c, p);
        any = true;
    }
    if (c->heard == WORD_FULL && *rc == ACP_OK && room(e, c))
        any |= flow_solicit_answer(lane, c, rc);
    return any;
}

/* One step of each message that has begun, while there is room; true if more could go at once. Copies into the own
 * heap go on in a later turn: the lock is held. */
static bool go_on(acp_lane *lane, struct flow *c, int *rc)
{
    acp_engine *e = lane->engine;
    bool any = false;
    for (struct outgoing **at = &c->outgoing, *p; (p = *at) && *rc == ACP_OK;) {
        bool ready = false;
        if (p->state == OUTGOING_BEGUN) {
            if (p->done < p->envelope.size && room(e, c)) {
                *rc = bring_more(lane, c, p);
                any = true;
            }
            if (*rc == ACP_OK)
                keep_copy(c, p);
            ready = p->taken && p->done == p->envelope.size;
        } else if (p->state == OUTGOING_KEPT) {
            int kept = keep_more(lane, c, p);
            ready = kept == ACP_OK && p->done == p->envelope.size;
            if (kept == ACP_E_BUSY || kept == ACP_E_FULL)
                flow_retry(e, kept);
            else if (kept == ACP_OK && !ready)
                flow_retry(e, ACP_E_BUSY); /* its next turn */
            else
                *rc = kept;
        }
        if (*rc == ACP_OK && ready) {
            outgoing_settle(p, ACP_OK);
            outgoing_end(c, at);
        } else {
            at = &p->next;
        }
    }
    return any;
}

void flow_send_drop(struct flow *c, int status)
{
    flow_solicit_drop(c);
    while (c->outgoing) {
        outgoing_settle(c->outgoing, status);
        outgoing_end(c, &c->outgoing);
    }
}

/* A block that the peer does not know of goes back; if the heap is held just then, at the peer's death. */
void flow_send_fail(acp_lane *lane, struct flow *c, int status)
{
    acp_engine *e = lane->engine;
    struct heap *h = mailbox_heap(e, e->job.own);
    for (struct outgoing *p = c->outgoing; p; p = p->next)
        if (p->block && sender_heap_drop(lane, h, p->block, 0) == ACP_E_BUSY)
            sender_heap_hand_over(e, h, c->peer, p->block);
    flow_send_drop(c, status);
}

bool flow_send_push(acp_lane *lane, struct flow *c)
{
    int rc = ACP_OK;
    bool any = false, more = true;
    for (; more && rc == ACP_OK; any |= more) {
        struct link *link = c->peer->tcp.links[FLOW_COLOR];
        bool corks = link && !link->corked; /* frames of one turn go out together */
        if (corks)
            link->corked = true;
        more = begin_some(lane, c, &rc);
        more |= go_on(lane, c, &rc);
        if (corks && (link = c->peer->tcp.links[FLOW_COLOR]))
            link_io_uncork(lane, link);
    }
    if (rc != ACP_OK)
        flow_send_fail(lane, c, rc);
    return any;
}

/* Queues a message that does not go at once. */
static void outgoing_post(acp_lane *lane, struct flow *c, acp_request *r, const void *data)
{
    acp_engine *e = lane->engine;
    struct outgoing *p = flow_send_new(e, c, 0);
    if (!p) {
        request_over(r, ACP_E_SYSTEM);
        return;
    }
    p->state = OUTGOING_WAITING;
    p->envelope = r->envelope;
    p->data = data;
    p->request = r;
    flow_solicit_match(c, p);
    flow_send_push(lane, c);
    if (e->mail.due || atomic_load(&e->progress.callers)) /* another thread may wait for this progress */
        doorbell_kick(e);
}

void flow_send_cancelled(struct flow *c, struct outgoing *p)
{
    struct outgoing **at = &c->outgoing;
    while (*at != p)
        at = &(*at)->next;
    outgoing_settle(p, ACP_E_CANCELLED);
    outgoing_end(c, at);
}

/* Takes back a message that the receiver knows of while there is no memory for its bytes. ACP_E_BUSY: the receiver has
 * been queried whether a receive has it; a note is taken in any case. */
static int ask_back(struct flow *c, struct outgoing *p, const uint64_t *note)
{
    acp_lane *lane = &p->request->engine->lanes[LANE_LOCKED];
    struct message m = {.kind = ACP_MAIL_WHERE, .id = p->id, .flags = note ? FLOW_LEFT : 0,
                        .b = note ? *note : 0};
    if ((p->met && !note) || control_say(lane, c, &m, NULL, 0) != ACP_OK)
        return ACP_E_HANDLE;
    p->state = OUTGOING_BACK;
    return note ? ACP_OK : ACP_E_BUSY;
}

int flow_send_withdraw(acp_request *r, const uint64_t *note)
{
    acp_engine *e = r->engine;
    int rc = ACP_E_HANDLE;
    bool ended = e->stopping || r->peer->lost || r->peer->gone || peer_left(r->peer); /* no answer will come */
    pthread_mutex_lock(&e->lock);
    struct flow *c = r->peer->mail.flow;
    struct outgoing *p = c ? c->outgoing : NULL;
    while (p && p->request != r)
        p = p->next;
    if (p && (p->state == OUTGOING_WAITING || ended))
        rc = ACP_OK;
    else if (p && p->state == OUTGOING_KEPT && !p->block)
        rc = ask_back(c, p, note);
    else if (p && (p->state == OUTGOING_TRIED || p->state == OUTGOING_BACK ||
                    (p->state == OUTGOING_BEGUN && !p->taken)))
        rc = ACP_E_BUSY; /* the peer is about to answer */
    if (rc == ACP_OK && note && p->state == OUTGOING_WAITING && !ended) {
        outgoing_settle(p, ACP_E_CANCELLED);
        p->envelope.size = 0;
        p->envelope.note = *note;
    } else if (rc == ACP_OK) {
        flow_send_cancelled(c, p);
    }
    pthread_mutex_unlock(&e->lock);
    return rc;
}

int flow_send_message(acp_lane *lane, struct peer *to, const acp_envelope *envelope, const void *data,
                      acp_request **request)
{
    acp_engine *e = lane->engine;
    int rc = ACP_OK;
    pthread_mutex_lock(&e->lock);
    struct flow *c = flow_of(e, to);
    *request = NULL;
    if (!c) {
        rc = lane_fail(lane, ACP_E_SYSTEM, ACP_GA_NULL, envelope->size);
    } else if (!c->outgoing && one_frame(envelope->size) && may_begin(e, c) &&
               may_bring(c, envelope->size)) {
        struct message m = opening(++e->mail.outgoing_serial, envelope);
        m.from = e->self;
        rc = protocol_tcp_mail(lane, to, FLOW_COLOR, &m, data, envelope->size, false);
    } else if ((*request = request_new(lane, REQUEST_SEND))) {
        (*request)->peer = to;
        (*request)->envelope = *envelope;
        outgoing_post(lane, c, *request, data);
    } else {
        rc = lane->fault.status;
    }
    pthread_mutex_unlock(&e->lock);
    return rc;
}
