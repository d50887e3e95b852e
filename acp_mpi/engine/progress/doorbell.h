#ifndef ACP_DOORBELL_H
#define ACP_DOORBELL_H

#include "core/engine.h"

struct doors;
struct peer;

/* Waking a sleeping process */
void door_ring(acp_engine *e, const struct peer *p);
/* For threads that do not lead: they doze until a ring, or for that time; false: a signal came. */
void doze_ring(struct doors *doors);
bool doze(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns);
void progress_kick(acp_engine *e); /* the own bell: the leader looks again */
void watch_hit(acp_engine *e, struct peer *p, acp_ga_t ga, uint64_t size);

#endif
