#ifndef ACP_PEER_LIVENESS_H
#define ACP_PEER_LIVENESS_H

#include "core/engine.h"

struct peer;

/* The error of a call for `p`, not necessarily the owner of `ga`: it is gone or leaving; or no memory is left here. */
int fail_lost(acp_lane *lane, const struct peer *p, acp_ga_t ga, uint64_t size);
void node_watch(acp_engine *e); /* registers for the death of every process of the node */

#endif
