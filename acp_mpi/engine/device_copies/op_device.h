#ifndef ACP_OP_DEVICE_H
#define ACP_OP_DEVICE_H

#include "core/poller.h"
#include "devices/device_job.h"

struct message;
struct op;

/* Without the lock: marks the streams of the own device memory among the ends of a command. *job stays NULL if none
 * is. A status if the driver refuses. */
int op_device_mark(acp_lane *lane, const struct message *command, acp_device_block *local, bool local_is_source,
                   struct device_job **job);
void op_device_forsake(acp_engine *e, struct device_job *job); /* with the lock; its operation does not begin, or has ended */

/* With the lock */
void op_device_add(acp_lane *lane, struct op *op); /* a device copies: both ends are in reach of one here */
bool op_device_gate(acp_lane *lane, struct op *op); /* true: starts anew after its marks */
struct device_job *op_device_job(acp_lane *lane, struct op *op); /* NULL: no memory, with the fault */

void op_device_run(acp_lane *lane); /* without the lock: starts what has been added */
enum due op_device_due(const acp_engine *e);
bool op_device_poll(acp_lane *lane);
void op_device_close(acp_engine *e); /* waits for all copies */

#endif
