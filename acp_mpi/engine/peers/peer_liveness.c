/* Peers that die: how this process notices it, and the error of a call that needs one. */
#include "peers/peer_liveness.h"
#include "core/state/peer.h"
#include "peers/peer.h"
#include "peers/rank_table.h"

int fail_lost(acp_lane *lane, const struct peer *p, acp_ga_t ga, uint64_t size)
{
    bool closed = lane->engine->stopping;
    fail(lane, p->lost || peer_left(p) ? ACP_E_LOST : closed ? ACP_E_CLOSED : ACP_E_SYSTEM, ga, size);
    lane->fault.rank = rank_of_slot(lane->engine, p->slot);
    return lane->fault.status;
}

void node_watch(acp_engine *e)
{
    uint32_t count;
    const uint32_t *mates = table_mates(e, &count);
    for (uint32_t i = 0; i < count; i++)
        peer_watch(e, peer_of_slot(e, mates[i]));
}
