#ifndef ACP_WINDOW_RMA_H
#define ACP_WINDOW_RMA_H

#include "core/engine.h"

struct op;

void window_rma_start(acp_lane *lane, struct op *op);
void window_rma_welcome(acp_lane *lane, struct op *op);
void window_rma_step(acp_lane *lane, struct op *first);
void window_rma_help(acp_engine *e, acp_handle_t handle);

#endif
