#ifndef ACP_ABORT_H
#define ACP_ABORT_H

#include "collectives/schedule.h"

void abort_fail(acp_lane *lane, acp_collective *c, int status, int64_t rank);
uint64_t abort_reason(const acp_collective *c); /* a note for those that depend on this rank */
/* Does the received message fit the step? */
void abort_check(acp_collective *c, const acp_step *step, int rc, const acp_envelope *got);
void abort_check_losses(acp_lane *lane, acp_collective *c);
int abort_scan(acp_lane *lane, acp_collective *c);
int abort_notify(acp_lane *lane, acp_collective *c);

/* Has it ended, or is it for its caller to do something? */
static inline bool abort_stopped(const acp_collective *c)
{
    return atomic_load_explicit(&c->state, memory_order_acquire) != COLLECTIVE_RUNS;
}

#endif
