/* What this process holds of others is given back: descriptors, and memory that is mapped here. At
 * the end all of it, before that what is left of those who have ended. */
#include "memory/heap_calls.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* With the bell held: others may ring. */
static void shut_all(struct peer *p)
{
    shut(&p->pidfd);
    shut(&p->fd);
    shut(&p->door_fd);
}

static void unmap(acp_engine *e, struct peer *p)
{
    for (struct view *v = p->views, *next; v; v = next) {
        next = v->next;
        if (!e->config.map)
            munmap(v->base, v->high - v->low);
        free(v);
    }
    p->views = NULL;
    p->view_count = 0;
    if (p->relation == RELATION_NODE && !e->config.map) {
        munmap((void *)(uintptr_t)p->control, CONTROL_SIZE);
        munmap(p->doors, sizeof *p->doors);
    }
    heap_unmap(e, p);
}

void peers_close(acp_engine *e)
{
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        if (p->doors && p->relation == RELATION_NODE)
            p->doors->lines[p->line].holder = 0;
        shut_all(p);
    }
}

void peers_free(acp_engine *e)
{
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        unmap(e, p);
        free(p->chain_failures);
        backlog_free(p);
    }
    for (uint32_t page = 0; page * PEER_PAGE < e->procs; page++) {
        for (uint32_t i = 0; e->peers[page] && i < PEER_PAGE; i++)
            free(e->peers[page][i]);
        free(e->peers[page]);
    }
    free(e->peers);
    e->peers = NULL;
    e->procs = 0;
}

/* Nobody is inside but the caller, who has the interpreter's lane and the leader's place: no
 * address of a peer's memory is in use, and none is kept but those in the lanes. */
static bool quiet(const acp_engine *e)
{
    if (atomic_load(&e->inside) || atomic_load(&e->sends_open) ||
        atomic_load(&e->collective_count))
        return false;
    for (uint32_t i = LANE_LOCKED + 1; i < ATTACH_LANES; i++)
        if (atomic_load(&e->lanes[i].taken))
            return false;
    return true;
}

static void bury(acp_engine *e)
{
    for (uint32_t i = 0; i < ATTACH_LANES; i++)
        lane_flush(&e->lanes[i]);
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        if (!p->lost || !p->loss_handled || p->shown || p == e->own || e->config.map)
            continue;
        pthread_mutex_lock(&e->bell);
        shut_all(p);
        pthread_mutex_unlock(&e->bell);
        p->left = peer_left(p); /* its memory says so no more */
        unmap(e, p);
        p->control = NULL;
        p->doors = NULL;
        atomic_store(&p->relation, RELATION_UNKNOWN);
    }
}

void acp_engine_bury(acp_engine *e)
{
    if (pthread_mutex_trylock(&e->leader))
        return;
    if (pthread_mutex_trylock(&e->lock) == 0) {
        pthread_mutex_lock(&e->space);
        if (!e->stopping && quiet(e))
            bury(e);
        pthread_mutex_unlock(&e->space);
        pthread_mutex_unlock(&e->lock);
    }
    leader_release(e);
}

void acp_engine_enter(acp_engine *e)
{
    acp_engine_hold(e);
    atomic_fetch_add(&e->inside, 1);
}

void acp_engine_exit(acp_engine *e)
{
    atomic_fetch_sub(&e->inside, 1);
    acp_engine_free(e);
}
