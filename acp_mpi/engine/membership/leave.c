/* The way out of a job while other members stay: they are told. */
#include "membership/leave.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "messages/flows.h"
#include "operations/notices.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "transport/keepalive.h"

/* Attaches the remaining members that have opened this memory: they may wait for an answer, and must be told of the
 * end, even if this process has sent them nothing yet, or does not have them in its table. */
void leave_attach(acp_engine *e)
{
    for (uint32_t i = 0; i < ATTACH_LINES; i++) {
        uint64_t holder = e->doors->lines[i].holder, slot = holder - 1;
        if (!holder || holder & CLAIMING || span_has(e->job.joined_with, (uint32_t)slot))
            continue;
        struct peer *p = newcomers_find(e, slot) ? peer_of_slot(e, (uint32_t)slot) : NULL;
        if (p && p != e->job.own)
            peer_attach(e, p);
    }
}

/* Nothing that this process has sent, on whatever way, can come behind the notice of its end any more. News of a loss
 * can: after one only time tells. */
static bool has_said_all(acp_engine *e)
{
    return !e->job.losses && !e->mail.sends && !e->collectives.count && !e->shm.backlogged && flows_begun(e) &&
           keepalive_arrived(e);
}

bool acp_engine_leaving(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool news = e->control->phase == PHASE_OPEN;
    if (news) {
        leave_attach(e);
        e->control->phase = PHASE_LEAVING;
    }
    if (e->control->phase == PHASE_LEAVING && !e->sync.said_all && has_said_all(e))
        news = e->sync.said_all = true;
    struct message m = newcomers_leaving(e, 0);
    if (news)
        notices_send_all(&e->lanes[LANE_LOCKED], &m);
    bool said = e->sync.said_all;
    pthread_mutex_unlock(&e->lock);
    return said;
}
