/* A flow comes with the first message by link; its receiver answers, and a flow that could not go on is tried again. */
#include "messages/flow.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "operations/protocol_tcp.h"
#include "operations/reserve.h"
#include "peers/peer.h"
#include "progress/reactor.h"
#include "transport/link.h"

#define LOOK_FOR_MEMORY_NS ((uint64_t)10000000)

void flow_retry(acp_engine *e, int rc)
{
    if (rc == ACP_E_BUSY)
        atomic_store(&e->mail.due, true);
    else
        reactor_timer(e, linux_now_ns() + LOOK_FOR_MEMORY_NS);
}

struct flow *flow_of(acp_engine *e, struct peer *p)
{
    struct flow *c = p->mail.flow;
    _Static_assert(sizeof *c <= KEPT_SMALL, "memory is kept for one");
    if (c || !(c = reserve_take(e, sizeof *c)))
        return c;
    *c = (struct flow){.peer = p};
    c->outgoing_end = &c->outgoing;
    c->deliveries_end = &c->deliveries;
    c->late_end = &c->late;
    c->asks_end = &c->asks;
    c->next = e->mail.flows;
    e->mail.flows = c;
    p->mail.flow = c;
    return c;
}

void flow_answer(acp_lane *lane, struct flow *c, struct message *m, const void *payload,
                 uint64_t size)
{
    m->kind = ACP_MAIL_SAID;
    m->from = lane->engine->self;
    if (!c->peer->lost && protocol_tcp_command(lane, c->peer, FLOW_COLOR, m, payload, size) == ACP_E_SYSTEM)
        peer_mark_lost(lane->engine, c->peer); /* it waits for that message */
}

void flow_watch(acp_engine *e, struct peer *p)
{
    link_watch(e, p, FLOW_COLOR);
}
