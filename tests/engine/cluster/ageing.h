/* Time that passes for links in a moment: a test that slept would ask all threads to keep up with it. */
#ifndef ACP_TESTS_AGEING_H
#define ACP_TESTS_AGEING_H

#include "cluster/cluster.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "transport/connection.h"
#include "transport/keepalive.h"
#include "transport/link.h"
#include "transport/socket_options.h"

/* For the links to that slot, what has happened is so much longer ago, and what is due is done. */
static inline void links_age(acp_engine *e, uint32_t slot, uint64_t ns)
{
    pthread_mutex_lock(&e->lock);
    for (struct link *link = e->tcp.links; link; link = link->next) {
        if (link->peer->slot != slot)
            continue;
        link->heard -= ns;
        link->lost_at -= ns;
        link->silent_at -= ns;
        link->asked -= link->asked ? ns : 0;
    }
    keepalive_tick(&e->lanes[LANE_LOCKED], 0);
    pthread_mutex_unlock(&e->lock);
}

/* From now on a peer that owes a sign of life counts as dead after that time. */
static inline void cluster_patience(struct cluster *c, uint64_t peer_timeout_ns)
{
    for (uint32_t i = 0; i < c->count; i++) {
        acp_engine *e = c->engines[i];
        pthread_mutex_lock(&e->lock);
        e->config.peer_timeout_ns = peer_timeout_ns;
        for (struct link *link = e->tcp.links; link; link = link->next)
            if (link->wire)
                socket_options_set(e, link->wire->fd);
        keepalive_tick(&e->lanes[LANE_LOCKED], 0);
        pthread_mutex_unlock(&e->lock);
    }
}

#endif
