/* How many frames a rank has said to all others by the links of the first colour. */
#ifndef ACP_TESTS_FRAMES_H
#define ACP_TESTS_FRAMES_H

#include "cluster/cluster.h"
#include "core/state/peer.h"
#include "peers/peer.h"
#include "transport/link.h"

static inline uint64_t frames_said(struct cluster *c, acp_engine *e)
{
    uint64_t frames = 0;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < c->count; i++) {
        const struct peer *p = peer_of_slot(e, i);
        frames += p->tcp.links[0] ? p->tcp.links[0]->out.next : 0;
    }
    pthread_mutex_unlock(&e->lock);
    return frames;
}

#endif
