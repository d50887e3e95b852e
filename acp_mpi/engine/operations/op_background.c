/* Work that the leader does in slices: long copies, and put and get through the window. */
#include "operations/op_background.h"
#include "core/engine_state.h"
#include "operations/op_table.h"
#include "progress/doorbell.h"

/* Gives the leader something to do in slices. */
void op_background_add(acp_engine *e, struct op *op)
{
    op->next = NULL;
    *e->ops.work_tail = op;
    e->ops.work_tail = &op->next;
    atomic_store(&e->ops.work_pending, true);
    if (e->ops.work_kicked || (op->awaited && !atomic_load(&e->progress.callers)))
        return; /* a leader comes, or the caller will lead */
    e->ops.work_kicked = true;
    doorbell_kick(e);
}

struct op *op_background_take(acp_engine *e)
{
    struct op *op = e->ops.work;
    e->ops.work = op->next;
    if (!e->ops.work)
        e->ops.work_tail = &e->ops.work;
    op->next = NULL;
    return op;
}

/* Takes that operation, wherever it stands; NULL: it is under way, or done. */
struct op *op_background_claim(acp_engine *e, acp_handle_t handle)
{
    struct op **at = &e->ops.work;
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    struct op *op = *at;
    if (op) {
        *at = op->next;
        if (!op->next)
            e->ops.work_tail = at;
        op->next = NULL;
    }
    return op;
}

enum due op_background_due(const acp_engine *e)
{
    return e->ops.work_pending ? DUE_NOW : DUE_NOT;
}
