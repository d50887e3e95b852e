#ifndef ACP_DOORBELL_H
#define ACP_DOORBELL_H

#include "core/engine.h"

struct doors;
struct peer;

/* Waking a sleeping process */
void doorbell_ring(acp_engine *e, const struct peer *p);
/* For threads that do not lead: they doze until a ring, or for that time; false: a signal came. */
void doorbell_wake(struct doors *doors);
bool doorbell_doze(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns);
void doorbell_kick(acp_engine *e); /* the own bell: the leader looks again */
void doorbell_notify(acp_engine *e, struct peer *p, acp_ga_t ga, uint64_t size);

#endif
