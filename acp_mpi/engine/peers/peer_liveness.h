#ifndef ACP_PEER_LIVENESS_H
#define ACP_PEER_LIVENESS_H

#include "core/engine.h"

struct peer;

/* Nothing goes to `p` any more, whose address `ga` need not be; or, if it lives, there is no memory. */
int fail_lost(acp_lane *lane, const struct peer *p, acp_ga_t ga, uint64_t size);
void node_watch(acp_engine *e); /* hear of the death of any process of the node */

#endif
