#ifndef ACP_OP_BACKGROUND_H
#define ACP_OP_BACKGROUND_H

#include "core/poller.h"

struct op;

enum due op_background_due(const acp_engine *e);
void op_background_add(acp_engine *e, struct op *op);
struct op *op_background_take(acp_engine *e);
struct op *op_background_claim(acp_engine *e, acp_handle_t handle);

#endif
