/* Completion as callers see it: tests and waits. */
#include "operations/completion.h"
#include "core/upcalls.h"
#include "operations/op_table.h"
#include "progress/wait.h"

acp_handle_t completion_resolve(const acp_engine *e, acp_handle_t handle)
{
    acp_handle_t last = e->ops.last;
    if (handle == ACP_HANDLE_ALL)
        return last;
    return handle > (last | 1) ? 0 : handle & ~(acp_handle_t)1;
}

bool acp_running(const acp_engine *e, acp_handle_t handle)
{
    return completion_resolve(e, handle) > atomic_load_explicit(&e->ops.watermark, memory_order_acquire);
}

bool acp_done(const acp_engine *e, acp_handle_t handle)
{
    if ((handle & 1) || !acp_running(e, handle))
        return true;
    const struct op *op = &e->ops.table[(handle / 2) % OPS];
    return atomic_load_explicit(&op->handle, memory_order_relaxed) != handle || op->state == OP_DONE;
}

bool acp_quiet(const acp_engine *e)
{
    return !atomic_load_explicit(&e->ops.outstanding, memory_order_acquire) &&
           !atomic_load_explicit(&e->ops.failure_count, memory_order_relaxed);
}

acp_handle_t acp_last(const acp_engine *e)
{
    return e->ops.last;
}

acp_handle_t acp_watermark(const acp_engine *e)
{
    return e->ops.watermark;
}

struct handle_wait {
    acp_engine *engine;
    acp_handle_t handle;
};

static bool all_done(void *context)
{
    struct handle_wait *w = context;
    return !acp_running(w->engine, w->handle);
}

static bool op_done(void *context)
{
    struct handle_wait *w = context;
    return acp_done(w->engine, w->handle);
}

int acp_complete(acp_engine *e, acp_handle_t handle, int64_t timeout_ns)
{
    struct handle_wait w = {e, completion_resolve(e, handle)};
    return all_done(&w) ? ACP_OK
                        : wait_ready(e, all_done, &w, timeout_ns, ACP_DOING_COMPLETE);
}

int acp_wait(acp_engine *e, acp_handle_t handle, int64_t timeout_ns)
{
    struct handle_wait w = {e, handle};
    if (!op_done(&w))
        e->up->window_help(e, handle);
    return op_done(&w) ? ACP_OK
                       : wait_ready(e, op_done, &w, timeout_ns, ACP_DOING_COMPLETE);
}

static bool table_has_room(void *context)
{
    acp_engine *e = ((struct handle_wait *)context)->engine;
    return e->ops.last + 2 - e->ops.watermark <= 2 * OPS && !e->shm.backlogged;
}

int acp_wait_room(acp_engine *e, int64_t timeout_ns)
{
    struct handle_wait w = {e, 0};
    return table_has_room(&w) ? ACP_OK
                              : wait_ready(e, table_has_room, &w, timeout_ns, ACP_DOING_COMPLETE);
}
