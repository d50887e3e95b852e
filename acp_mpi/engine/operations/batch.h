#ifndef ACP_BATCH_H
#define ACP_BATCH_H

#include "core/engine.h"

struct message;
struct op;
struct plan;

void batch_reply(acp_lane *lane, struct op *child, const unsigned char *payload, uint64_t size);
int batch_run(acp_lane *lane, const struct message *m, struct acp_call *c);

/* Elements that share a frame on a link; with the lock held */
bool batch_takes(const struct plan *plan, const struct message *element);
/* Adds element i; false: no room now. Errors are the operation's. */
bool batch_add(acp_lane *lane, struct op *op, uint64_t i, const struct plan *plan,
               const struct message *element);
void batches_send(acp_lane *lane, struct op *op); /* sends all open batches */

#endif
