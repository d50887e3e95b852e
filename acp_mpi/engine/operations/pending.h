#ifndef ACP_PENDING_H
#define ACP_PENDING_H

#include "core/poller.h"

struct op;

/* With the lock held */
void op_stall(acp_engine *e, struct op *op);
void op_unstall(acp_engine *e, struct op *op);
void op_bar(acp_lane *lane, struct op *op);
enum due pending_due(const acp_engine *e);
bool ops_pump(acp_lane *lane);

#endif
