/* Unmaps memory of peers that this process has opened: at the end all of it, before that the memory of processes that
 * have ended. */
#include "memory/unmap.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap_calls.h"
#include "peers/peer.h"
#include "progress/progress.h"

#include <stdlib.h>
#include <sys/mman.h>

static void unmap(acp_engine *e, struct peer *p)
{
    for (struct view *v = p->memory.views, *next; v; v = next) {
        next = v->next;
        if (!e->config.map)
            munmap(v->base, v->high - v->low);
        free(v);
    }
    p->memory.views = NULL;
    p->memory.view_count = 0;
    heap_calls_unmap(e, p);
}

void unmap_all(acp_engine *e)
{
    for (struct peer *p = NULL; (p = peer_next(e, p));)
        unmap(e, p);
}

/* No other thread is inside, and the caller has lane 0 and the leader's place: no address of a peer's memory is in
 * use, and none is kept but those in the lanes. */
static bool quiet(const acp_engine *e)
{
    if (atomic_load(&e->inside) || atomic_load(&e->mail.sends_open) ||
        atomic_load(&e->collectives.count) || atomic_load(&e->copies.running_count))
        return false;
    for (uint32_t i = LANE_LOCKED + 1; i < ATTACH_LANES; i++)
        if (atomic_load(&e->lanes[i].taken))
            return false;
    return true;
}

static void views_bury(acp_engine *e)
{
    for (uint32_t i = 0; i < ATTACH_LANES; i++)
        lane_flush(&e->lanes[i]);
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        if (!p->lost || !p->loss_handled || p->shown || p == e->job.own || e->config.map)
            continue;
        unmap(e, p);
        peer_detach(e, p);
    }
}

void acp_engine_bury(acp_engine *e)
{
    if (pthread_mutex_trylock(&e->progress.leader))
        return;
    if (pthread_mutex_trylock(&e->lock) == 0) {
        pthread_mutex_lock(&e->space);
        if (!e->stopping && quiet(e))
            views_bury(e);
        pthread_mutex_unlock(&e->space);
        pthread_mutex_unlock(&e->lock);
    }
    progress_leader_release(e);
}
