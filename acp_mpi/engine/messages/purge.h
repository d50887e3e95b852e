#ifndef ACP_PURGE_H
#define ACP_PURGE_H

#include "core/poller.h"

/* Purges the own mailbox of messages of dead ranks and finished contexts; leader only, while no reset is under way. */
enum due purge_due(const acp_engine *e);
void purge_step(acp_lane *lane);

#endif
