/* Flows: one for each process that messages are exchanged with by link; their scheduling and their end. */
#include "messages/flow.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "messages/flow_recv.h"
#include "messages/flow_send.h"
#include "operations/protocol_tcp.h"
#include "operations/reserve.h"
#include "peers/peer.h"
#include "progress/reactor.h"
#include "transport/link.h"

#include <stdlib.h>

#define LOOK_FOR_MEMORY_NS ((uint64_t)10000000)

void flow_retry(acp_engine *e, int rc)
{
    if (rc == ACP_E_BUSY)
        atomic_store(&e->mail.due, true);
    else
        reactor_timer(e, linux_now_ns() + LOOK_FOR_MEMORY_NS);
}

struct courier *flow_of(acp_engine *e, struct peer *p)
{
    struct courier *c = p->mail.courier;
    _Static_assert(sizeof *c <= KEPT_SMALL, "memory is kept for one");
    if (c || !(c = mail_memory(e, sizeof *c)))
        return c;
    *c = (struct courier){.peer = p};
    c->parcels_end = &c->parcels;
    c->deliveries_end = &c->deliveries;
    c->late_end = &c->late;
    c->asks_end = &c->asks;
    c->next = e->mail.couriers;
    e->mail.couriers = c;
    p->mail.courier = c;
    return c;
}

void flow_answer(acp_lane *lane, struct courier *c, struct message *m, const void *payload,
                 uint64_t size)
{
    m->kind = ACP_MAIL_SAID;
    m->from = lane->engine->self;
    if (!c->peer->lost && protocol_tcp_command(lane, c->peer, COURIER_COLOR, m, payload, size) == ACP_E_SYSTEM)
        peer_mark_lost(lane->engine, c->peer); /* it waits for that message */
}

enum due flow_due(const acp_engine *e)
{
    return e->mail.due ? DUE_SOON : DUE_NOT;
}

bool flow_push_all(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    bool any = false;
    atomic_store(&e->mail.due, false);
    for (struct courier *c = e->mail.couriers; c; c = c->next) {
        if (!provided(e)) {
            flow_retry(e, ACP_E_FULL);
            break;
        }
        if (c->late)
            flow_recv_retry(lane, c);
        if (c->told)
            flow_recv_grant(lane, c);
        if (c->deliveries)
            flow_recv_want(lane, c);
        if (c->parcels)
            any |= flow_send_push(lane, c);
    }
    return any;
}

bool flow_all_begun(const acp_engine *e)
{
    for (const struct courier *c = e->mail.couriers; c; c = c->next)
        for (const struct parcel *p = c->parcels; p; p = p->next)
            if (p->state != PARCEL_BEGUN && p->state != PARCEL_KEPT)
                return false;
    return true;
}

void flow_watch(acp_engine *e, struct peer *p)
{
    link_watch(e, p, COURIER_COLOR);
}

void flow_lost(acp_lane *lane, struct peer *p)
{
    struct courier *c = p->mail.courier;
    lane->engine->mail.losses = 1;
    if (!c)
        return;
    flow_send_fail(lane, c, ACP_E_LOST);
    flow_recv_set_told(lane->engine, c, 0);
    c->heard = 0;
    flow_recv_lost(lane, c);
    if (c->late)
        atomic_store(&lane->engine->mail.due, true);
}

/* After a reset all messages that were under way are dropped. */
void flow_reset(acp_engine *e)
{
    for (struct courier *c = e->mail.couriers; c; c = c->next) {
        flow_send_drop(c, ACP_E_CLOSED);
        flow_recv_drop(c);
        flow_recv_set_told(e, c, 0);
        c->heard = 0;
    }
    e->mail.late = 0;
}

void flow_close(acp_engine *e)
{
    flow_reset(e);
    while (e->mail.couriers) {
        struct courier *c = e->mail.couriers;
        e->mail.couriers = c->next;
        c->peer->mail.courier = NULL;
        free(c);
    }
}
