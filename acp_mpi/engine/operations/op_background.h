#ifndef ACP_OP_BACKGROUND_H
#define ACP_OP_BACKGROUND_H

#include "core/engine.h"

struct op;

bool work_step(acp_lane *lane); /* takes the lock itself */
void work_add(acp_engine *e, struct op *op);
struct op *work_take(acp_engine *e);
struct op *work_claim(acp_engine *e, acp_handle_t handle);

#endif
