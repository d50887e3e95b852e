#ifndef ACP_TASK_H
#define ACP_TASK_H

#include "core/engine.h"

struct link;
struct op;
struct peer;

#define TASK_BIT ((uint64_t)1 << 63) /* of the id of a task */

/* All with the lock held */
struct op *task_new(acp_engine *e); /* NULL: no memory */
void task_free(acp_engine *e, struct op *op);
struct op *task_find(acp_engine *e, uint64_t id);
struct op *task_of(acp_engine *e, const struct peer *client, uint64_t id); /* of that command; NULL: none */
void task_unlink(acp_engine *e, const struct link *link); /* the link has ended: no answer can go there */
void task_close(acp_engine *e);

#endif
