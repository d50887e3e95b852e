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

void courier_later(acp_engine *e, int rc)
{
    if (rc == ACP_E_BUSY)
        atomic_store(&e->mail.due, true);
    else
        timer_until(e, now_ns() + LOOK_FOR_MEMORY_NS);
}

struct courier *courier_of(acp_engine *e, struct peer *p)
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

void courier_says(acp_lane *lane, struct courier *c, struct message *m, const void *payload,
                  uint64_t size)
{
    m->kind = ACP_MAIL_SAID;
    m->from = lane->engine->self;
    if (!c->peer->lost && link_command(lane, c->peer, COURIER_COLOR, m, payload, size) == ACP_E_SYSTEM)
        peer_mark_lost(lane->engine, c->peer); /* it waits for that message */
}

enum due flow_due(const acp_engine *e)
{
    return e->mail.due ? DUE_SOON : DUE_NOT;
}

bool couriers_push(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    bool any = false;
    atomic_store(&e->mail.due, false);
    for (struct courier *c = e->mail.couriers; c; c = c->next) {
        if (!provided(e)) {
            courier_later(e, ACP_E_FULL);
            break;
        }
        if (c->late)
            deliveries_push(lane, c);
        if (c->told)
            courier_room(lane, c);
        if (c->deliveries)
            deliveries_want(lane, c);
        if (c->parcels)
            any |= courier_push(lane, c);
    }
    return any;
}

bool couriers_have_said_all(const acp_engine *e)
{
    for (const struct courier *c = e->mail.couriers; c; c = c->next)
        for (const struct parcel *p = c->parcels; p; p = p->next)
            if (p->state != PARCEL_BEGUN && p->state != PARCEL_KEPT)
                return false;
    return true;
}

void mail_watch(acp_engine *e, struct peer *p)
{
    link_watch(e, p, COURIER_COLOR);
}

void couriers_lost(acp_lane *lane, struct peer *p)
{
    struct courier *c = p->mail.courier;
    lane->engine->mail.losses = 1;
    if (!c)
        return;
    parcels_end(lane, c, ACP_E_LOST);
    courier_tells(lane->engine, c, 0);
    c->heard = 0;
    deliveries_end(lane, c);
    if (c->late)
        atomic_store(&lane->engine->mail.due, true);
}

/* After a reset all messages that were under way are dropped. */
void couriers_reset(acp_engine *e)
{
    for (struct courier *c = e->mail.couriers; c; c = c->next) {
        parcels_drop(c, ACP_E_CLOSED);
        deliveries_drop(c);
        courier_tells(e, c, 0);
        c->heard = 0;
    }
    e->mail.late = 0;
}

void couriers_close(acp_engine *e)
{
    couriers_reset(e);
    while (e->mail.couriers) {
        struct courier *c = e->mail.couriers;
        e->mail.couriers = c->next;
        c->peer->mail.courier = NULL;
        free(c);
    }
}
