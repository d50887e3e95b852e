#ifndef ACP_OP_BACKGROUND_H
#define ACP_OP_BACKGROUND_H

#include "core/poller.h"

struct op;

enum due op_background_due(const acp_engine *e);
bool work_step(acp_lane *lane); /* takes the lock itself */
void work_add(acp_engine *e, struct op *op);
struct op *work_take(acp_engine *e);
struct op *work_claim(acp_engine *e, acp_handle_t handle);

#endif
