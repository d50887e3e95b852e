/* Peers that die: how this process notices it, and the error of a call that needs one. */
#include "peers/peer_liveness.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "core/upcalls.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/progress.h"
#include "progress/reactor.h"

#include <sys/epoll.h>

#define LOOK_NS ((uint64_t)500000000) /* until the death of a peer is seen that wakes nobody */

int peer_liveness_fail(acp_lane *lane, const struct peer *p, acp_ga_t ga, uint64_t size)
{
    bool closed = lane->engine->stopping;
    lane_fail(lane, p->lost || peer_left(p) ? ACP_E_LOST : closed ? ACP_E_CLOSED : ACP_E_SYSTEM, ga, size);
    lane->fault.rank = rank_table_rank(lane->engine, p->slot);
    return lane->fault.status;
}

void peer_liveness_watch(acp_engine *e)
{
    uint32_t count;
    const uint32_t *mates = rank_table_mates(e, &count);
    for (uint32_t i = 0; i < count; i++)
        peer_watch(e, peer_of_slot(e, mates[i]));
}

void peer_liveness_end(acp_engine *e, uint32_t slot)
{
    struct peer *p = peer_of_slot(e, slot);
    if (!p)
        return;
    epoll_ctl(e->progress.epoll_fd, EPOLL_CTL_DEL, p->pidfd, NULL);
    peer_mark_lost(e, p);
}

void peer_liveness_look(acp_engine *e)
{
    for (struct peer *p = NULL; e->job.looking && (p = peer_next(e, p));)
        if (p->looked_at && !p->lost && !linux_process_lives(p->row.pid, p->row.start_time))
            peer_mark_lost(e, p);
}

void peer_liveness_look_later(acp_engine *e)
{
    if (e->job.looking)
        reactor_timer(e, linux_now_ns() + LOOK_NS);
}

enum due peer_liveness_due(const acp_engine *e)
{
    return e->job.loss_news ? DUE_NOW : DUE_NOT;
}

bool peer_liveness_losses(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    bool any = false;
    for (; atomic_exchange(&e->job.loss_news, 0); any = true) {
        for (struct peer *p = NULL; (p = peer_next(e, p));)
            if (p->lost && !p->loss_handled) {
                p->loss_handled = true;
                e->up->lost(lane, p);
            }
        e->up->guard(e);
        progress_wake(e);
    }
    return any;
}
