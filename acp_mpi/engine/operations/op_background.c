/* Work of the leader in slices: long copies, and put and get through the window. */
#include "operations/op_background.h"
#include "core/upcalls.h"
#include "operations/execute.h"
#include "operations/op_table.h"
#include "operations/protocol.h"
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

/* One slice of a long copy; true if there was one. */
bool op_background_step(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    pthread_mutex_lock(&e->lock);
    if (!e->ops.work) {
        atomic_store(&e->ops.work_pending, false);
        e->ops.work_kicked = false;
        pthread_mutex_unlock(&e->lock);
        return false;
    }
    struct op *op = op_background_take(e);
    if (op_table_by_window(op->way)) {
        lane->engine->up->window_step(lane, op);
        pthread_mutex_unlock(&e->lock);
        return true;
    }
    struct message command = op->command;
    struct place local = op->local;
    uint64_t left = command.a - op->issued, size = left < SLICE_BYTES ? left : SLICE_BYTES;
    uint64_t at = op->backward ? left - size : op->issued;
    pthread_mutex_unlock(&e->lock);
    int rc = execute_command(lane, &command, local, at, size, NULL);
    pthread_mutex_lock(&e->lock);
    op->issued += size;
    if (rc == ACP_E_BUSY) {
        op->issued = 0;
        protocol_start(lane, op);
    } else {
        if (rc != ACP_OK)
            protocol_lane_fault(lane, op);
        if (rc != ACP_OK || op->issued == command.a) {
            op_table_finish(lane, op);
        } else { /* the next copy has its turn */
            op_background_add(e, op);
        }
    }
    pthread_mutex_unlock(&e->lock);
    return true;
}
