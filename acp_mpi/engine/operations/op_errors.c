/* The errors of operations that no call has returned yet, the oldest first. */
#include "operations/op_errors.h"
#include "operations/completion.h"
#include "operations/op_table.h"
#include "progress/doorbell.h"

#include <stdlib.h>
#include <string.h>

/* Bound for a program that never completes its operations: their errors must not fill the memory. */
#define FAILURES_MAX 4096u

static bool grow(acp_engine *e)
{
    uint32_t room = e->ops.failure_room ? e->ops.failure_room * 2 : 16;
    acp_failure *grown = realloc(e->ops.failures, room * sizeof *grown);
    if (!grown)
        return false;
    e->ops.failures = grown;
    e->ops.failure_room = room;
    return true;
}

/* The oldest error that no call waits for goes, and is only counted. The very first stays: `complete` raises it, and
 * it fails all operations with an order after it. */
static bool drop_oldest(acp_engine *e)
{
    for (uint32_t i = 1; i < e->ops.failure_count; i++) {
        if (e->ops.failures[i].awaited)
            continue;
        memmove(e->ops.failures + i, e->ops.failures + i + 1,
                (e->ops.failure_count - i - 1) * sizeof *e->ops.failures);
        e->ops.failure_count--;
        e->ops.failures_dropped++;
        return true;
    }
    return false;
}

/* The error of an awaited operation always finds room: its caller takes a missing error for success. A thread waits
 * for one operation, or for as many as one call has under way, and takes their errors. */
void op_errors_keep(acp_engine *e, const struct op *op)
{
    bool full = e->ops.failure_count >= FAILURES_MAX && !op->awaited;
    if ((full || (e->ops.failure_count == e->ops.failure_room && !grow(e))) && !drop_oldest(e)) {
        e->ops.failures_dropped++;
        return;
    }
    e->ops.failures[e->ops.failure_count] =
        (acp_failure){.handle = op->handle, .fault = op->fault, .kind = op->asked,
                      .awaited = op->awaited};
    atomic_fetch_add(&e->ops.failure_count, 1);
}

const acp_failure *op_errors_before(const acp_engine *e, acp_handle_t upto, bool alone)
{
    for (uint32_t i = 0; i < e->ops.failure_count; i++)
        if (alone ? e->ops.failures[i].handle == upto : e->ops.failures[i].handle <= upto)
            return &e->ops.failures[i];
    return NULL;
}

uint32_t acp_failures_take(acp_engine *e, acp_handle_t upto, bool alone, acp_failure *out,
                           uint32_t most, uint64_t *more)
{
    uint32_t taken = 0, kept = 0;
    *more = 0;
    pthread_mutex_lock(&e->lock);
    acp_handle_t limit = upto == ACP_HANDLE_ALL ? upto : completion_resolve(e, upto);
    for (uint32_t i = 0; i < e->ops.failure_count; i++) {
        acp_failure f = e->ops.failures[i];
        if (alone ? f.handle != upto : f.handle > limit || f.awaited)
            e->ops.failures[kept++] = f;
        else if (taken < most)
            out[taken++] = f;
        else
            ++*more;
    }
    e->ops.failure_count = kept;
    if (upto == ACP_HANDLE_ALL && !alone) {
        *more += e->ops.failures_dropped;
        e->ops.failures_dropped = 0;
    }
    pthread_mutex_unlock(&e->lock);
    return taken;
}

void acp_await_alone(acp_engine *e, acp_handle_t handle, bool is)
{
    struct op *op = &e->ops.table[(handle / 2) % OPS];
    pthread_mutex_lock(&e->lock);
    if (op->handle == handle)
        op->awaited = is;
    for (uint32_t i = 0; i < e->ops.failure_count; i++)
        if (e->ops.failures[i].handle == handle)
            e->ops.failures[i].awaited = is;
    pthread_mutex_unlock(&e->lock);
    if (!is) /* the waiting caller may have it */
        doorbell_kick(e);
}

void op_errors_close(acp_engine *e)
{
    free(e->ops.failures);
    e->ops.failures = NULL;
}
