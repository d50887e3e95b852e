/* Closes and unmaps memory of peers that this process has opened: at the end all of it, before that the memory of
 * processes that have ended. */
#include "memory/unmap.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap_calls.h"
#include "peers/peer.h"
#include "progress/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* With the bell's lock: other threads may ring. */
static void shut_all(struct peer *p)
{
    linux_shut(&p->pidfd);
    linux_shut(&p->shm.fd);
    linux_shut(&p->shm.door_fd);
}

static void unmap(acp_engine *e, struct peer *p)
{
    for (struct view *v = p->shm.views, *next; v; v = next) {
        next = v->next;
        if (!e->config.map)
            munmap(v->base, v->high - v->low);
        free(v);
    }
    p->shm.views = NULL;
    p->shm.view_count = 0;
    if (p->relation == RELATION_NODE && !e->config.map) {
        munmap((void *)(uintptr_t)p->shm.control, CONTROL_SIZE);
        munmap(p->shm.doors, sizeof *p->shm.doors);
    }
    heap_calls_unmap(e, p);
}

void unmap_close(acp_engine *e)
{
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        if (p->shm.doors && p->relation == RELATION_NODE)
            p->shm.doors->lines[p->shm.line].holder = 0;
        shut_all(p);
    }
}

void unmap_free(acp_engine *e)
{
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        unmap(e, p);
        free(p->ops.chain_failures);
    }
    for (uint32_t page = 0; page * PEER_PAGE < e->procs; page++) {
        for (uint32_t i = 0; e->job.peers[page] && i < PEER_PAGE; i++)
            free(e->job.peers[page][i]);
        free(e->job.peers[page]);
    }
    free(e->job.peers);
    free(e->job.ends);
    e->job.peers = NULL;
    e->procs = 0;
}

/* No other thread is inside, and the caller has lane 0 and the leader's place: no address of a peer's memory is in
 * use, and none is kept but those in the lanes. */
static bool quiet(const acp_engine *e)
{
    if (atomic_load(&e->inside) || atomic_load(&e->mail.sends_open) ||
        atomic_load(&e->collectives.count))
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
        pthread_mutex_lock(&e->progress.bell);
        shut_all(p);
        pthread_mutex_unlock(&e->progress.bell);
        p->left = peer_left(p); /* its memory cannot tell that any more */
        unmap(e, p);
        p->shm.control = NULL;
        p->shm.doors = NULL;
        atomic_store(&p->relation, RELATION_UNKNOWN);
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
