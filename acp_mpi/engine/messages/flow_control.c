/* Flow control: a receiver's answers about the messages of this process. */
#include "messages/flow_control.h"
#include "core/lane.h"
#include "messages/flow.h"
#include "messages/flow_send.h"
#include "messages/flow_solicit.h"
#include "messages/mailbox.h"
#include "operations/reserve.h"
#include "peers/peer.h"

#include <stdlib.h>
#include <string.h>

static struct outgoing *outgoing_of(const struct flow *c, uint64_t id)
{
    struct outgoing *p = c->outgoing;
    while (p && p->id != id)
        p = p->next;
    return p;
}

/* Its bytes have come back: from now on they are here. */
static void take_back(acp_lane *lane, struct flow *c, uint64_t id, const void *payload,
                      uint64_t size)
{
    struct outgoing *p = flow_send_new(lane->engine, c, id);
    if (!p || !(p->own = reserve_take(lane->engine, size))) {
        peer_mark_lost(lane->engine, c->peer); /* the bytes that it waits for are lost */
        return;
    }
    memcpy(p->own, payload, size);
    c->copied += size;
    p->data = p->own;
    p->envelope.size = size;
    p->state = OUTGOING_KEPT;
}

void flow_control_handle(acp_lane *lane, struct flow *c, const struct message *m,
                         const unsigned char *payload, uint64_t size)
{
    struct outgoing *p = outgoing_of(c, m->id);
    if (m->flags == WORD_TAKEN && p) {
        p->taken = true;
    } else if (m->flags == WORD_KEEP) {
        if (!c->heard)
            c->heard = WORD_KEEP;
        if (p && (p->state == OUTGOING_BEGUN || p->state == OUTGOING_TRIED)) {
            p->state = OUTGOING_KEPT;
            p->done = 0;
        } else if (!p && size) {
            take_back(lane, c, m->id, payload, size);
        }
    } else if (m->flags == WORD_FULL) {
        c->heard = WORD_FULL;
        c->full_at = m->after;
        for (p = c->outgoing; p; p = p->next)
            p->began_in_vain = false;
    } else if (m->flags == WORD_ROOM) {
        c->heard = 0;
        flow_solicit_drop(c);
    } else if (m->flags == WORD_ASK) {
        flow_solicit_arrived(c, m);
    } else if (m->flags == WORD_WANT) {
        if (p && (p->state == OUTGOING_KEPT || p->state == OUTGOING_BACK) && !p->block) {
            p->state = OUTGOING_BEGUN;
            p->taken = true;
        }
    } else if (p && p->state == OUTGOING_BACK && m->flags == WORD_MET) {
        p->met = true;
        p->state = OUTGOING_KEPT;
    } else if (p && p->state == OUTGOING_BACK) {
        flow_send_cancelled(c, p);
        p = NULL;
    } else if (p && p->state == OUTGOING_TRIED) {
        bool met = m->flags == WORD_MET;
        p->state = met ? OUTGOING_BEGUN : OUTGOING_WAITING;
        p->taken = met;
        p->done = met && p->envelope.size <= MAIL_INLINE ? p->envelope.size : 0;
    }
    if (p && p->state != OUTGOING_TRIED)
        flow_solicit_done(c, p);
    if (c->outgoing)
        flow_send_push(lane, c);
}
