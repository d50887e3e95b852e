/* Completion as callers see it: what is done, waiting for it, errors that are not reported yet. */
#include "op.h"

static acp_handle_t resolve(const acp_engine *e, acp_handle_t handle)
{
    acp_handle_t last = e->last;
    if (handle == ACP_HANDLE_ALL || handle == ACP_HANDLE_CONT)
        return last;
    return handle > (last | 1) ? 0 : handle & ~(acp_handle_t)1;
}

bool acp_running(const acp_engine *e, acp_handle_t handle)
{
    return resolve(e, handle) > atomic_load_explicit(&e->watermark, memory_order_acquire);
}

bool acp_done(const acp_engine *e, acp_handle_t handle)
{
    if ((handle & 1) || !acp_running(e, handle))
        return true;
    const struct op *op = &e->ops[(handle / 2) % OPS];
    return op->handle != handle || op->state == OP_DONE;
}

bool acp_quiet(const acp_engine *e)
{
    return !atomic_load_explicit(&e->outstanding, memory_order_acquire) &&
           !atomic_load_explicit(&e->failure_count, memory_order_relaxed);
}

acp_handle_t acp_last(const acp_engine *e)
{
    return e->last;
}

acp_handle_t acp_watermark(const acp_engine *e)
{
    return e->watermark;
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

static bool one_done(void *context)
{
    struct handle_wait *w = context;
    return acp_done(w->engine, w->handle);
}

int acp_complete(acp_engine *e, acp_handle_t handle, int64_t timeout_ns)
{
    struct handle_wait w = {e, resolve(e, handle)};
    return all_done(&w) ? ACP_OK
                        : progress_wait(e, all_done, &w, timeout_ns, ACP_DOING_COMPLETE);
}

int acp_wait(acp_engine *e, acp_handle_t handle, int64_t timeout_ns)
{
    struct handle_wait w = {e, handle};
    if (!one_done(&w))
        window_help(e, handle);
    return one_done(&w) ? ACP_OK
                        : progress_wait(e, one_done, &w, timeout_ns, ACP_DOING_COMPLETE);
}

static bool has_room(void *context)
{
    acp_engine *e = ((struct handle_wait *)context)->engine;
    return e->last + 2 - e->watermark <= 2 * OPS && !e->backlogged;
}

int acp_wait_room(acp_engine *e, int64_t timeout_ns)
{
    struct handle_wait w = {e, 0};
    return has_room(&w) ? ACP_OK
                        : progress_wait(e, has_room, &w, timeout_ns, ACP_DOING_COMPLETE);
}

uint32_t acp_failures_take(acp_engine *e, acp_handle_t upto, bool alone, acp_failure *out,
                           uint32_t most, uint64_t *more)
{
    uint32_t taken = 0, kept = 0;
    *more = 0;
    pthread_mutex_lock(&e->lock);
    acp_handle_t limit = upto == ACP_HANDLE_ALL ? upto : resolve(e, upto);
    for (uint32_t i = 0; i < e->failure_count; i++) {
        acp_failure f = e->failures[i];
        if (alone ? f.handle != upto : f.handle > limit || f.awaited)
            e->failures[kept++] = f;
        else if (taken < most)
            out[taken++] = f;
        else
            ++*more;
    }
    e->failure_count = kept;
    if (upto == ACP_HANDLE_ALL && !alone) {
        *more += e->failures_dropped;
        e->failures_dropped = 0;
    }
    pthread_mutex_unlock(&e->lock);
    return taken;
}

void acp_await_alone(acp_engine *e, acp_handle_t handle, bool is)
{
    struct op *op = &e->ops[(handle / 2) % OPS];
    pthread_mutex_lock(&e->lock);
    if (op->handle == handle)
        op->awaited = is;
    for (uint32_t i = 0; i < e->failure_count; i++)
        if (e->failures[i].handle == handle)
            e->failures[i].awaited = is;
    pthread_mutex_unlock(&e->lock);
    if (!is) /* it may have been left to who waits */
        progress_kick(e);
}
