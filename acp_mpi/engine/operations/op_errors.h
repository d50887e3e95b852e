#ifndef ACP_OP_ERRORS_H
#define ACP_OP_ERRORS_H

#include "core/engine.h"

struct op;

/* With the lock held */
void failure_keep(acp_engine *e, const struct op *op);
const acp_failure *failure_before(const acp_engine *e, acp_handle_t upto, bool alone);
void failures_close(acp_engine *e);

#endif
