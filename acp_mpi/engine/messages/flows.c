/* Flows: one for each process that messages are exchanged with by link; their scheduling and their end. */
#include "messages/flows.h"
#include "base/likely.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "messages/flow.h"
#include "messages/flow_recv.h"
#include "messages/flow_send.h"
#include "operations/reserve.h"

#include <stdlib.h>

enum due flows_due(const acp_engine *e)
{
    return e->mail.due && !e->mail.halted ? DUE_SOON : DUE_NOT;
}

bool flows_push(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    bool any = false;
    if (unlikely(atomic_load(&e->mail.halted)))
        return false;
    atomic_store(&e->mail.due, false);
    for (struct flow *c = e->mail.flows; c; c = c->next) {
        if (!reserve_ready(e)) {
            flow_retry(e, ACP_E_FULL);
            break;
        }
        if (c->late)
            flow_recv_retry(lane, c);
        if (c->told)
            flow_recv_grant(lane, c);
        if (c->deliveries)
            flow_recv_want(lane, c);
        if (c->outgoing)
            any |= flow_send_push(lane, c);
    }
    return any;
}

bool flows_begun(const acp_engine *e)
{
    for (const struct flow *c = e->mail.flows; c; c = c->next)
        for (const struct outgoing *p = c->outgoing; p; p = p->next)
            if (p->state != OUTGOING_BEGUN && p->state != OUTGOING_KEPT)
                return false;
    return true;
}

void flows_lost(acp_lane *lane, struct peer *p)
{
    struct flow *c = p->mail.flow;
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

void flows_halt(acp_engine *e)
{
    if (!atomic_load(&e->mail.halted))
        e->mail.halter = pthread_self();
    atomic_store(&e->mail.halted, true);
    pthread_mutex_lock(&e->mail.lock); /* a send of the queue that is under way */
    pthread_mutex_unlock(&e->mail.lock);
    pthread_mutex_lock(&e->lock); /* a flow likewise */
    pthread_mutex_unlock(&e->lock);
}

bool flows_resume(acp_engine *e)
{
    if (!atomic_exchange(&e->mail.halted, false))
        return false;
    atomic_store(&e->mail.due, true); /* for frames that have come meanwhile */
    return true;
}

/* After a reset all messages that were under way are dropped. */
void flows_reset(acp_engine *e)
{
    for (struct flow *c = e->mail.flows; c; c = c->next) {
        flow_send_drop(c, ACP_E_CLOSED);
        flow_recv_drop(c);
        flow_recv_set_told(e, c, 0);
        c->heard = 0;
    }
    e->mail.late = 0;
}

void flows_close(acp_engine *e)
{
    flows_reset(e);
    while (e->mail.flows) {
        struct flow *c = e->mail.flows;
        e->mail.flows = c->next;
        c->peer->mail.flow = NULL;
        free(c);
    }
}
