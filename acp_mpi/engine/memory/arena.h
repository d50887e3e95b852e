#ifndef ACP_ARENA_H
#define ACP_ARENA_H

#include "core/engine_state.h"

/* The memory of this rank */
int arena_create(acp_engine *e, acp_fault *fault);
void arena_close(acp_engine *e); /* the descriptor */
void arena_reset(acp_engine *e);
void arena_free(acp_engine *e);
/* Brackets a system call on a memory file, the own one or a peer's, without the space lock: no descriptor is closed
 * until it has returned, so that its number cannot become another file's. False: descriptors are closed, or soon. */
static inline bool arena_enter(acp_engine *e)
{
    atomic_fetch_add(&e->memory.users, 1);
    if (!atomic_load(&e->stopping))
        return true;
    atomic_fetch_sub(&e->memory.users, 1);
    return false;
}

static inline void arena_leave(acp_engine *e)
{
    atomic_fetch_sub(&e->memory.users, 1);
}

void arena_await(acp_engine *e); /* all have left; from `stopping` on arena_enter fails */

#endif
