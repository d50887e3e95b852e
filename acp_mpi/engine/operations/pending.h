#ifndef ACP_PENDING_H
#define ACP_PENDING_H

#include "core/poller.h"

struct op;

/* With the lock held */
void pending_stall(acp_engine *e, struct op *op);
void pending_unstall(acp_engine *e, struct op *op);
void pending_bar(acp_lane *lane, struct op *op);
enum due pending_due(const acp_engine *e);

#endif
