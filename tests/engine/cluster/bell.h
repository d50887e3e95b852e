/* Another bell in place of an engine's, which says whether anybody has rung for its leader. */
#ifndef ACP_TESTS_BELL_H
#define ACP_TESTS_BELL_H

#include "cluster/cluster.h"
#include "progress/doorbell.h"

#include <sys/eventfd.h>
#include <unistd.h>

/* In place of the engine's bell; returns the engine's. */
static inline int change_bell(acp_engine *e, int bell)
{
    pthread_mutex_lock(&e->progress.bell);
    int before = e->progress.door_fd;
    e->progress.door_fd = bell;
    pthread_mutex_unlock(&e->progress.bell);
    return before;
}

/* Has anybody rung since the engine's bell was another? It gets its own again, and hears of it. */
static inline bool was_rung(acp_engine *e, int bell, int engines_bell)
{
    uint64_t rung;
    bool was = read(bell, &rung, sizeof rung) == sizeof rung;
    CHECK(change_bell(e, engines_bell) == bell);
    CHECK(close(bell) == 0);
    doorbell_kick(e);
    return was;
}

#endif
