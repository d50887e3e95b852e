#ifndef ACP_OP_RELAY_H
#define ACP_OP_RELAY_H

#include "core/engine.h"

struct device_job;
struct op;
struct relay;

/* All with the lock held */
void op_relay_push(acp_lane *lane, struct op *op); /* starts as many parts as there is room for */
void op_relay_child_done(acp_lane *lane, struct op *child);
void op_relay_free(acp_engine *e, struct relay *relay);
void op_relay_forget(struct device_job *job); /* at the end of all */
void op_relay_reset(acp_engine *e); /* its addresses have died */
void op_relay_close(acp_engine *e);

#endif
