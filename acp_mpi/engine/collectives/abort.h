#ifndef ACP_ABORT_H
#define ACP_ABORT_H

#include "collectives/schedule.h"

void collective_fail(acp_lane *lane, acp_collective *c, int status, int64_t rank);
uint64_t collective_reason(const acp_collective *c); /* a note for those that depend on this rank */
/* Does the received message fit the step? */
void collective_check(acp_collective *c, const acp_step *step, int rc, const acp_envelope *got);
void collective_look_at_losses(acp_lane *lane, acp_collective *c);
int collective_listen(acp_lane *lane, acp_collective *c);
int collective_tell(acp_lane *lane, acp_collective *c);

/* Has it ended, or is it for its caller to do something? */
static inline bool collective_stands(const acp_collective *c)
{
    return atomic_load_explicit(&c->state, memory_order_acquire) != COLLECTIVE_RUNS;
}

#endif
