#ifndef ACP_MEMBARRIER_H
#define ACP_MEMBARRIER_H

#include "base/likely.h"
#include "core/engine_state.h"

void membarrier_start(acp_engine *e);
void membarrier_join(acp_engine *e);
int membarrier_all(void);

/* A fence between a store and the look whether a thread of that process waits for it: none if its threads make this process
 * run one before they wait. */
static inline void membarrier_look(const acp_engine *e, const struct control *waiter)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (unlikely(!waiter || waiter->fences || waiter->packed || !e->fence.fenced))
        atomic_thread_fence(memory_order_seq_cst);
}

/* What such a thread does when it has said that it waits, before it looks again. */
static inline void membarrier_wait(const acp_engine *e)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (e->fence.can && !e->progress.packed)
        membarrier_all();
}

#endif
