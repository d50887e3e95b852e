/* The way out of a job while other members stay: they are told. */
#include "membership/leave.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "operations/notices.h"
#include "peers/newcomers.h"
#include "peers/peer.h"

/* Attaches the remaining members that have opened this memory: they may wait for an answer, and must be told of the
 * end, even if this process has sent them nothing yet, or does not have them in its table. */
void meet_who_stays(acp_engine *e)
{
    for (uint32_t i = 0; i < ATTACH_LINES; i++) {
        uint64_t holder = e->doors->lines[i].holder, slot = holder - 1;
        if (!holder || holder & CLAIMING || span_has(e->job.joined_with, (uint32_t)slot))
            continue;
        struct peer *p = growth_reaches(e, slot) ? peer_of_slot(e, (uint32_t)slot) : NULL;
        if (p && p != e->job.own)
            peer_attach(e, p);
    }
}

void acp_engine_leaving(acp_engine *e)
{
    struct message m = growth_farewell(e, 0);
    pthread_mutex_lock(&e->lock);
    if (e->control->phase == PHASE_OPEN) {
        meet_who_stays(e);
        e->control->phase = PHASE_LEAVING;
        notify_all(&e->lanes[LANE_LOCKED], &m);
    }
    pthread_mutex_unlock(&e->lock);
}
