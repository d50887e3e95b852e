#ifndef ACP_PEER_LIVENESS_H
#define ACP_PEER_LIVENESS_H

#include "core/poller.h"

struct peer;

/* The error of a call for `p`, not necessarily the owner of `ga`: it is gone or leaving; or no memory is left here. */
int peer_liveness_fail(acp_lane *lane, const struct peer *p, acp_ga_t ga, uint64_t size);
void peer_liveness_watch(acp_engine *e); /* registers for the death of every process of the node */
void peer_liveness_end(acp_engine *e, uint32_t slot); /* its descriptor tells */
void peer_liveness_look(acp_engine *e); /* polls peers whose end wakes no thread */
void peer_liveness_look_later(acp_engine *e); /* if there are any; with the lock held */
/* Ranks have died: operations that need them fail, waiting threads look again. With the lock held. */
enum due peer_liveness_due(const acp_engine *e);
bool peer_liveness_losses(acp_lane *lane);

#endif
