#ifndef ACP_OP_ERRORS_H
#define ACP_OP_ERRORS_H

#include "core/engine.h"

struct op;

/* With the lock held */
void op_errors_keep(acp_engine *e, const struct op *op);
const acp_failure *op_errors_before(const acp_engine *e, acp_handle_t upto, bool alone);
void op_errors_close(acp_engine *e);

#endif
