/* Tasks: operations without a handle, for commands of peers that are not done at once and for parts of a larger
 * operation. With the lock held. */
#include "operations/task.h"
#include "core/engine_state.h"
#include "core/upcalls.h"
#include "operations/op_table.h"

#include <stdlib.h>
#include <string.h>

struct op *task_new(acp_engine *e)
{
    struct op *op = e->ops.task_pool;
    if (op)
        e->ops.task_pool = op->next;
    else if (!(op = malloc(sizeof *op)))
        return NULL;
    memset(op, 0, sizeof *op);
    op->order = TASK_BIT | ++e->ops.task_serial; /* a task has no order: this is its id */
    op->state = OP_WAITING;
    op->next_task = e->ops.tasks;
    e->ops.tasks = op;
    e->ops.task_count++;
    return op;
}

void task_free(acp_engine *e, struct op *op)
{
    for (struct op **at = &e->ops.tasks; *at; at = &(*at)->next_task) {
        if (*at == op) {
            *at = op->next_task;
            e->ops.task_count--;
            break;
        }
    }
    op->next = e->ops.task_pool;
    e->ops.task_pool = op;
}

struct op *task_find(acp_engine *e, uint64_t id)
{
    for (struct op *op = e->ops.tasks; op; op = op->next_task)
        if (op->order == id)
            return op;
    return NULL;
}

struct op *task_of(acp_engine *e, const struct peer *client, uint64_t id)
{
    for (struct op *op = e->ops.tasks; op; op = op->next_task)
        if (op->client == client && op->client_id == id && op->state != OP_DONE)
            return op;
    return NULL;
}

void task_unlink(acp_engine *e, const struct link *link)
{
    for (struct op *op = e->ops.tasks; op; op = op->next_task) {
        if (op->client_link == link) {
            op->client_link = NULL;
            op->client = NULL;
        }
    }
}

void task_close(acp_engine *e)
{
    while (e->ops.tasks) {
        struct op *op = e->ops.tasks;
        e->ops.tasks = op->next_task;
        free(op->payload);
        e->up->device_forget(op->job);
        free(op);
    }
    while (e->ops.task_pool) {
        struct op *op = e->ops.task_pool;
        e->ops.task_pool = op->next;
        free(op);
    }
}
